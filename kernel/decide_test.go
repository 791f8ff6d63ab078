package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

const twoSteps = `{"goal":"g","constraints":["c"],"actions":[{"kind":"run","argv":["node","x.js"]},{"kind":"write","path":"out/a","content":""}]}`

func TestDecideNeedsAPermitForEveryEffect(t *testing.T) {
	in := parse(t, twoSteps)
	all := permitAll(in)
	for _, tc := range []struct {
		name    string
		verdict Verdict
		reasons string
	}{
		{"nothing permitted", Verdict{}, "NOT_PERMITTED /actions/0|NOT_PERMITTED /actions/1"},
		{"one permitted", Verdict{Permits: []string{"write:/actions/1"}}, "NOT_PERMITTED /actions/0"},
		{"another kind permitted", Verdict{Permits: []string{"write:/actions/0", "run:/actions/0"}}, "NOT_PERMITTED /actions/1"},
		{"a denial stands for its effect", Verdict{Permits: all.Permits[1:], Deny: []Result{{ID: "X", Path: "/actions/0/argv/0", Title: "T"}}}, "X /actions/0/argv/0"},
		{"a denial beside an effect does not", Verdict{Permits: all.Permits[1:], Deny: []Result{{ID: "X", Path: "/actions/00", Title: "T"}}}, "NOT_PERMITTED /actions/0|X /actions/00"},
		{"denied although permitted", Verdict{Permits: all.Permits, Deny: []Result{{ID: "X", Path: "/goal", Title: "T"}}}, "X /goal"},
		{"denied and asked", Verdict{Permits: all.Permits, Deny: []Result{{ID: "X", Path: "/goal", Title: "T"}}, Clarify: []Result{{ID: "Q", Path: "/goal", Text: "?"}}}, "X /goal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(t, in, tc.verdict)
			if d.Outcome != OutcomeRefuse || d.Bundle != nil || strings.Join(d.Reasons, "|") != tc.reasons {
				t.Errorf("%s %q", d.Outcome, d.Reasons)
			}
			if !strings.HasPrefix(d.RefuseReason, d.Reasons[0]+": ") {
				t.Errorf("refuse reason %q does not begin with the first reason", d.RefuseReason)
			}
			if rec := Conclude(d, nil); rec.Accepted || !rec.ValidatedByKernel {
				t.Errorf("record %+v", rec)
			}
		})
	}
	if d := decide(t, in, all); d.Outcome != OutcomeBundle || !Conclude(d, nil).Accepted || len(d.Reasons) != 0 {
		t.Errorf("with every permit: %s %q", d.Outcome, d.Reasons)
	}
}

func TestQuestionsAreOrderedAndAskedOnce(t *testing.T) {
	in := parse(t, twoSteps)
	v := permitAll(in)
	v.Clarify = []Result{
		{ID: "A", Path: "/actions/1", Text: "low?", Priority: 10},
		{ID: "B", Path: "/goal", Text: "same?", Why: "w", Priority: 60},
		{ID: "C", Path: "/goal", Text: "high?", Priority: 90, Options: []string{"a", "b"}},
		{ID: "B", Path: "/constraints/0", Text: "same?", Why: "w", Priority: 70},
	}
	d := decide(t, in, v)
	if got, want := d.Questions(), []string{"high?", "same?", "low?"}; !slices.Equal(got, want) {
		t.Errorf("questions %q, want %q", got, want)
	}
	if got, want := d.Reasons, []string{"A /actions/1", "B /constraints/0", "B /goal", "C /goal"}; !slices.Equal(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
	first := d.Bundle.UnresolvedQuestions[0]
	if first.ExpectedAnswerType != "choice" || first.InformationGain != 90 {
		t.Errorf("question %+v", first)
	}
	if d.Bundle.Status != "incomplete" || len(d.Bundle.TerminalNodes) != 0 || len(d.Bundle.Outputs) != 0 || d.Bundle.RootNode.Status != "blocked" {
		t.Errorf("bundle %+v", d.Bundle)
	}
}

// TestOneQuestion: one question asks for an answer, as several questions do.
func TestOneQuestion(t *testing.T) {
	in := parse(t, twoSteps)
	v := permitAll(in)
	v.Clarify = []Result{{ID: "A", Path: "/goal", Text: "which?"}}
	d := decide(t, in, v)
	if d.Outcome != OutcomeClarify || !slices.Equal(d.Questions(), []string{"which?"}) || !slices.Equal(d.Reasons, []string{"A /goal"}) {
		t.Errorf("%s %q %q", d.Outcome, d.Questions(), d.Reasons)
	}
	if b := d.Bundle; b == nil || b.Status != "incomplete" || b.RootNode.Status != "blocked" || len(b.UnresolvedQuestions) != 1 || len(b.Outputs) != 0 {
		t.Errorf("bundle %+v", b)
	}
	if Conclude(d, nil).Accepted {
		t.Error("accepted")
	}
}

func TestConclude(t *testing.T) {
	bundle := Decision{Outcome: OutcomeBundle}
	for _, tc := range []struct {
		name     string
		d        Decision
		e        *Execution
		accepted bool
		reasons  string
	}{
		{"planned", bundle, nil, true, ""},
		{"ran", bundle, &Execution{}, true, ""},
		{"failed", bundle, &Execution{ExitCode: 3}, false, "EXIT 3"},
		{"limited", bundle, &Execution{ExitCode: 125, Reasons: []string{"OUTPUT_MISSING out/b", "OUTPUT_LIMIT"}}, false, "OUTPUT_LIMIT|OUTPUT_MISSING out/b"},
		{"refused", Decision{Outcome: OutcomeRefuse, Reasons: []string{"X /goal"}}, &Execution{}, false, "X /goal"},
		{"asked", Decision{Outcome: OutcomeClarify, Reasons: []string{"Q /goal"}}, nil, false, "Q /goal"},
	} {
		rec := Conclude(tc.d, tc.e)
		if rec.Accepted != tc.accepted || strings.Join(rec.Reasons, "|") != tc.reasons || rec.Reasons == nil {
			t.Errorf("%s: %+v", tc.name, rec)
		}
	}
}

// TestBundleBytes: the bytes of a bundle are its canonical JSON and one LF.
func TestBundleBytes(t *testing.T) {
	in := parse(t, twoSteps)
	d := decide(t, in, permitAll(in))
	want, hash, err := canon.Artifact(d.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	if string(d.BundleBytes) != string(want) || d.BundleHash != hash {
		t.Errorf("bytes %s\nwant %s", d.BundleBytes, want)
	}
}

// TestQuestionKeepsItsOptions: a second rule that asks the same question adds options
// and removes none, with any priority.
func TestQuestionKeepsItsOptions(t *testing.T) {
	ask := func(module string, priority int, options ...string) Result {
		return Result{Module: module, ID: "ASK", Text: "which?", Why: "w", Priority: priority, Options: options}
	}
	for _, list := range [][]Result{
		{ask("gate.builtin", 60, "a", "c"), ask("gate.repo.x", 100, "b")},
		{ask("gate.repo.x", 100, "b"), ask("gate.builtin", 60, "a", "c")},
	} {
		got, err := newQuestions(list)
		if err != nil || len(got) != 1 || got[0].Priority != 100 || strings.Join(got[0].Options, " ") != "a b c" {
			t.Errorf("questions are %+v, error %v", got, err)
		}
	}
}
