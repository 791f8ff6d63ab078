package runerr

import (
	"cmp"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// Refused is the RunError for a command that the policy does not let run: a REFUSE or a
// CLARIFY. Its details have the outcome, the reasons, and the open questions. Its rule is
// the first input check of the contract among the reasons, if there is one.
func Refused(name string, d kernel.Decision) *result.RunError {
	e := &result.RunError{
		Code: result.CodeProfile, Message: name + ": nothing was started: " + d.RefuseReason,
		Details: map[string]any{"outcome": string(d.Outcome), "reasons": canon.List(d.Reasons)},
	}
	if q := d.Questions(); len(q) > 0 {
		e.Message = name + ": nothing was started: " + q[0]
		e.Details["questions"] = canon.List(q)
		e.Hint = "answer the question with another command, or choose a profile that does not ask"
	}
	for _, f := range d.Findings {
		e.Hint = cmp.Or(e.Hint, f.Fix)
	}
	e.Hint = cmp.Or(e.Hint, "fiador explain "+d.Findings[0].ID+" says what the rule means")
	for _, r := range d.Reasons {
		e.RuleID = cmp.Or(e.RuleID, inputCheck(r))
	}
	return e
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
