package runerr

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// Refused is the RunError for a command that the policy does not let run: a REFUSE or a
// CLARIFY. Its details have the outcome, the reasons, and the open questions. Its hint has
// the fix of every finding. Its rule is the first input check of the contract among the
// reasons, if there is one.
func Refused(name string, d kernel.Decision) *result.RunError {
	e := &result.RunError{
		Code: result.CodeProfile, Message: name + ": nothing was started: " + d.RefuseReason,
		Details: map[string]any{"outcome": string(d.Outcome), "reasons": canon.List(d.Reasons)},
	}
	if q := d.Questions(); len(q) > 0 {
		e.Message = name + ": nothing was started: " + q[0]
		e.Details["questions"] = canon.List(q)
		e.Hint = "answer the question with another command, or choose a profile that does not ask"
	} else {
		e.Hint = fixes(d.Findings)
	}
	for _, r := range d.Reasons {
		e.RuleID = cmp.Or(e.RuleID, inputCheck(r))
	}
	return e
}

// mostFixes is how many bytes of fixes a hint has about; a RunError has limits.
const mostFixes = 4096

// fixes says what to do about findings, each fix once.
func fixes(findings []kernel.Result) string {
	var list []string
	size := 0
	for _, f := range findings {
		fix := cmp.Or(f.Fix, "fiador explain "+f.ID+" says what the rule means")
		if slices.Contains(list, fix) {
			continue
		}
		if size += len(fix); size > mostFixes && len(list) > 0 {
			list = append(list, "and so on")
			break
		}
		list = append(list, fix)
	}
	return strings.Join(list, "; ")
}

// inputCheck is the input check of the contract that the rule of a reason stands for, or
// empty.
func inputCheck(text string) string {
	id := reason.ID(text)
	switch {
	case id == "CMD_NOT_ALLOWED" || id == "CMD_NAME_UNSAFE":
		return contract.IV01
	case id == "SHELL_METACHARACTER":
		return contract.IV02
	case strings.HasPrefix(id, "PATH_"):
		return contract.IV03
	case strings.HasPrefix(id, "ENV_"):
		return contract.IV04
	}
	return ""
}
