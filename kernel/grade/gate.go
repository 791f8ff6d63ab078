package grade

import (
	"slices"

	"github.com/fiador/fiador/kernel/trial"
)

// The codes of reasons, in the order of a gate. Those up to CodeWeak reject; where none of
// them holds, those from CodeNoCases on leave no decision.
const (
	CodeRegression       = "regression"
	CodeCriticalFailure  = "critical_failure"
	CodePolicyViolation  = "policy_violation"
	CodeAddedFailing     = "added_failing"
	CodeRemoved          = "removed"
	CodeSecretExposed    = "secret_exposed"
	CodeSuiteWorse       = "suite_worse"
	CodePassRate         = "pass_rate"
	CodeFlaky            = "flaky"
	CodeWeak             = "weak"
	CodeNoCases          = "no_cases"
	CodeAnswers          = "answers"
	CodeInfraRegression  = "infra_regression"
	CodeBaselineUnusable = "baseline_unusable"
)

// maxReasonCases is the largest number of cases that a reason names.
const maxReasonCases = 20

// gateOf decides about new. cases are the results of pairs. With reportOnly, a rejection exits
// with 0; its status stays, and so does the exit code of no decision.
func gateOf(pairs []Pair, cases []CaseResult, s Summary, l Limits, reportOnly bool) Gate {
	r := reasonList{pairs: pairs, cases: cases, list: []Reason{}}
	r.reject(s, l)
	g := Gate{Status: GatePass, Limits: l}
	if len(r.list) > 0 {
		g.Status, g.ExitCode = GateFail, 1
		if reportOnly {
			g.ExitCode = 0
		}
	}
	r.doubt(s, l)
	if g.Status == GatePass && len(r.list) > 0 {
		g.Status, g.ExitCode = GateInconclusive, 2
	}
	g.Reasons = r.list
	return g
}

// reasonList collects the reasons that hold.
type reasonList struct {
	pairs []Pair
	cases []CaseResult // of the pairs
	list  []Reason
}

// caseTest says whether a reason is about a case.
type caseTest func(c *CaseResult, p *Pair) bool

// add adds a reason about a rate or a probability, and names the cases behind it.
func (r *reasonList) add(code string, count, limit float64, behind caseTest) {
	_, ids := r.find(behind)
	r.list = append(r.list, Reason{Code: code, Count: count, Limit: limit, Cases: ids})
}

// over adds a reason if more cases than the limit pass the test.
func (r *reasonList) over(code string, limit float64, is caseTest) {
	if n, ids := r.find(is); float64(n) > limit {
		r.list = append(r.list, Reason{Code: code, Count: float64(n), Limit: limit, Cases: ids})
	}
}

// find returns the number of cases that pass the test, and the ids of the first of them.
func (r *reasonList) find(is caseTest) (n int, ids []string) {
	ids = []string{}
	for i := range r.cases {
		if !is(&r.cases[i], &r.pairs[i]) {
			continue
		}
		if n++; n <= maxReasonCases {
			ids = append(ids, r.cases[i].CaseID)
		}
	}
	return n, ids
}

// reject adds the reasons of the first group.
func (r *reasonList) reject(s Summary, l Limits) {
	r.over(CodeRegression, float64(l.MaxRegressions), func(c *CaseResult, _ *Pair) bool { return c.Class == Regression })
	r.over(CodeCriticalFailure, 0, func(c *CaseResult, _ *Pair) bool {
		return c.critical() && c.New.state() == StableFail && c.Class != UnchangedFail
	})
	r.over(CodePolicyViolation, 0, func(c *CaseResult, _ *Pair) bool {
		return c.New != nil && slices.ContainsFunc(c.New.Actions, func(a Action) bool { return a.Executed })
	})
	r.over(CodeAddedFailing, 0, func(c *CaseResult, _ *Pair) bool { return c.Class == Added && c.New.state() == StableFail })
	if !l.AllowRemoved {
		r.over(CodeRemoved, 0, func(c *CaseResult, _ *Pair) bool { return c.Class == Removed })
	}
	r.over(CodeSecretExposed, 0, func(_ *CaseResult, p *Pair) bool {
		known := secretsOf(p.Baseline)
		return slices.ContainsFunc(secretsOf(p.New), func(rule string) bool { return !slices.Contains(known, rule) })
	})
	if s.B > s.C && s.SignP <= l.Alpha {
		r.add(CodeSuiteWorse, s.SignP, l.Alpha, func(c *CaseResult, _ *Pair) bool {
			return c.Baseline.answered() && c.New.answered() && c.New.rate() < c.Baseline.rate()
		})
	}
	share := s.PassShare[trial.New]
	if l.MinPassRate != nil && share.N > 0 && share.Rate < *l.MinPassRate {
		r.add(CodePassRate, share.Rate, *l.MinPassRate, func(c *CaseResult, _ *Pair) bool { return c.New.answered() && c.New.State != StablePass })
	}
	if l.MaxFlaky != nil {
		r.over(CodeFlaky, float64(*l.MaxFlaky), func(c *CaseResult, _ *Pair) bool { return c.New.state() == Flaky })
	}
	if l.MaxWeakRate != nil && share.N > 0 {
		weak, _ := r.find(isWeak)
		if rate := Round(float64(weak) / float64(share.N)); rate > *l.MaxWeakRate {
			r.add(CodeWeak, rate, *l.MaxWeakRate, isWeak)
		}
	}
}

// secretsOf returns the rules that found a secret in runs.
func secretsOf(runs []Run) (rules []string) {
	for _, r := range runs {
		rules = append(rules, r.Secrets...)
	}
	return rules
}

// isWeak says whether a run of new passed because nothing was expected of it.
func isWeak(_ *CaseResult, p *Pair) bool {
	return slices.ContainsFunc(p.New, func(r Run) bool { return r.Verdict == Weak })
}

// doubt adds the reasons of the second group.
func (r *reasonList) doubt(s Summary, l Limits) {
	if s.PassShare[trial.New].N == 0 {
		r.add(CodeNoCases, 0, 1, func(c *CaseResult, _ *Pair) bool { return c.New != nil })
	}
	least := 1.0
	for _, a := range s.Answers {
		least = min(least, a.Rate)
	}
	if least < l.MinAnswers {
		short := func(side trial.Side, r *SideResult) bool {
			return r != nil && r.Errors > 0 && s.Answers[side].Rate < l.MinAnswers
		}
		r.add(CodeAnswers, least, l.MinAnswers, func(c *CaseResult, _ *Pair) bool { return short(trial.Baseline, c.Baseline) || short(trial.New, c.New) })
	}
	r.over(CodeInfraRegression, float64(l.MaxInfra), func(c *CaseResult, _ *Pair) bool {
		return c.Class == InfraRegression || c.Class == Inconclusive || c.lost(l.Alpha) || c.New.state() == NoData && (c.Class == Added || c.critical())
	})
	r.over(CodeBaselineUnusable, Round(float64(len(r.cases))/10), func(c *CaseResult, _ *Pair) bool { return c.Class == BaselineUnusable })
}

// lost says whether a case would be a regression if runs without an answer had failed: an agent
// must not turn failures into silence.
func (c *CaseResult) lost(alpha float64) bool {
	if !c.Baseline.answered() || !c.New.answered() || c.New.Errors == 0 || c.Class == Regression {
		return false
	}
	worse, _ := Fisher(c.Baseline.K, c.Baseline.Runs, c.New.K, c.New.Runs)
	fewer := c.New.K*c.Baseline.Runs < c.Baseline.K*c.New.Runs
	return fewer && (Round(worse) <= alpha || c.critical())
}
