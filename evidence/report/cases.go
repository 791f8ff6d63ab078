package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
)

// caseRow is the row of a case of a comparison.
type caseRow struct {
	row
	rates  string   // how many runs of each side passed
	what   string   // what changed first
	failed []string // assertions of new
	look   bool     // a person should look at the case
	order  [3]int
}

// rows returns the cases, those first that a person should read first. Before them is the
// gate, if a reason names no case.
func (c Comparison) rows() []caseRow {
	reasons := map[string][]string{} // codes, by the id of a case
	counted := map[grade.Class]bool{}
	gate := row{path: c.path(), group: "fiador", name: "gate", outcome: c.Gate.Status, verdict: rejected}
	for _, r := range c.Gate.Reasons {
		for _, id := range r.Cases {
			reasons[id] = append(reasons[id], r.Code)
		}
		counted[grade.Class(r.Code)] = true
		if len(r.Cases) == 0 {
			m := grade.MeaningOf(grade.OfGate, r.Code)
			gate.findings = append(gate.findings, about(m, levelError, "gate", m.Title))
			if doubts(r.Code) {
				gate.verdict = undecided
			}
		}
	}
	rank := map[grade.Class]int{}
	for k, m := range grade.Meanings() {
		if m.Kind == grade.OfClass {
			rank[grade.Class(m.ID)] = k
		}
	}
	list := make([]caseRow, len(c.Comparison.Cases))
	for k, r := range c.Comparison.Cases {
		codes := reasons[r.CaseID]
		// A reason names only its first cases, and a class with its code is about all.
		if counted[r.Class] && !slices.Contains(codes, string(r.Class)) {
			codes = append(codes, string(r.Class))
		}
		list[k] = c.rowOf(r, codes)
		list[k].order[1] = rank[r.Class]
		if v := list[k].verdict; v != rejected && v != undecided {
			list[k].order[0] = 1
		}
		if r.Severity != "critical" {
			list[k].order[2] = 1
		}
	}
	slices.SortStableFunc(list, func(a, b caseRow) int { return slices.Compare(a.order[:], b.order[:]) })
	if len(gate.findings) > 0 {
		place(gate.findings, 1)
		list = slices.Insert(list, 0, caseRow{row: gate})
	}
	return list
}

// rowOf returns the row of a case. codes are those of the reasons that are about it.
func (c Comparison) rowOf(r grade.CaseResult, codes []string) caseRow {
	v := caseRow{rates: rate(r.Baseline) + " -> " + rate(r.New), what: first(r)}
	v.row = row{path: c.path(), group: cmp.Or(r.Suite, "fiador"), name: r.CaseID, outcome: string(r.Class), verdict: verdictOf(r, codes)}
	said := squeeze("; ", r.Title, v.rates, v.what)
	v.look = r.Class != grade.UnchangedPass || r.Trace == "changed" || v.verdict != passed
	if v.look && v.verdict != rejected && v.verdict != undecided { // their findings say it
		v.said = said
	}
	for _, code := range codes {
		text := said
		if code == grade.CodePolicyViolation {
			text = squeeze("; ", said, executedActions(r.New))
		}
		v.findings = append(v.findings, about(grade.MeaningOf(grade.OfGate, code), levelError, r.CaseID, text))
	}
	if v.verdict == undecided && len(codes) == 0 {
		m := grade.MeaningOf(grade.OfClass, string(r.Class))
		if r.New.RootCause != nil {
			m = grade.MeaningOf(grade.OfRootCause, r.New.RootCause.Name)
		}
		v.findings = append(v.findings, about(m, levelWarning, r.CaseID, said))
	}
	level := levelWarning
	if v.verdict == known || v.verdict == passed {
		level = levelNote
	}
	if r.New != nil {
		v.failed = r.New.Failed
	}
	for _, id := range v.failed {
		kind, _, _ := strings.Cut(id, ":")
		text := id + " failed on new"
		if c.Why != nil {
			text = squeeze(": ", text, c.Why(r.CaseID, id))
		}
		f := about(grade.MeaningOf(grade.OfAssertion, kind), level, r.CaseID, text)
		f.key += " " + id
		v.findings = append(v.findings, f)
	}
	line := 1
	if c.Line != nil {
		line = max(1, c.Line(r.CaseID))
	}
	place(v.findings, line)
	return v
}

// place sets the place of findings to the beginning of a line.
func place(list []finding, line int) {
	for k := range list {
		at := canon.Position{Line: line, Column: 1}
		list[k].region = region{at, at}
	}
}

// about returns a finding about a case, in the words of a meaning.
func about(m grade.Meaning, level, id, text string) finding {
	return finding{level: level, id: m.ID, text: id + ": " + text, fix: m.Fix, title: m.Title, why: m.Why, help: m.Fix, page: "specs/evaluation.md", key: id}
}

// doubts says whether a reason leaves no decision, rather than to reject.
func doubts(code string) bool {
	return slices.Contains([]string{grade.CodeNoCases, grade.CodeAnswers, grade.CodeInfraRegression, grade.CodeBaselineUnusable}, code)
}

// verdictOf returns what a case means to a reader that knows tests alone. One that fails,
// or did not run, never passes.
func verdictOf(r grade.CaseResult, codes []string) verdict {
	state := grade.Absent
	if r.New != nil {
		state = r.New.State
	}
	switch {
	case slices.ContainsFunc(codes, func(code string) bool { return !doubts(code) }):
		return rejected
	case len(codes) > 0, state == grade.NoData:
		return undecided
	case state == grade.StablePass:
		return passed
	case state == grade.Flaky:
		return unsteady
	}
	return known
}

// rate returns how many runs of a side passed.
func rate(s *grade.SideResult) string {
	if s == nil {
		return "none"
	}
	return strconv.Itoa(s.K) + "/" + strconv.Itoa(s.N)
}

// first returns what a person should know first about a case.
func first(r grade.CaseResult) string {
	switch {
	case r.Divergence != nil:
		return r.Divergence.Headline
	case r.New != nil && r.New.RootCause != nil:
		return grade.MeaningOf(grade.OfRootCause, r.New.RootCause.Name).Title
	}
	return grade.MeaningOf(grade.OfClass, string(r.Class)).Title
}

// executedActions returns what was executed on a side and is not allowed.
func executedActions(s *grade.SideResult) string {
	var list []string
	if s != nil {
		for _, a := range s.Actions {
			if a.Executed {
				list = append(list, fmt.Sprintf("%s was executed, and the policy says %s", a.Tool, a.Outcome))
			}
		}
	}
	return strings.Join(slices.Compact(list), ", ")
}
