package grade_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/grade/judge"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

const aHash = canon.ContentHash("sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")

// dressed returns a comparison with what its caller sets.
func dressed(c grade.Comparison) grade.Comparison {
	c.EvaluatedAt, c.EvaluatorVersion = "2026-01-02T03:04:05Z", "0.1.0"
	side := grade.Side{RunIDs: []string{"r-01"}, RunSHA256: []canon.ContentHash{aHash}, Sealed: true, SignedBy: []string{"k+0123abcd"}}
	c.Baseline, c.New = &side, side
	c.ChangedProvenance = []grade.Change{{Name: "provenance.model", From: "a", To: ""}}
	return c
}

// fullComparison returns a comparison that has every member.
func fullComparison() grade.Comparison {
	limits := grade.DefaultLimits()
	limits.MaxFlaky, limits.MinPassRate, limits.MaxWeakRate = new(1), new(0.5), new(0.25)
	refused := grade.Action{Subject: "events[2]", Tool: "refund", Outcome: "REFUSE", Reasons: []string{"a"}, Executed: true, IntentSHA256: aHash}
	latest := times(1, 3)
	latest[0].Actions = []grade.Action{refused}
	old, now := "events[0]", "final_output"
	divergence := &grade.Divergence{Kind: "arguments", Tool: "refund", Baseline: &old, New: &now, Pointer: "/a", From: "1", To: "2", Headline: "refund: argument /a changed"}
	pair := grade.Pair{
		Case: trial.Case{ID: "a", Title: "A", Suite: "s", Severity: "critical"}, Baseline: times(2, 3), New: latest,
		Alignment: &grade.Alignment{Rows: []grade.Row{{Mark: grade.OnlyNew}}, Divergence: divergence},
	}
	// The cause on baseline has an empty evidence; that on new has a place.
	pair.New[1].Cause = &grade.RootCause{Name: "tool_failure", Confidence: "medium", Evidence: []string{"events[3]"}}
	pair.Baseline[2].Cause = &grade.RootCause{Name: "unknown", Confidence: "low", Evidence: []string{}}
	return dressed(grade.Compare([]grade.Pair{pair}, limits, false))
}

// fullEvaluation returns an evaluation that has every member.
func fullEvaluation() grade.Evaluation {
	provenance := result.Provenance{ProfileSHA256: aHash, CapabilitiesSHA256: aHash, ToolsSHA256: aHash, Modules: []result.ModuleDigest{{Name: "builtin/a.rego", SHA256: aHash}}}
	provenance.Limits.CPUCores, provenance.Limits.Isolation, provenance.Limits.MaxChildren, provenance.Limits.MaxOutputFiles = 1, "full", 1, 1
	provenance.Limits.MaxTotalOutputBytes, provenance.Limits.MemoryMB, provenance.Limits.TimeoutMS = 1024, 64, 1000
	return grade.Evaluation{
		SchemaVersion: grade.EvaluationVersion, RunID: "r-01", Version: trial.New, EvaluatedAt: "2026-01-02T03:04:05Z", EvaluatorVersion: "0.1.0",
		CasesSHA256: aHash, RunSHA256: aHash, PolicyProvenance: &provenance, Summary: map[grade.Verdict]int{grade.Fail: 1},
		Cases: []grade.EvaluatedCase{{
			CaseID: "a", Verdict: grade.Fail, Notes: []string{"semantic is not judged: it belongs to another evaluator"},
			Assertions: []grade.Assertion{{ID: "must_include:0", Kind: "must_include", Outcome: grade.Failed, Reason: "the output does not have the text", Expected: "a", Actual: "b", Evidence: []string{"final_output"}}},
			RootCause:  &grade.RootCause{Name: "output_mismatch", Confidence: "medium", Evidence: []string{"final_output"}},
			Actions:    []grade.Action{{Subject: "proposed_actions[0]", Tool: "t", Outcome: "BUNDLE", Reasons: []string{}, IntentSHA256: aHash}},
		}},
	}
}

// omitted are the members that a document may leave out, each with the member that it stands in.
var omitted = strings.Fields(`policy_provenance cases/root_cause assertions/expected assertions/actual actions/intent_sha256
	tools_sha256 baseline/signed_by new/signed_by cases/title cases/suite cases/severity cases/confidence cases/p cases/p_adjusted cases/baseline cases/new
	cases/trace cases/divergence baseline/root_cause new/root_cause baseline/actions new/actions divergence/tool divergence/pointer divergence/from divergence/to
	limits/max_flaky limits/min_pass_rate limits/max_weak_rate pass_share/baseline pass_share/new answers/baseline answers/new summary/fail classes/regression classes/flaky_worse`)

// mayLack says whether the member at the end of a path may be absent.
func mayLack(way []string) bool {
	names := slices.DeleteFunc(slices.Clone(way), func(s string) bool { _, err := strconv.Atoi(s); return err == nil })
	last := names[len(names)-1]
	return slices.Contains(omitted, last) || len(names) > 1 && slices.Contains(omitted, names[len(names)-2]+"/"+last)
}

// TestDocumentsFitTheirSchemas: a document with every member is valid. Without a member it is
// refused, unless the member may be absent, and so is a document with a member more.
func TestDocumentsFitTheirSchemas(t *testing.T) {
	set := specstest.NewSpecs(t)
	comparison, err := fullComparison().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	evaluation, err := fullEvaluation().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for kind, src := range map[specs.Kind][]byte{specs.KindSuiteCompare: comparison, specs.KindSuiteEvaluation: evaluation} {
		whole := specstest.Valid(t, set, kind, src)
		refused, lacking := 0, map[string]bool{}
		for _, way := range specstest.PlacesOf(whole, nil) {
			object, is := valueAt(whole, way).(map[string]any)
			if !is {
				continue
			}
			more := maps.Clone(object)
			more["unknown"] = "x"
			if fits(t, set, kind, specstest.Replaced(whole, way, more)) {
				t.Errorf("%s: an unknown member at %v is not refused", kind, way)
			}
			for name := range object {
				less := maps.Clone(object)
				delete(less, name)
				member := append(slices.Clone(way), name)
				valid := fits(t, set, kind, specstest.Replaced(whole, way, less))
				if valid != mayLack(member) {
					t.Errorf("%s without %v: valid is %t", kind, member, valid)
				}
				if lacking[name] = true; !valid {
					refused++
				}
			}
		}
		t.Logf("%s: %d members, of which %d are required where they stand", kind, len(lacking), refused)
		if refused < 30 {
			t.Errorf("%s: only %d members are required", kind, refused)
		}
	}
}

func valueAt(v any, way []string) any {
	for _, name := range way {
		switch c := v.(type) {
		case map[string]any:
			v = c[name]
		case []any:
			i, _ := strconv.Atoi(name)
			v = c[i]
		}
	}
	return v
}

func fits(t *testing.T, set *specs.Set, kind specs.Kind, v any) bool {
	t.Helper()
	list, err := set.Validate(kind, v)
	if err != nil {
		t.Fatal(err)
	}
	return len(list) == 0
}

// TestComparisonsFitTheSchema: what Compare returns of the vectors and of generated cases is valid.
func TestComparisonsFitTheSchema(t *testing.T) {
	set := specstest.NewSpecs(t)
	valid := func(pairs []grade.Pair) {
		t.Helper()
		for _, p := range pairs { // vectors and generator set what classes and gates look at alone
			for _, run := range slices.Concat(p.Baseline, p.New) {
				if run.Cause != nil {
					run.Cause.Confidence = "medium"
				}
				for i := range run.Actions {
					run.Actions[i].Subject, run.Actions[i].Reasons = "events[0]", []string{}
				}
			}
		}
		src, err := dressed(grade.Compare(pairs, grade.DefaultLimits(), false)).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		specstest.Valid(t, set, specs.KindSuiteCompare, src)
	}
	for _, file := range []string{"classes.json", "gates.json"} {
		src, err := os.ReadFile(filepath.Join("../../specs/vectors/evaluation", file))
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Vectors []struct{ Cases []vectorCase }
		}
		if err := json.Unmarshal(src, &v); err != nil || len(v.Vectors) < 30 {
			t.Fatalf("%s: %d vectors, %v", file, len(v.Vectors), err)
		}
		for _, v := range v.Vectors {
			valid(pairsOf(v.Cases))
		}
	}
	r := rand.New(rand.NewPCG(7, 99))
	for range 200 {
		var pairs []grade.Pair
		for i := range r.IntN(12) {
			pairs = append(pairs, generated(r, i))
		}
		valid(pairs)
	}
	c := dressed(grade.Compare(nil, grade.DefaultLimits(), false))
	c.Baseline = nil
	src, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	specstest.Valid(t, set, specs.KindSuiteCompare, src)
}

// TestJudgementsFitTheSchema: what Judge returns is valid, whatever the agent says.
func TestJudgementsFitTheSchema(t *testing.T) {
	decode := func(src string) map[string]any {
		v, err := canon.ParseLiteral([]byte(src), len(src), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return v.(map[string]any)
	}
	long := strings.Repeat("\u00e4", 5000)
	expected := decode(`{"policy":{"t":"BUNDLE","u":"REFUSE"},"action_required":["a","` + long + `"],"tool_required":["t"],"tool_forbidden":["t"],"tool_sequence":["u"],"tool_success":true,
		"max_tool_calls":0,"max_latency_ms":1,"max_tokens":1,"trace_integrity":true,"json_schema":{"type":"object"},"must_include":["` + long + `","regex:("],"must_not_include":["a"],
		"equals":"","json_equals":{"value":[1]},"retrieval_required":{"doc_ids":["d"]},"evidence_required_for_actions":true,"semantic":1}`)
	c := trial.Case{ID: "a", Expected: expected, NotJudged: []string{"semantic"}}
	e, kinds := fullEvaluation(), map[string]bool{}
	e.Cases, e.Summary = nil, map[grade.Verdict]int{}
	for _, doc := range []map[string]any{
		nil,
		decode(`{"status":"ok"}`),
		decode(`{"status":"ok","events":[1,{"type":"tool_call","tool":"` + long + `"},{"type":"tool_result","call_id":3}],"proposed_actions":[{"tool_name":"t"}],"final_output":{"content":"` + long + `a"},"evidence_unresolved":["","/events/1",{}]}`),
		decode(`{"status":"runner_error","runner_failure":{"class":"timeout"}}`),
		decode(`{"status":"runner_error","runner_failure":{"class":"schema_mismatch","error_name":"evidence_unresolved"}}`),
		decode(`{"status":"runner_error"}`),
	} {
		given := grade.Given{Policy: true, Actions: []grade.Action{}, Schema: func(_, _ any) (string, error) { return long, nil }}
		for _, s := range judge.Subjects(doc) {
			given.Actions = append(given.Actions, grade.Action{Subject: s.Place, Tool: s.Tool, Outcome: grade.Undecided, Reasons: []string{}, Executed: s.Executed})
		}
		run := judge.Judge(c, grade.Artifact{Doc: doc}, given)
		for _, a := range run.Assertions {
			kinds[a.Kind] = true
		}
		e.Cases = append(e.Cases, grade.EvaluatedCase{CaseID: c.ID, Verdict: run.Verdict, Assertions: run.Assertions, RootCause: run.Cause, Notes: run.Notes, Actions: run.Actions})
		e.Summary[run.Verdict]++
	}
	src, err := e.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	specstest.Valid(t, specstest.NewSpecs(t), specs.KindSuiteEvaluation, src)
	if len(kinds) != 18 {
		t.Errorf("%d kinds of assertions", len(kinds))
	}
}

// TestMeaningsAreThoseOfTheSchemas: every word that the schemas list has a meaning, and no other.
func TestMeaningsAreThoseOfTheSchemas(t *testing.T) {
	definitions := func(name string) any {
		src, _ := specs.Schema(name)
		doc, err := canon.Parse(src, len(src))
		if err != nil {
			t.Fatal(err)
		}
		return doc.Value().(map[string]any)["definitions"]
	}
	evaluation, comparison := definitions("suite-evaluation"), definitions("suite-compare")
	for kind, enum := range map[grade.MeaningKind]any{
		grade.OfAssertion: valueAt(evaluation, strings.Split("assertion/properties/kind/enum", "/")),
		grade.OfClass:     valueAt(comparison, strings.Split("case/properties/class/enum", "/")),
		grade.OfGate:      valueAt(comparison, strings.Split("reason/properties/code/enum", "/")),
		grade.OfRootCause: valueAt(evaluation, strings.Split("root_cause/properties/name/enum", "/")),
	} {
		var listed, explained []string
		for _, one := range enum.([]any) {
			listed = append(listed, one.(string))
		}
		for _, m := range grade.Meanings() {
			if m.Kind != kind {
				continue
			}
			explained = append(explained, m.ID)
			for _, text := range []string{m.Title, m.Why, m.Fix} {
				if strings.TrimSpace(text) == "" || strings.HasSuffix(text, ".") {
					t.Errorf("%s %s says %q", kind, m.ID, text)
				}
			}
		}
		if !slices.Equal(listed, explained) || len(listed) < 13 {
			t.Errorf("%s: the schema lists %q, and %q have a meaning", kind, listed, explained)
		}
	}
}
