package devel

import (
	"strings"

	"github.com/fiador/fiador/policy"
)

// remedies say what to do about a fault whose message has the text. The first one that fits
// counts.
func remedies() [][2]string {
	return [][2]string{
		{"did you mean", "correct the spelling"},
		{" is unsafe", "give the variable a value, as in some x in input.effects, or correct the spelling"},
		{"unused", "take it out, or name the variable _"},
		{"undefined ref", "fiador schema policy-input prints the members of the input"},
		{"undefined function", "specs/policy-contract.md says what a policy cannot call; correct the spelling, or decide without it"},
		{"is recursive", "take one of the references out: a rule cannot need itself"},
		{"does not belong to layer", "name the package of the layer in the first line"},
		{"must be gate.", "name the package of the layer in the first line, such as package gate.org.acme"},
		{"defines none of", "add a deny, clarify or note, or move the helpers into a module that has one"},
		{"has no METADATA", "put a METADATA block with title, description and custom.id above the rule"},
		{"no rule uses record", "use the id in a rule, or take the METADATA out"},
		{"needs a title and a description", "add both lines to the METADATA block"},
		{"stands a second time", "keep one of the two METADATA blocks"},
		{"a second rule", "give each rule an id of its own"},
		{"a second test", "give each test a name of its own"},
		{"custom.", "correct the METADATA block"},
		{"member \"", "write an object of literal members: deny has id, path, msg and fix; clarify id, path, question and options; note id, path and msg"},
		{"neither data.profile", "use the input, data.profile or a rule of the same package"},
		{"test file has no test", "add a rule test_NAME, or name the file without _test"},
		{"arguments", "give the function operands of the types that it takes"},
		{"match error", "compare values of one type"},
		{"unexpected", "correct the syntax here, or before this place"},
	}
}

// Remedy says what to do about a fault of a policy that has no hint of its own.
func Remedy(e *policy.Error) string {
	if e.Kind == policy.KindProfile {
		return "fiador schema profile prints what a profile may hold"
	}
	for _, r := range remedies() {
		if strings.Contains(e.Msg, r[0]) {
			return r[1]
		}
	}
	return "specs/policy-contract.md has the rules for a layer"
}
