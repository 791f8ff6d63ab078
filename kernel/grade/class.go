package grade

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
)

// StateOf sums up the runs of a case on one side. It returns nil if there are none.
func StateOf(runs []Run) *SideResult {
	if len(runs) == 0 {
		return nil
	}
	s := &SideResult{Runs: len(runs), Failed: []string{}}
	seen := map[[6]string]bool{}
	for _, r := range runs {
		switch r.Verdict {
		case Pass, Weak:
			s.K++
			s.N++
		case Fail:
			if s.K == s.N {
				s.RootCause = r.Cause // the first run that fails has the cause of the side
			}
			s.N++
		default: // an error, or missing
			s.Errors++
			s.RootCause = cmp.Or(s.RootCause, r.Cause)
		}
		for _, a := range r.Assertions {
			if a.Failed() {
				s.Failed = append(s.Failed, a.ID)
			}
		}
		for _, a := range r.Actions {
			key := [...]string{a.Subject, a.Tool, a.Outcome, strings.Join(a.Reasons, "\n"), strconv.FormatBool(a.Executed), string(a.IntentSHA256)}
			if a.Outcome != string(kernel.OutcomeBundle) && !seen[key] {
				seen[key] = true
				s.Actions = append(s.Actions, a)
			}
		}
	}
	slices.Sort(s.Failed)
	s.Failed = slices.Compact(s.Failed)
	switch {
	case s.N == 0:
		s.State = NoData
	case s.K == s.N:
		s.State = StablePass
	case s.K == 0:
		s.State = StableFail
	default:
		s.State = Flaky
	}
	return s
}

// state returns the state, which is Absent for nil.
func (s *SideResult) state() State {
	if s == nil {
		return Absent
	}
	return s.State
}

// answered says whether a run has data.
func (s *SideResult) answered() bool { return s != nil && s.N > 0 }

// rate returns the share of runs with data that passed. There is at least one.
func (s *SideResult) rate() float64 { return float64(s.K) / float64(s.N) }

// classOf returns the class of a case: the first row of the table that matches. It returns
// none if a side is flaky: then the class follows from a test of the rates.
func classOf(baseline, new *SideResult) Class {
	b, n := baseline.state(), new.state()
	switch {
	case b == Absent:
		return Added
	case n == Absent:
		return Removed
	case b == NoData:
		return BaselineUnusable
	case n == NoData && baseline.Errors == 0:
		return InfraRegression
	case n == NoData:
		return Inconclusive
	case b == Flaky || n == Flaky:
		return ""
	case b == StablePass && n == StableFail:
		return Regression
	case b == StableFail && n == StablePass:
		return Improvement
	case n == StablePass:
		return UnchangedPass
	case slices.Equal(baseline.Failed, new.Failed) && baseline.RootCause.name() == new.RootCause.name():
		return UnchangedFail
	}
	return ChangedFail
}

// name returns the name of a cause, which is empty for nil.
func (c *RootCause) name() string {
	if c == nil {
		return ""
	}
	return c.Name
}

// classify sets the class and the confidence of each case, and tests the cases with a flaky
// side. Holm adjusts over all tested cases, once per direction. The rounded figures decide, so
// that the report shows what was held against alpha.
func classify(cases []CaseResult, alpha float64) {
	var flaky []*CaseResult
	var worse, better []float64
	for i := range cases {
		c := &cases[i]
		c.Class = classOf(c.Baseline, c.New)
		switch {
		case c.Class == "":
			w, b := Fisher(c.Baseline.K, c.Baseline.N, c.New.K, c.New.N)
			flaky, worse, better = append(flaky, c), append(worse, w), append(better, b)
			c.Confidence = Tested
		case !c.Baseline.answered() || !c.New.answered():
		case c.Baseline.N == 1 || c.New.N == 1:
			c.Confidence = Single
		default:
			c.Confidence = Stable
		}
	}
	adjustedWorse, adjustedBetter := Holm(worse), Holm(better)
	for i, c := range flaky {
		d := c.New.rate() - c.Baseline.rate()
		p, adjusted := Round(worse[i]), Round(adjustedWorse[i])
		if d > 0 {
			p, adjusted = Round(better[i]), Round(adjustedBetter[i])
		}
		c.P, c.PAdjusted = &p, &adjusted
		switch {
		case d == 0:
			c.Class = FlakySame
		case d < 0 && (adjusted <= alpha || c.critical()):
			c.Class = Regression
		case d < 0:
			c.Class = FlakyWorse
		case adjusted <= alpha:
			c.Class = Improvement
		default:
			c.Class = FlakyBetter
		}
	}
}

func (c *CaseResult) critical() bool { return c.Severity == "critical" }
