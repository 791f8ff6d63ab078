package policy

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// testProfile is a small strict profile.
func testProfile() kernel.Profile {
	return kernel.Profile{
		Name:                "strict",
		TimeoutMS:           30000,
		MaxOutputFiles:      200,
		MaxTotalOutputBytes: 10485760,
		AllowedCommands:     kernel.AllowList{Names: []string{"node", "npm"}},
		AllowedWriteRoots:   kernel.AllowList{Names: []string{"out", "dist", "build"}},
		ExecutionModes:      []string{"plan-only", "execute-sandbox"},
		ModelModes:          []string{"none"},
		ModelAdapters:       kernel.AllowList{Names: []string{}},
		RiskTags:            []string{"destructive"},
		Severity: map[string]kernel.Severity{
			"INLINE_CODE": "deny", "CMD_WRAPPER": "deny", "SHELL_COMMAND": "deny", "PLACEHOLDER": "clarify",
			"AGENT_INSTRUCTIONS": "clarify", "CONTRADICTION": "clarify", "DONE_UNDEFINED": "clarify", "RISK_REVIEW": "clarify",
			"WRITE_TWICE": "clarify", "OUTPUT_UNPRODUCED": "clarify", "INPUT_WRITTEN": "clarify",
		},
		MemoryMB: 512, MaxChildren: 10, CPUCores: 1, Isolation: kernel.IsolationFull,
	}
}

// BuiltinProfile returns a built-in profile. A test file outside of the package sets it,
// because package profile imports this one.
var BuiltinProfile func(name string) kernel.Profile

// testInput returns an intent of about 1 KB with one effect of every kind but call.
func testInput(t testing.TB) Input {
	t.Helper()
	doc, err := canon.Parse([]byte(`{
		"goal": "build the site and write a summary of what changed since the last release",
		"constraints": ["keep the public interface as it is", "all tests pass", "no new dependency"],
		"context": {"ticket": "FI-12", "labels": ["site", "release"], "notes": "`+strings.Repeat("ordinary prose. ", 30)+`"},
		"actions": [
			{"kind": "write", "path": "out/summary.md", "content": "# Summary\n"},
			{"kind": "run", "argv": ["node", "scripts/build.js", "--out", "dist"]},
			{"kind": "write", "path": "dist/index.html", "content": "<p>hello</p>\n"}
		],
		"inputs": ["scripts/build.js"],
		"outputs": ["out/summary.md", "dist/index.html"]
	}`), canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	return Input{
		Mode: "plan-only", ModelMode: "none", KernelVersion: "0.1.0",
		IntentSHA256: string(canon.Sum(doc.Bytes())),
		Intent:       doc.Value(),
		Effects: []kernel.Effect{
			{ID: "write:/actions/0", Kind: "write", Pointer: "/actions/0", Listed: true, Path: "out/summary.md"},
			{ID: "run:/actions/1", Kind: "run", Pointer: "/actions/1", Listed: true, Command: "node", Argv: []string{"node", "scripts/build.js", "--out", "dist"}},
			{ID: "write:/actions/2", Kind: "write", Pointer: "/actions/2", Listed: true, Path: "dist/index.html"},
			{ID: "read:/inputs/0", Kind: "read", Pointer: "/inputs/0", Listed: true, Path: "scripts/build.js"},
			{ID: "write:/outputs/0", Kind: "write", Pointer: "/outputs/0", Listed: true, Path: "out/summary.md"},
			{ID: "write:/outputs/1", Kind: "write", Pointer: "/outputs/1", Listed: true, Path: "dist/index.html"},
		},
	}
}

// builtinLayer reads the built-in Rego of this repository.
func builtinLayer(t testing.TB) Layer {
	t.Helper()
	l, err := LoadLayer(Folder{FS: os.DirFS("../profiles"), Dir: "builtin"}, Builtin, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Modules) == 0 {
		t.Fatal("../profiles/builtin has no module")
	}
	return l
}

// patient returns the default limits with enough time for a slow machine.
func patient() Limits {
	l := DefaultLimits()
	l.Compile, l.Deadline, l.Grace = time.Minute, time.Minute, time.Minute
	return l
}

// user returns a layer of one module in package gate.user.test.
func user(src string) Layer {
	return Layer{Package: "gate.user.test", Modules: []Module{{Name: "user/test.rego", Source: []byte(src)}}}
}

// asError requires an *Error of one kind. Its text must contain want and must not have
// a line break.
func asError(t *testing.T, err error, kind Kind, want string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want an *Error that contains %q", err, want)
	}
	if e.Kind != kind {
		t.Errorf("kind is %q, want %q (%v)", e.Kind, kind, e)
	}
	if !strings.Contains(e.Error(), want) {
		t.Errorf("error %q does not contain %q", e, want)
	}
	if strings.ContainsAny(e.Error(), "\n\r") {
		t.Errorf("error %q has a line break", e)
	}
	return e
}

func newEngine(t testing.TB, layers ...Layer) *Engine {
	t.Helper()
	e, err := New(context.Background(), testProfile(), layers, patient())
	if err != nil {
		t.Fatal(err)
	}
	return e
}
