package devel

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
)

// testProfile is a profile that allows little.
func testProfile() kernel.Profile {
	none := kernel.AllowList{Names: []string{}}
	return kernel.Profile{
		Name: "strict", TimeoutMS: 30000, AllowedCommands: none, AllowedWriteRoots: none, EnvAllow: none, ModelAdapters: none,
		Isolation: kernel.IsolationFull,
	}
}

// testInput returns an intent that writes two files with short names and runs a command.
func testInput() policy.Input {
	return policy.Input{
		Mode: "plan-only", ModelMode: "none", KernelVersion: "0.1.0",
		Intent: map[string]any{"goal": "build the site"},
		Effects: []kernel.Effect{
			{ID: "write:/actions/0", Kind: "write", Pointer: "/actions/0", Path: "out/summary.md"},
			{ID: "run:/actions/1", Kind: "run", Pointer: "/actions/1", Command: "node", Argv: []string{"node", "build.js"}},
			{ID: "write:/actions/2", Kind: "write", Pointer: "/actions/2", Path: "dist/index.html"},
		},
	}
}

// patient returns the default limits with enough time for a slow machine.
func patient() policy.Limits {
	l := policy.DefaultLimits()
	l.Compile, l.Deadline, l.Grace = time.Minute, time.Minute, time.Minute
	return l
}

// user returns a layer of one module in package gate.user.test.
func user(src string) policy.Layer {
	return policy.Layer{Package: "gate.user.test", Modules: []policy.Module{{Name: "user/test.rego", Source: []byte(src)}}}
}

// denying returns a layer with one deny; body is the text between the braces.
func denying(body string) policy.Layer {
	return user(`package gate.user.test

import future.keywords.not

# METADATA
# title: t
# description: d
# custom:
#   id: A_RULE
deny contains {"id": "A_RULE", "path": "/goal", "msg": "m"} if {
	` + body + "\n}\n")
}

// builtinLayer reads the built-in Rego of this repository.
func builtinLayer(t *testing.T) policy.Layer {
	t.Helper()
	l, err := policy.LoadLayer(policy.Folder{FS: os.DirFS("../../profiles"), Dir: "builtin"}, policy.Builtin, policy.Limits{})
	if err != nil || len(l.Modules) == 0 {
		t.Fatalf("%d modules, error %v", len(l.Modules), err)
	}
	return l
}

// asError requires an error of one kind. Its text must contain want and must not have a
// line break.
func asError(t *testing.T, err error, kind policy.Kind, want string) {
	t.Helper()
	var e *policy.Error
	switch {
	case !errors.As(err, &e):
		t.Fatalf("error is %v, want a *policy.Error that contains %q", err, want)
	case e.Kind != kind:
		t.Errorf("kind is %q, want %q (%v)", e.Kind, kind, e)
	case !strings.Contains(e.Error(), want) || strings.ContainsAny(e.Error(), "\n\r"):
		t.Errorf("error %q does not contain %q in one line", e, want)
	}
}
