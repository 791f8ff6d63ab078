package policy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
)

// permits returns a layer of two modules with four permits. For each effect none, one
// or two of them hold.
func permits() Layer {
	return Layer{Package: Builtin, Modules: []Module{
		{Name: "builtin/b.rego", File: "src/b.rego", Source: []byte(`package gate.builtin

# METADATA
# title: Beneath out
# description: Nobody minds
permit contains e.id if {
	some e in writes
	startswith(e.path, "out/")
}

# METADATA
# title: Never
# description: It does not hold
permit contains "read:/inputs/9" if input.mode == "never"
`)},
		{Name: "builtin/a.rego", Source: []byte(`package gate.builtin

writes contains e if {
	some e in input.effects
	e.kind == "write"
}

permit contains e.id if some e in writes

# METADATA
# title: Inputs
# description: They are read only
permit contains e.id if {
	some e in input.effects
	e.kind == "read"
}

` + record("NO_RUN") + `deny contains {"id": "NO_RUN", "path": e.pointer, "msg": e.command} if {
	some e in input.effects
	e.kind == "run"
}
`)},
	}}
}

// TestEngineExplain shows every member of an explanation.
func TestEngineExplain(t *testing.T) {
	mine := user(head0 + strings.Replace(record("ASK"), "#   id: ASK", "#   id: ASK\n#   fix: say it", 1) +
		`clarify contains {"id": "ASK", "path": "/goal", "question": "which?"}

note contains {"id": "ASK", "path": "", "msg": m} if {
	some m in ["b", "a"]
}

` + strings.Replace(record("STOP"), "#   id: STOP", "#   id: STOP\n#   fix: of the record", 1) +
		`deny contains {"id": "STOP", "path": "/goal", "msg": m, "fix": f} if {
	some [m, f] in [["own", "of the answer"], ["none", ""]]
}
`)
	mine.Modules[0].File = "mine/test.rego"
	e := newEngine(t, mine, permits())
	x, err := e.Explain(context.Background(), testInput(t))
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Eval(context.Background(), testInput(t))
	if err != nil || !reflect.DeepEqual(x.Verdict, v) {
		t.Errorf("verdict is\n%+v\nwant\n%+v (error %v)", x.Verdict, v, err)
	}
	var fired []string
	for _, f := range x.Fired {
		fired = append(fired, fmt.Sprintf("%s %s %s %q %q %s:%d %s", f.Rule, f.Module, f.ID, f.Text, f.Fix, f.Place.Module, f.Place.Line, f.Place.File))
	}
	want := []string{
		`deny gate.builtin NO_RUN "node" "" builtin/a.rego:23 `,
		`deny gate.user.test STOP "none" "of the record" user/test.rego:23 mine/test.rego`,
		`deny gate.user.test STOP "own" "of the answer" user/test.rego:23 mine/test.rego`,
		`clarify gate.user.test ASK "which?" "say it" user/test.rego:11 mine/test.rego`,
		`note gate.user.test ASK "a" "say it" user/test.rego:13 mine/test.rego`,
		`note gate.user.test ASK "b" "say it" user/test.rego:13 mine/test.rego`,
	}
	if !slices.Equal(fired, want) {
		t.Errorf("fired\n%s\nwant\n%s", strings.Join(fired, "\n"), strings.Join(want, "\n"))
	}
	inputs := Permit{"read:/inputs/0", "Inputs", "They are read only", Place{"builtin/a.rego", "", 13}}
	bare := func(id string) Permit { return Permit{id, "", "", Place{"builtin/a.rego", "", 8}} }
	out := func(id string) Permit {
		return Permit{id, "Beneath out", "Nobody minds", Place{"builtin/b.rego", "src/b.rego", 6}}
	}
	wantPermits := []Permit{
		inputs,
		bare("write:/actions/0"), out("write:/actions/0"), bare("write:/actions/2"),
		bare("write:/outputs/0"), out("write:/outputs/0"), bare("write:/outputs/1"),
	}
	if !reflect.DeepEqual(x.Permits, wantPermits) {
		t.Errorf("permits are\n%+v\nwant\n%+v", x.Permits, wantPermits)
	}
}

// TestExplainAgrees explains the policy's input of every vector. An explanation has the
// permits of the verdict, and each answer once.
func TestExplainAgrees(t *testing.T) {
	p := BuiltinProfile("default")
	e, _ := bothEngines(t, p)
	inputs := vectorInputs(t, p)
	permitted := 0
	for i := 0; i < len(inputs); i += 9 * rehearsal.Stride(3) {
		x, err := e.Explain(context.Background(), inputs[i])
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, p := range x.Permits {
			ids = append(ids, p.Effect)
		}
		permitted += len(ids)
		if ids = slices.Compact(ids); !slices.Equal(ids, x.Verdict.Permits) && len(ids)+len(x.Verdict.Permits) > 0 {
			t.Errorf("permits of %v, the verdict has %v", ids, x.Verdict.Permits)
		}
		var fired []kernel.Result
		for _, f := range x.Fired {
			fired = append(fired, f.Result)
		}
		if want := slices.Concat(x.Verdict.Deny, x.Verdict.Clarify, x.Verdict.Note); !reflect.DeepEqual(fired, want) {
			t.Errorf("fired\n%+v\nwant\n%+v", fired, want)
		}
	}
	if permitted == 0 {
		t.Error("no effect is permitted")
	}
}

// TestExplainErrors: without a verdict there is no explanation.
func TestExplainErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		layer Layer
		kind  Kind
		want  string
	}{
		{"built-in error", context.Background(), builtin(`permit contains e.id if { some e in input.effects; to_number(e.id) == 1 }`), KindEval, "builtin/test.rego:2: "},
		{"permit of no effect", context.Background(), builtin("permit contains e.id if some e in input.effects\npermit contains \"x\""), KindEval, "names no effect"},
		{"answer without a path", context.Background(), user(head0 + deny("A_RULE", "input.mode") + `note contains {"id": "A_RULE", "path": "/none", "msg": "m"}`), KindEval, "is no place in the intent"},
		{"cancelled", cancelled, builtin("permit contains e.id if some e in input.effects"), KindTimeout, "cancelled by the caller"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x, err := newEngine(t, test.layer).Explain(test.ctx, testInput(t))
			asError(t, err, test.kind, test.want)
			if !reflect.DeepEqual(x, Explanation{}) {
				t.Errorf("an explanation stands beside the error: %+v", x)
			}
		})
	}
}

// TestExplainWithoutPermits: only the built-in layer permits, and only effects are
// permitted.
func TestExplainWithoutPermits(t *testing.T) {
	in := testInput(t)
	x, err := newEngine(t, user(head0+deny("A_RULE", "input.mode"))).Explain(context.Background(), in)
	if err != nil || x.Permits != nil || len(x.Fired) != 1 {
		t.Errorf("%+v, error %v", x, err)
	}
	in.Effects = nil
	x, err = newEngine(t, permits()).Explain(context.Background(), in)
	if err != nil || x.Permits != nil || x.Fired != nil {
		t.Errorf("%+v, error %v", x, err)
	}
}

// TestExplainConcurrent: an explanation changes nothing that another evaluation reads.
func TestExplainConcurrent(t *testing.T) {
	e := newEngine(t, permits())
	in := testInput(t)
	want, err := e.Explain(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				if i%2 == 0 {
					if v, err := e.Eval(context.Background(), in); err != nil || !reflect.DeepEqual(v, want.Verdict) {
						t.Errorf("verdict %+v, error %v", v, err)
					}
				} else if x, err := e.Explain(context.Background(), in); err != nil || !reflect.DeepEqual(x, want) {
					t.Errorf("explanation %+v, error %v", x, err)
				}
			}
		})
	}
	wg.Wait()
}
