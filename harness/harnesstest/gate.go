package harnesstest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// JudgeFunc is a policy that a test makes.
type JudgeFunc func(policy.Input) (kernel.Verdict, error)

func (f JudgeFunc) Eval(_ context.Context, in policy.Input) (kernel.Verdict, error) { return f(in) }

func (f JudgeFunc) Explain(ctx context.Context, in policy.Input) (policy.Explanation, error) {
	v, err := f(in)
	return policy.Explanation{Verdict: v}, err
}

// Deps returns effects that repeat: a clock that stands still, and fixed randomness.
func Deps(t *testing.T) harness.Deps {
	t.Helper()
	return harness.Deps{
		Now:   func() time.Time { return time.Unix(0, 0) },
		Rand:  strings.NewReader("0123456789abcdef"),
		Specs: specstest.NewSpecs(t),
	}
}

// GateWith returns the gate of the default profile, with a policy that the test makes.
func GateWith(t *testing.T, d harness.Deps, judge harness.Judge) *harness.Gate {
	t.Helper()
	gate := OpenBuiltin(t, d.Specs, "default")
	gate.Judge = judge
	return gate
}

// compiled has the gates of the built-in profiles that a test asked for.
var compiled = struct {
	sync.Mutex
	gates map[string]*harness.Gate
}{gates: map[string]*harness.Gate{}}

// Planned returns the request of a plan.
func Planned(src, id string) harness.Request {
	return harness.Request{Source: []byte(src), Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone, RunID: id}
}

// OpenBuiltin returns the gate of a built-in profile, with enough time on any machine. Its
// policy is compiled once for all tests of a package. The gate is the test's own, which may
// set its fields but must not change the values that they share.
func OpenBuiltin(t *testing.T, set *specs.Set, name string) *harness.Gate {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.gates[name] == nil {
		gate, err := harness.OpenGate(context.Background(), harness.Sources{Builtin: profiles.FS(), Profile: name}, set, Endless())
		if err != nil {
			t.Fatal(err)
		}
		compiled.gates[name] = gate
	}
	return Copy(compiled.gates[name])
}

// Copy returns a gate with the same fields, which has recorded nothing yet.
func Copy(g *harness.Gate) *harness.Gate {
	return &harness.Gate{Profile: g.Profile, Builtin: g.Builtin, Base: g.Base, Layers: g.Layers, Provenance: g.Provenance, Judge: g.Judge, IDs: g.IDs}
}

// Endless returns the default limits, with enough time and memory for any machine.
func Endless() policy.Limits {
	l := policy.DefaultLimits()
	l.Compile, l.Deadline, l.MemoryBytes = time.Hour, time.Hour, 4<<30
	return l
}

// Meta returns the METADATA of a rule.
func Meta(id string) string {
	return "# METADATA\n# title: Title of " + id + "\n# description: Reason of " + id + "\n# custom:\n#   id: " + id + "\n"
}

// Quiet returns a rule that never fires, for a layer that must have a rule.
func Quiet(id string) string {
	return Meta(id) + `deny contains {"id": "` + id + `", "path": "", "msg": "m"} if input.intent.context.never` + "\n"
}

// Minimal is a profile.json that changes nothing of strict.
const Minimal = `{"name":"mine","extends":"strict"}`

// Folder returns a folder of these files. Messages show the folder as "shown".
func Folder(files map[string]string) *policy.Folder {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &policy.Folder{FS: fsys, Dir: ".", Show: "shown"}
}

// Mine returns sources with a profile of the user.
func Mine(files map[string]string) harness.Sources {
	return harness.Sources{Builtin: profiles.FS(), User: Folder(files), File: harness.ProfileFile}
}

// Asking returns a module that asks about every intent.
func Asking(pkg string) string {
	return "package " + pkg + "\n\n" + Meta("ASK") + `clarify contains {"id": "ASK", "path": "/goal", "question": "sure?"}` + "\n"
}

// Runs returns effects that many runs can use at once.
func Runs(t *testing.T) harness.Deps {
	d := Deps(t)
	d.Rand = Zeros{}
	return d
}

type Zeros struct{}

func (Zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
