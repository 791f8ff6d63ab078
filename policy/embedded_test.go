package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/profiles"
)

// vectorInputs returns the policy's input, under a profile, for every decision vector with a readable
// intent.
func vectorInputs(t *testing.T, p kernel.Profile) []Input {
	t.Helper()
	paths, err := filepath.Glob("../specs/vectors/run/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var inputs []Input
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Vectors []struct {
				Intent json.RawMessage `json:"intent"`
				Text   string          `json:"intent_text"`
			} `json:"vectors"`
		}
		if err := json.Unmarshal(src, &file); err != nil {
			t.Fatal(err)
		}
		for _, v := range file.Vectors {
			doc, err := canon.Parse(append(slices.Clone(v.Intent), v.Text...), canon.MaxIntentBytes)
			if err != nil {
				continue
			}
			intent, err := kernel.ParseIntent(doc.Value())
			if err != nil {
				continue
			}
			inputs = append(inputs, Input{
				Mode: "plan-only", ModelMode: "none", KernelVersion: "0.1.0", IntentSHA256: string(canon.Sum(doc.Bytes())),
				Intent: doc.Value(), Effects: intent.Effects(p), Findings: intent.FindingsUnder(p),
			})
		}
	}
	return inputs
}

// bothEngines returns two engines of the built-in policy: one made every check, and the
// other treats the layer as embedded.
func bothEngines(t *testing.T, p kernel.Profile) (full, embedded *Engine) {
	t.Helper()
	l := builtinLayer(t)
	var err error
	for _, e := range []**Engine{&full, &embedded} {
		if *e, err = New(context.Background(), p, []Layer{l}, patient()); err != nil {
			t.Fatal(err)
		}
		l.Embedded = true
	}
	return full, embedded
}

// TestEmbeddedLayer proves that the built-in policy passes every check of a layer.
// Without the checks, every verdict and every record is the same. In the short form, each
// intent is decided under one of the profiles.
func TestEmbeddedLayer(t *testing.T) {
	for n, profile := range profiles.Names() {
		p := BuiltinProfile(profile)
		inputs := vectorInputs(t, p)
		if len(inputs) < 350 {
			t.Fatalf("%d intents", len(inputs))
		}
		full, embedded := bothEngines(t, p)
		var permits, denies, clarifies, notes int
		for i, in := range inputs {
			if i%rehearsal.Stride(3) != n%rehearsal.Stride(3) {
				continue
			}
			want, err := full.Eval(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := embedded.Eval(context.Background(), in)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the verdict on %v is\n%+v (error %v)\nwant\n%+v", profile, in.Intent, got, err, want)
			}
			permits, denies, clarifies, notes = permits+len(got.Permits), denies+len(got.Deny), clarifies+len(got.Clarify), notes+len(got.Note)
		}
		if permits == 0 || denies == 0 || clarifies == 0 || profile == "dev" && notes == 0 {
			t.Errorf("%s: %d permits, %d denies, %d clarifies and %d notes", profile, permits, denies, clarifies, notes)
		}
		want, err := full.Rules()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := embedded.Rules(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("records are\n%+v (error %v)\nwant\n%+v", got, err, want)
		}
		if got, want := embedded.Provenance(), full.Provenance(); !reflect.DeepEqual(got, want) {
			t.Errorf("provenance is\n%+v\nwant\n%+v", got, want)
		}
	}
}

// TestEmbeddedErrors: an embedded layer without a stored form is parsed and checked like
// every other layer.
func TestEmbeddedErrors(t *testing.T) {
	l := user("")
	l.Embedded = true
	for _, src := range []string{
		head0 + `deny contains {"id": "A_RULE", "path": "", "msg": "m"} if input.mode == "execute-sandbox"`, head0 + "deny contains", "",
		head0 + "x := 1", head0 + `deny contains 1`, head0 + deny("A_RULE", "x := 1; x := x + 1"),
	} {
		l.Modules[0].Source = []byte(src)
		_, err := New(context.Background(), testProfile(), []Layer{l}, patient())
		asError(t, err, KindModule, "user/test.rego")
	}
}

// TestLazyInput compares the document of an embedded layer with that of other layers,
// in every way in which a rule can read it. Reading changes nothing in the intent.
func TestLazyInput(t *testing.T) {
	reads := []string{
		"input", "input.intent", "input.intent.context", "input.intent.actions[1]", "input.intent.context.labels[_]",
		"count(input)", "count(input.intent)", "[k | some k, _ in input.intent]", "[v | some v in input.intent.context]",
		"[[p, v] | walk(input, [p, v])]", "json.marshal(input.intent)", `sprintf("%v", [input.intent.context])`,
		"object.keys(input.intent)", `object.get(input.intent, "context", 1)`, `object.get(input, ["intent", "context", "labels", 1], 1)`,
		`object.union(input.intent, {"goal": "other", "context": {"ticket": 1}})`, `object.remove(input.intent, ["goal"])`,
		`object.filter(input.intent, ["goal", "context"])`, `json.remove(input.intent, ["/context/ticket"])`, `json.filter(input, ["intent/context"])`,
		"input.intent.context == input.intent.context", "input.intent == json.unmarshal(json.marshal(input.intent))",
		"{input.intent.context, input.intent}", "{input.intent: input.intent.context}", "[input.intent.context][_].ticket",
		"[input.intent.goal, input.intent]", "[input.intent, input.intent.context.ticket, input.intent.context]",
		`[k | input.intent[k] == "build the site and write a summary of what changed since the last release"]`,
		"is_object(input.intent)", "type_name(input.intent.context)", "input.intent.context.none", "input.intent.context[0]",
		"sort([input.intent.context, input.intent])", "input.effects[_].path", "input.findings",
		`"FI-12" in input.intent.context`, `input.intent.context[_] == "FI-12"`, `"site" in input.intent.context.labels`,
		`input.intent.context.ticket == "FI-12"`, `input.intent.context == {"ticket": "FI-12"}`, `startswith(input.intent.context.ticket, "FI")`,
		`input.intent.context in [input.intent.context]`, `input.intent.actions[0].content == "# Summary\n"`,
	}
	in := testInput(t)
	in.Intent.(map[string]any)["numbers"] = []any{json.Number("1.5"), json.Number("1e21"), json.Number("0"), nil, true, map[string]any{}}
	in.Findings = []kernel.Finding{{Code: "placeholder", Path: "/goal", Value: "<x>"}}
	before, err := canon.Canonical(in.Intent)
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range reads {
		e := newEngine(t, user(head0+record("A_RULE")+`note contains {"id": "A_RULE", "path": "", "msg": json.marshal(x)} if x := `+read+"\n"+
			record("B_RULE")+`note contains {"id": "B_RULE", "path": "", "msg": "true"} if { true; `+read+" }\n"))
		var got [2]string
		for i, embedded := range []bool{false, true} {
			input, err := inputTerm(in.Document(), embedded)
			if err != nil {
				t.Fatal(err)
			}
			values, err := e.layers[0].answers(context.Background(), nil, e.store, input)
			got[i] = fmt.Sprint(values, err)
		}
		if got[0] != got[1] {
			t.Errorf("%s: is\n%s\nwant\n%s", read, got[1], got[0])
		}
	}
	after, err := canon.Canonical(in.Intent)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the intent is %s (error %v), and was %s", after, err, before)
	}
}

// TestLazyInputFails reads a member of a type that JSON does not have.
func TestLazyInputFails(t *testing.T) {
	l := user(head0 + deny("A_RULE", "input.intent.context.x"))
	in := Input{Intent: map[string]any{"context": map[string]any{"x": make(chan int)}}}
	for _, embedded := range []bool{false, true} {
		l.Embedded = embedded
		_, err := newEngine(t, l).Eval(context.Background(), in)
		want := "the intent is not a decoded document"
		if embedded {
			want = "evaluating the policy failed inside the policy engine"
		}
		asError(t, err, KindEval, want)
	}
}

// TestWithIsAlone replaces a member of the input. No other expression may see the
// replacement.
func TestWithIsAlone(t *testing.T) {
	e := newEngine(t,
		user(head0+deny("A_RULE", `input.intent.goal == "x" with input.intent.goal as "x"`+"\n\tinput.intent.goal == \"x\"")),
		Layer{Package: "gate.user.other", Modules: []Module{{Name: "user/other.rego", Source: []byte("package gate.user.other\n" +
			deny("B_RULE", `input.intent.goal == "x"`))}}},
	)
	v, err := e.Eval(context.Background(), testInput(t))
	if err != nil || len(v.Deny) > 0 {
		t.Errorf("verdict is %+v, error %v", v, err)
	}
}
