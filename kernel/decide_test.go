package kernel

import (
	"encoding/json"
	"os"
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

// TestQuestionVectors: specs/vectors/answers/questions.json has the id of each question.
func TestQuestionVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name, Layer, Rule, Path, Text string
			ID                            string `json:"question_id"`
		}
	}
	src, err := os.ReadFile("../specs/vectors/answers/questions.json")
	if err == nil {
		err = json.Unmarshal(src, &file)
	}
	if err != nil || len(file.Vectors) < 5 {
		t.Fatalf("%d vectors, error %v", len(file.Vectors), err)
	}
	seen := map[string]bool{}
	for _, v := range file.Vectors {
		r := Result{Module: v.Layer, ID: v.Rule, Path: v.Path, Text: v.Text, Fix: "f", Options: []string{"a"}, Title: "t"}
		if got := r.QuestionID(); got != v.ID || seen[got] {
			t.Errorf("%s: id %s, want %s, and another one for each", v.Name, got, v.ID)
		}
		seen[v.ID] = true
	}
	if id := (Result{Text: "\xff"}).QuestionID(); id != "" {
		t.Errorf("a question without a canonical form has the id %q", id)
	}
}

// TestNeeds: a question needs an answer only if there is one that settles it.
func TestNeeds(t *testing.T) {
	for _, tc := range []struct {
		r       Result
		needs   Need
		answers string
	}{
		{Result{}, NeedIntent, ""},
		{Result{ByPolicy: true, Options: []string{"a"}}, NeedPolicy, ""},
		{Result{Answerable: true}, NeedAnswer, ""},
		{Result{Answerable: true, Settling: []string{"a"}}, NeedAnswer, "a"},
		{Result{Answerable: true, Options: []string{"a", "b"}}, NeedAnswer, "a b"},
		{Result{Answerable: true, Options: []string{"a", "b"}, Settling: []string{"b", "c"}}, NeedAnswer, "b"},
		{Result{Answerable: true, Options: []string{"a", "b"}, Settling: []string{"c"}}, NeedIntent, ""},
	} {
		if got := strings.Join(tc.r.Answers(), " "); tc.r.Needs() != tc.needs || got != tc.answers {
			t.Errorf("%+v needs %s, answers %q", tc.r, tc.r.Needs(), got)
		}
	}
}
