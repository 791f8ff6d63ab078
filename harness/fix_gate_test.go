package harness

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// judgeFunc is a policy of the test's own.
type judgeFunc func(policy.Input) (kernel.Verdict, error)

func (f judgeFunc) Eval(_ context.Context, in policy.Input) (kernel.Verdict, error) { return f(in) }

func (f judgeFunc) Explain(ctx context.Context, in policy.Input) (policy.Explanation, error) {
	v, err := f(in)
	return policy.Explanation{Verdict: v}, err
}

func deps(t *testing.T) Deps {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return Deps{
		Now:   func() time.Time { return time.Unix(0, 0) },
		Rand:  strings.NewReader("0123456789abcdef"),
		Specs: set,
	}
}

func gateWith(t *testing.T, d Deps, judge Judge) *Gate {
	t.Helper()
	gate, err := OpenGate(t.Context(), Sources{Builtin: profiles.FS(), Profile: "default"}, d.Specs, policy.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	gate.Judge = judge
	return gate
}

// planned is the request of a plan.
func planned(src, id string) Request {
	return Request{Source: []byte(src), Path: "intent.json", Mode: ModePlanOnly, ModelMode: ModelNone, RunID: id}
}

// openBuiltin is the gate of a built-in profile, with time enough on any machine.
func openBuiltin(t *testing.T, set *specs.Set, name string) *Gate {
	t.Helper()
	gate, err := OpenGate(t.Context(), Sources{Builtin: profiles.FS(), Profile: name}, set, endless())
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

// endless are the default limits with so much time and memory that no machine is
// too slow for them.
func endless() policy.Limits {
	l := policy.DefaultLimits()
	l.Compile, l.Deadline, l.MemoryBytes = time.Hour, time.Hour, 4<<30
	return l
}

// meta is the METADATA of a rule.
func meta(id string) string {
	return "# METADATA\n# title: Title of " + id + "\n# description: Reason of " + id + "\n# custom:\n#   id: " + id + "\n"
}

// quiet is a rule that never fires, so that a layer has one.
func quiet(id string) string {
	return meta(id) + `deny contains {"id": "` + id + `", "path": "", "msg": "m"} if input.intent.context.never` + "\n"
}

// minimal is a profile.json that changes nothing of strict.
const minimal = `{"name":"mine","extends":"strict"}`

// folder is a folder of these files, as messages show it under the name "shown".
func folder(files map[string]string) *policy.Folder {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &policy.Folder{FS: fsys, Dir: ".", Show: "shown"}
}

// mine are sources with a profile of the user's.
func mine(files map[string]string) Sources {
	return Sources{Builtin: profiles.FS(), User: folder(files), File: ProfileFile}
}

// asking is a module that asks about everything.
func asking(pkg string) string {
	return "package " + pkg + "\n\n" + meta("ASK") + `clarify contains {"id": "ASK", "path": "/goal", "question": "sure?"}` + "\n"
}

// runs has deps whose randomness may be read by many runs at once.
func runs(t *testing.T) Deps {
	d := deps(t)
	d.Rand = zeros{}
	return d
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
