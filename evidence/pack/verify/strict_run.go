package verify

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/reason"
)

// checkRun checks the parts of ST2 that the schema does not check: the times exist in
// the calendar and are in order, and the reasons fit the outcome.
func (s *strictLevel) checkRun() {
	run := s.run
	if run == nil {
		return
	}
	for _, t := range []struct{ name, at string }{{"started_at", run.StartedAt}, {"completed_at", run.CompletedAt}} {
		if !isMoment(t.at) {
			s.fault("ST2", pack.At(pack.RunFile, t.name), "no day or no time of the calendar")
		}
	}
	s.must(run.CompletedAt >= run.StartedAt, "ST2", pack.RunFile+"#/completed_at", "before it started, at %s", run.StartedAt)
	reasons := run.Decision.Reasons
	if i, ok := sortedSet(reasons); !ok {
		s.fault("ST2", pack.At(pack.RunFile, "decision", "reasons", strconv.Itoa(i)), "the reasons are not sorted, or one is there twice")
		return
	}
	switch {
	case run.Decision.Accepted || run.KernelResultKind == kernel.OutcomeBundle && run.Execution == nil:
		s.must(len(reasons) == 0, "ST2", pack.RunFile+"#/decision/reasons", "an accepted result has no reasons")
	case len(reasons) == 0:
		s.fault("ST2", pack.At(pack.RunFile, "decision", "reasons"), "a rejected result has a reason")
	case run.KernelResultKind != kernel.OutcomeBundle:
		s.checkFindings(reasons)
	}
}

// checkFindings checks the form of the reasons of a CLARIFY or REFUSE, which is "ID
// POINTER". It compares the refuse reason with the first of them. If only built-in
// modules decided, the ids and the title are those of built-in rules.
func (s *strictLevel) checkFindings(reasons []string) {
	title := ""
	for i, text := range reasons {
		id, _, ok := reason.ParseFinding(text)
		if !ok || !isRuleID(id) {
			s.fault("ST2", pack.At(pack.RunFile, "decision", "reasons", strconv.Itoa(i)), "%s is not the id of a rule and a JSON Pointer", pack.Quoted(text))
			continue
		}
		if t := s.checkRule(i, id); i == 0 {
			title = t
		}
	}
	if s.run.KernelResultKind != kernel.OutcomeRefuse {
		return
	}
	told, ok := strings.CutPrefix(s.run.RefuseReason, reasons[0]+": ")
	switch {
	case !ok || strings.TrimSpace(told) == "":
		s.fault("ST2", pack.At(pack.RunFile, "refuse_reason"), "not the first reason, a colon, and a title")
	case title != "" && told != title:
		s.fault("ST2", pack.At(pack.RunFile, "refuse_reason"), "not the title of the rule, %s", pack.Quoted(title))
	}
}

// isRuleID accepts a capital and 1 to 31 capitals, digits and underscores.
func isRuleID(s string) bool {
	return len(s) >= 2 && len(s) <= 32 && s[0] >= 'A' && s[0] <= 'Z' && onlyOf(s, func(c byte) bool { return c >= 'A' && c <= 'Z' || asciiDigit(c) || c == '_' })
}
