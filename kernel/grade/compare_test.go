package grade_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

func run(v grade.Verdict) grade.Run {
	r := grade.Run{Verdict: v}
	if v == grade.Fail {
		r.Assertions = []grade.Assertion{{ID: "equals", Outcome: grade.Failed}}
		r.Cause = &grade.RootCause{Name: "output_mismatch", Evidence: []string{}}
	}
	return r
}

// times returns n runs, the first k of which pass.
func times(k, n int) (runs []grade.Run) {
	for i := range n {
		v := grade.Fail
		if i < k {
			v = grade.Pass
		}
		runs = append(runs, run(v))
	}
	return runs
}

// TestCompareSumsUp: a comparison has the cases by id, the suites by name, and the figures of
// both sides.
func TestCompareSumsUp(t *testing.T) {
	old, now := "events[0]", "events[1]"
	difference := &grade.Divergence{Kind: "arguments", Baseline: &old, New: &now}
	refused := grade.Action{Subject: "events[0]", Outcome: "REFUSE", Reasons: []string{"a"}}
	b := append(times(1, 2), run(grade.Error))
	b[1].Actions, b[2].Actions = []grade.Action{refused, {Subject: "events[2]", Outcome: "BUNDLE"}}, []grade.Action{refused}
	pairs := []grade.Pair{
		{Case: trial.Case{ID: "b", Title: "B", Suite: "s", Severity: "low"}, Baseline: b, New: times(3, 3), Alignment: &grade.Alignment{Rows: []grade.Row{{Mark: grade.Equal}, {Mark: grade.OnlyNew}}, Divergence: difference}},
		{Case: trial.Case{ID: "a"}, Baseline: times(3, 3), New: times(3, 3), Alignment: &grade.Alignment{Rows: []grade.Row{{Mark: grade.Equal}}}},
		{Case: trial.Case{ID: "c", Suite: "s"}, New: times(0, 3)},
		{Case: trial.Case{ID: "d"}},
	}
	before := fmt.Sprint(pairs)
	c := grade.Compare(pairs, grade.DefaultLimits(), false)
	if fmt.Sprint(pairs) != before {
		t.Error("the pairs are changed")
	}
	if got := c.Cases[1].Baseline.Actions; len(got) != 1 || got[0].Outcome != "REFUSE" {
		t.Errorf("an action that is refused in two runs is %v", got)
	}
	if c.Cases[0].Trace != "same" || c.Cases[0].Divergence != nil || c.Cases[1].Trace != "changed" || c.Cases[1].Divergence != difference || c.Cases[2].Trace != "" {
		t.Errorf("traces of %+v", c.Cases)
	}
	if got := c.Cases[1]; got.CaseID != "b" || got.Title != "B" || got.Suite != "s" || got.Severity != "low" || got.Baseline.Errors != 1 || got.Baseline.Runs != 3 || !slices.Equal(got.Baseline.Failed, []string{"equals"}) || got.Baseline.RootCause.Name != "output_mismatch" {
		t.Errorf("case %+v %+v", got, got.Baseline)
	}
	if want := []grade.Suite{{Suite: "", Cases: 1, Classes: map[grade.Class]int{grade.UnchangedPass: 1}}, {Suite: "s", Cases: 2, Classes: map[grade.Class]int{grade.FlakyBetter: 1, grade.Added: 1}}}; !reflect.DeepEqual(c.Suites, want) {
		t.Errorf("suites %+v", c.Suites)
	}
	want := grade.Summary{
		Classes: map[grade.Class]int{grade.UnchangedPass: 1, grade.FlakyBetter: 1, grade.Added: 1}, C: 1, SignP: 1, Delta: [3]float64{0.25, -0.096476, 0.596476},
		PassShare: map[trial.Side]grade.Share{trial.Baseline: {K: 1, N: 2, Rate: 0.5, Low: 0.094531, High: 0.905469}, trial.New: {K: 2, N: 3, Rate: 0.666667, Low: 0.20766, High: 0.938508}},
		Answers:   map[trial.Side]grade.Ratio{trial.Baseline: {K: 5, N: 6, Rate: 0.833333}, trial.New: {K: 9, N: 9, Rate: 1}},
	}
	if !reflect.DeepEqual(c.Summary, want) {
		t.Errorf("summary %+v", c.Summary)
	}
	c.New = grade.Side{RunIDs: []string{}}
	src, err := c.Bytes()
	if err != nil || !strings.Contains(string(src), `"baseline":null,"cases":[{"baseline":{`) {
		t.Errorf("%v: %s", err, src)
	}
	empty := grade.Compare(nil, grade.DefaultLimits(), false)
	if empty.Gate.ExitCode != 2 || len(empty.Summary.Answers) != 0 || empty.Summary.Delta != [3]float64{} || empty.Cases == nil || empty.Suites == nil {
		t.Errorf("of no cases: %+v", empty)
	}
}

// generated returns a case with at most one run a side.
func generated(r *rand.Rand, i int) grade.Pair {
	side := func() []grade.Run {
		if r.IntN(8) == 0 {
			return nil
		}
		verdicts := []grade.Verdict{grade.Pass, grade.Pass, grade.Pass, grade.Pass, grade.Weak, grade.Fail, grade.Error, grade.Missing}
		one := run(verdicts[r.IntN(len(verdicts))])
		if one.Verdict == grade.Fail && r.IntN(2) == 0 {
			one.Assertions[0].ID = "json_equals"
		}
		if r.IntN(20) == 0 {
			one.Secrets = []string{"bearer"}
		}
		if r.IntN(20) == 0 {
			one.Actions = []grade.Action{{Outcome: []string{"BUNDLE", "REFUSE"}[r.IntN(2)], Executed: r.IntN(2) == 0}}
		}
		return []grade.Run{one}
	}
	p := grade.Pair{Case: trial.Case{ID: fmt.Sprintf("case-%02d", i)}, Baseline: side(), New: side()}
	if r.IntN(4) == 0 {
		p.Severity = "critical"
	}
	return p
}

// worsenings are the ways in which a case can get worse on new. Each says whether it applies.
var worsenings = []struct {
	name string
	do   func(p *grade.Pair) bool
}{
	{"a case that passed fails", func(p *grade.Pair) bool {
		if len(p.New) == 0 || p.New[0].Verdict != grade.Pass && p.New[0].Verdict != grade.Weak {
			return false
		}
		failed := run(grade.Fail)
		p.New[0].Verdict, p.New[0].Assertions, p.New[0].Cause = failed.Verdict, failed.Assertions, failed.Cause
		return true
	}},
	{"a case that answered does not", func(p *grade.Pair) bool {
		answers := func(runs []grade.Run) bool {
			return len(runs) > 0 && runs[0].Verdict != grade.Error && runs[0].Verdict != grade.Missing
		}
		if !answers(p.New) || len(p.Baseline) > 0 && !answers(p.Baseline) {
			return false
		}
		p.New[0] = grade.Run{Verdict: grade.Error}
		return true
	}},
	{"a case of baseline is dropped", func(p *grade.Pair) bool {
		if len(p.Baseline) == 0 || len(p.New) == 0 {
			return false
		}
		p.New = nil
		return true
	}},
	{"a refused action is executed", func(p *grade.Pair) bool {
		if len(p.New) == 0 {
			return false
		}
		p.New[0].Actions = append(slices.Clone(p.New[0].Actions), grade.Action{Subject: "events[9]", Outcome: "REFUSE", Executed: true})
		return true
	}},
	{"a secret appears", func(p *grade.Pair) bool {
		if len(p.New) == 0 {
			return false
		}
		p.New[0].Secrets = []string{"jwt"}
		return true
	}},
}

// TestWorseIsNeverAccepted: with one run a side and the limits that hold by default, nothing
// that gets worse on new turns a rejection, or no decision, into an acceptance.
func TestWorseIsNeverAccepted(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 99))
	tried, exits := map[string]int{}, map[string]int{}
	for range 1500 {
		var pairs []grade.Pair
		for i := range 1 + r.IntN(12) {
			p := generated(r, i)
			if r.IntN(3) > 0 { // most cases are without a fault, so that few reasons hold
				p.Baseline, p.New = times(1, 1), times(1, 1)
			}
			pairs = append(pairs, p)
		}
		before := grade.Compare(pairs, grade.DefaultLimits(), false).Gate
		for _, w := range worsenings {
			for i := range pairs {
				worse := slices.Clone(pairs)
				worse[i].New = slices.Clone(worse[i].New)
				if !w.do(&worse[i]) {
					continue
				}
				after := grade.Compare(worse, grade.DefaultLimits(), false).Gate
				if before.ExitCode != 0 {
					tried[w.name]++
				}
				exits[fmt.Sprint(before.ExitCode, after.ExitCode)]++
				if before.ExitCode != 0 && after.ExitCode == 0 {
					t.Fatalf("%s in %s: exit %d became 0\nbefore %+v\nafter %+v\n%+v", w.name, worse[i].ID, before.ExitCode, before.Reasons, after.Reasons, worse)
				}
			}
		}
	}
	for _, w := range worsenings {
		if tried[w.name] < 1000 {
			t.Errorf("%s: tried on %d gates that did not accept", w.name, tried[w.name])
		}
	}
	t.Logf("tried %v; exits before and after %v", tried, exits)
	if exits["0 1"] == 0 || exits["0 2"] == 0 || exits["2 1"] == 0 {
		t.Errorf("exits before and after: %v", exits)
	}
}

// TestTotalRegressionIsFound: a case that passed in each run and fails in each run is rejected,
// whatever the other cases do.
func TestTotalRegressionIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 99))
	for range 1000 {
		n := 1 + r.IntN(9)
		pairs := []grade.Pair{{Case: trial.Case{ID: "found"}, Baseline: times(n, n), New: times(0, n)}}
		for i := range r.IntN(60) {
			p := grade.Pair{Case: trial.Case{ID: fmt.Sprintf("case-%02d", i)}}
			if r.IntN(10) > 0 {
				p.Baseline = times(r.IntN(n+1), n)
			}
			if r.IntN(10) > 0 {
				p.New = times(r.IntN(n+1), n)
			}
			for i := range p.New {
				if r.IntN(10) == 0 {
					p.New[i] = run(grade.Error)
				}
			}
			pairs = append(pairs, p)
		}
		g := grade.Compare(pairs, grade.DefaultLimits(), false).Gate
		if g.ExitCode != 1 || g.Status != grade.GateFail || g.Reasons[0].Code != grade.CodeRegression {
			t.Fatalf("%+v of %+v", g, pairs)
		}
	}
}

// TestFlakesAreNoRegressions: of 1 000 suites of 50 cases that pass with a probability of 0.8
// on both sides, in five repeats, at most 6 % are rejected. A case that then goes from 5/5 to
// 0/5 is found in each.
func TestFlakesAreNoRegressions(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 99))
	flakes := func() []grade.Run {
		k := 0
		for range 5 {
			if r.IntN(5) < 4 {
				k++
			}
		}
		return times(k, 5)
	}
	rejected := map[string]int{}
	for range 1000 {
		var pairs []grade.Pair
		for i := range 50 {
			pairs = append(pairs, grade.Pair{Case: trial.Case{ID: fmt.Sprintf("case-%02d", i)}, Baseline: flakes(), New: flakes()})
		}
		g := grade.Compare(pairs, grade.DefaultLimits(), false).Gate
		if g.ExitCode == 1 {
			rejected["all"]++
		}
		for _, reason := range g.Reasons {
			rejected[reason.Code]++
		}
		at := r.IntN(len(pairs))
		pairs[at].Baseline, pairs[at].New = times(5, 5), times(0, 5)
		g = grade.Compare(pairs, grade.DefaultLimits(), false).Gate
		if g.ExitCode != 1 || g.Reasons[0].Code != grade.CodeRegression || !slices.Contains(g.Reasons[0].Cases, pairs[at].ID) {
			t.Fatalf("%s is not found: %+v", pairs[at].ID, g)
		}
	}
	t.Logf("rejected of 1 000: %v", rejected)
	if rejected["all"] > 60 || rejected["all"] == 0 || rejected["all"] > rejected[grade.CodeRegression]+rejected[grade.CodeSuiteWorse] {
		t.Errorf("rejected of 1 000: %v", rejected)
	}
}
