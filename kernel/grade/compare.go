package grade

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fiador/fiador/kernel/trial"
)

// Compare holds new against baseline, and decides. A pair that neither side selected is left
// out. The caller sets both sides, what changed in their provenance, the time and the version.
func Compare(pairs []Pair, l Limits, reportOnly bool) Comparison {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return len(p.Baseline) == 0 && len(p.New) == 0 })
	slices.SortFunc(pairs, func(a, b Pair) int { return cmp.Compare(a.ID, b.ID) })
	c := Comparison{SchemaVersion: CompareVersion, ChangedProvenance: []Change{}, Cases: make([]CaseResult, len(pairs))}
	for i := range pairs {
		c.Cases[i] = resultOf(&pairs[i])
	}
	classify(c.Cases, l.Alpha)
	c.Suites, c.Summary = suitesOf(c.Cases), summaryOf(c.Cases)
	c.Gate = gateOf(pairs, c.Cases, c.Summary, l, reportOnly)
	return c
}

// resultOf returns the result of a case without its class.
func resultOf(p *Pair) CaseResult {
	c := CaseResult{CaseID: p.ID, Title: p.Title, Suite: p.Suite, Severity: p.Severity, Baseline: StateOf(p.Baseline), New: StateOf(p.New)}
	if p.Alignment == nil {
		return c
	}
	c.Trace, c.Divergence = "same", p.Alignment.Divergence
	if c.Divergence != nil { // rows of unknown events are shown, and are no difference
		c.Trace = "changed"
	}
	return c
}

// suitesOf counts the cases of each suite, by its name.
func suitesOf(cases []CaseResult) []Suite {
	suites := map[string]*Suite{}
	for _, c := range cases {
		s := suites[c.Suite]
		if s == nil {
			s = &Suite{Suite: c.Suite, Classes: map[Class]int{}}
			suites[c.Suite] = s
		}
		s.Cases++
		s.Classes[c.Class]++
	}
	list := make([]Suite, 0, len(suites))
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		list = append(list, *suites[name])
	}
	return list
}

// summaryOf counts all cases. A side without runs has neither a share nor answers.
func summaryOf(cases []CaseResult) Summary {
	s := Summary{Classes: map[Class]int{}, PassShare: map[trial.Side]Share{}, Answers: map[trial.Side]Ratio{}}
	var changes []float64
	for _, c := range cases {
		s.Classes[c.Class]++
		s.count(trial.Baseline, c.Baseline)
		s.count(trial.New, c.New)
		if !c.Baseline.answered() || !c.New.answered() {
			continue
		}
		d := c.New.rate() - c.Baseline.rate()
		changes = append(changes, d)
		switch {
		case d < 0:
			s.B++
		case d > 0:
			s.C++
		}
	}
	s.SignP, s.Delta = Round(Sign(s.B, s.C)), Delta(changes)
	for i, v := range s.Delta {
		s.Delta[i] = Round(v)
	}
	for side, share := range s.PassShare {
		if share.N > 0 {
			share.Rate = Round(float64(share.K) / float64(share.N))
		}
		low, high := Wilson(share.K, share.N)
		share.Low, share.High = Round(low), Round(high)
		s.PassShare[side] = share
		answers := s.Answers[side]
		answers.Rate = Round(float64(answers.K) / float64(answers.N))
		s.Answers[side] = answers
	}
	return s
}

// count adds a case on one side.
func (s *Summary) count(side trial.Side, r *SideResult) {
	if r == nil {
		return
	}
	share, answers := s.PassShare[side], s.Answers[side]
	if r.State == StablePass {
		share.K++
	}
	if r.N > 0 {
		share.N++
	}
	answers.K += r.N
	answers.N += r.Runs
	s.PassShare[side], s.Answers[side] = share, answers
}
