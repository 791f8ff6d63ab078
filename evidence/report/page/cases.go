package page

import (
	"cmp"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/lazy"
)

// class is how a class is shown.
type class struct {
	grade.Class
	Sign, Tone string
	chips      string // that show it
}

// classes returns the classes, worst first.
var classes = lazy.Value[[]class]{Make: func() []class {
	return []class{
		{grade.Regression, "✗", "bad", "worse"},
		{grade.FlakyWorse, "↓", "bad", "worse flaky"},
		{grade.InfraRegression, "!", "bad", "worse"},
		{grade.Inconclusive, "?", "warn", ""},
		{grade.Removed, "−", "warn", ""},
		{grade.ChangedFail, "≠", "warn", ""},
		{grade.Added, "+", "warn", ""},
		{grade.BaselineUnusable, "?", "warn", ""},
		{grade.FlakySame, "~", "warn", "flaky"},
		{grade.FlakyBetter, "↑", "good", "flaky better"},
		{grade.Improvement, "✓", "good", "better"},
		{grade.UnchangedFail, "✗", "calm", ""},
		{grade.UnchangedPass, "=", "calm", ""},
	}
}}

// rank returns the place of a class among the classes. An unknown class is the worst.
func rank(c grade.Class) int {
	return max(0, slices.IndexFunc(classes.Get(), func(k class) bool { return k.Class == c }))
}

// groups returns the chips that show a case, besides the one that shows all.
func groups(c grade.CaseResult) []string {
	in := strings.Fields(classes.Get()[rank(c.Class)].chips)
	if c.Class != grade.UnchangedPass || c.Trace == "changed" {
		in = append(in, "look")
	}
	return in
}

// worstFirst returns cases in the order in which a person should read them.
func worstFirst(cases []grade.CaseResult) []grade.CaseResult {
	key := func(c grade.CaseResult) int {
		n := rank(c.Class) * 4
		if c.Severity != "critical" {
			n += 2
		}
		if c.Trace != "changed" {
			n++
		}
		return n
	}
	return slices.SortedStableFunc(slices.Values(cases), func(a, b grade.CaseResult) int { return cmp.Compare(key(a), key(b)) })
}

// maker makes the views of cases, worst first.
type maker struct {
	details map[string]Case
	open    int // failing cases that are open
	bodies  int // bytes of bodies that stand on the page
}

// caseView is a case on the page.
type caseView struct {
	*maker
	grade.CaseResult
	Case
	Kind           class
	Chips          string
	Open, Lean     bool
	Failed, Passed []assertion // of new
	Timeline       *timeline
	Output         *output
	Sides          [2]*Shown
}

type assertion struct {
	grade.Assertion
	Before grade.Outcome // on baseline
}

// caseView returns a case, without its details if lean.
func (m *maker) caseView(c grade.CaseResult, lean bool) caseView {
	v := caseView{maker: m, CaseResult: c, Kind: classes.Get()[rank(c.Class)], Chips: strings.Join(groups(c), " "), Lean: lean}
	fails := c.New != nil && c.New.K < c.New.Runs
	if fails && c.Class == grade.Added {
		v.Kind.Sign, v.Kind.Tone = "✗", "bad"
	}
	if lean {
		return v
	}
	if v.Open = fails && m.open < maxOpen; v.Open {
		m.open++
	}
	v.Case = m.details[c.CaseID]
	v.Sides = [2]*Shown{v.Case.Baseline, v.Case.New}
	v.Timeline, v.Output = newTimeline(v.Alignment), newOutput(v.Sides[0], v.Sides[1])
	before := map[string]grade.Outcome{}
	if v.Sides[0] != nil {
		for _, a := range v.Sides[0].Assertions {
			before[a.ID] = a.Outcome
		}
	}
	if v.Sides[1] == nil {
		return v
	}
	for _, a := range v.Sides[1].Assertions {
		if a.Outcome == grade.Passed || a.Outcome == grade.Skipped {
			v.Passed = append(v.Passed, assertion{Assertion: a})
		} else {
			v.Failed = append(v.Failed, assertion{a, before[a.ID]})
		}
	}
	return v
}

// Inline says whether a body stands on the page.
func (m *maker) Inline(b Body) bool {
	if b.Text == nil || len(b.Text) > maxInline || m.bodies+len(b.Text) > maxBodies {
		return false
	}
	m.bodies += len(b.Text)
	return true
}

// href returns a link to a file of text or bytes beneath the folder of the page; "" for any other.
func href(s string) string {
	if !strings.HasSuffix(s, ".txt") && !strings.HasSuffix(s, ".bin") || !fs.ValidPath(s) || strings.ContainsAny(s, `:\`) || screen.Plain(s) != s {
		return ""
	}
	return "./" + (&url.URL{Path: s}).EscapedPath()
}
