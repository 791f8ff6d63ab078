package result

import (
	"cmp"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Code is a stable error code (run-result.md, 5.2).
type Code string

// The error codes. Each code means that no decision was made.
const (
	CodeUnreadable Code = "RUN_E001" // a file could not be read, or the arguments of a call are invalid
	CodeNotJSON    Code = "RUN_E002" // not strict JSON
	CodeNotIntent  Code = "RUN_E003" // not a valid intent
	CodeProfile    Code = "RUN_E004" // the profile or the tools are invalid, or profile, mode and flags contradict each other
	CodeSandbox    Code = "RUN_E005" // the sandbox could not be set up as the policy demands
	CodeEvidence   Code = "RUN_E006" // evidence could not be collected or contradicts itself
	CodeInternal   Code = "RUN_E007" // an internal error, also of the policy engine
)

// RunError is printed in place of a RunResult (run-result.md, 5.1). Its JSON form is
// canonical and is one line of stderr.
type RunError struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	RuleID  string         `json:"rule_id,omitempty"`
	Details map[string]any `json:"details,omitempty"`

	// Hint says what to do about the error, if there is more to say than the fix of its
	// code.
	Hint string `json:"-"`
	// Cause is the underlying error, or nil.
	Cause error `json:"-"`
}

// Undecided is the error of a run without a decision and without an error of its own.
func Undecided() *RunError {
	return &RunError{Code: CodeInternal, Message: "the item has neither a decision nor an error"}
}

// Error returns the code and the message.
func (e *RunError) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the underlying error.
func (e *RunError) Unwrap() error { return e.Cause }

// Remedy says what to do about the error: its hint, or else the fix of its code.
func (e *RunError) Remedy() string {
	return cmp.Or(e.Hint, RecordOf(string(e.Code)).Fix)
}

// Violation is one fault of a document that an error is about.
type Violation struct{ Pointer, Text string }

// Violations returns the faults that details.violations lists. It returns nil if the message
// says all.
func (e *RunError) Violations() (list []Violation) {
	details, _ := e.Details["violations"].([]any)
	for _, v := range details {
		if m, ok := v.(map[string]any); ok {
			pointer, _ := m["pointer"].(string)
			text, _ := m["message"].(string)
			list = append(list, Violation{pointer, text})
		}
	}
	return list
}

// Line returns the error as canonical JSON and one LF, with the remedy as details.hint.
// A character that is not printable is written as <U+202E>, so that the whole line is
// visible.
func (e *RunError) Line() []byte {
	told := *e
	told.Details = map[string]any{}
	maps.Copy(told.Details, e.Details)
	told.Details["hint"] = e.Remedy()
	text, err := canon.Canonical(&told)
	if err != nil {
		text = []byte(`{"code":"RUN_E007","message":"an error could not be written as JSON"}`)
	}
	var line []byte
	for _, r := range string(text) {
		if canon.Shows(r) {
			line = utf8.AppendRune(line, r)
		} else {
			line = fmt.Appendf(line, "<U+%04X>", r)
		}
	}
	return append(line, '\n')
}
