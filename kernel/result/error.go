package result

import "github.com/fiador/fiador/kernel/canon"

// Code is a stable error code (run-result.md, 5.2).
type Code string

// The error codes. Each means that no decision was made.
const (
	CodeUnreadable Code = "RUN_E001" // a file could not be read
	CodeNotJSON    Code = "RUN_E002" // not strict JSON
	CodeNotIntent  Code = "RUN_E003" // not a valid intent
	CodeProfile    Code = "RUN_E004" // profile and mode do not go together, or the profile is invalid
	CodeSandbox    Code = "RUN_E005" // the sandbox could not be set up as the policy demands
	CodeEvidence   Code = "RUN_E006" // evidence could not be collected or contradicts itself
	CodeInternal   Code = "RUN_E007" // internal, policy engine included
)

// RunError stands in place of a RunResult (run-result.md, 5.1). Its JSON form
// is canonical and stands on one line of stderr.
type RunError struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	RuleID  string         `json:"rule_id,omitempty"`
	Details map[string]any `json:"details,omitempty"`

	// Hint is what to do about it. It is for people and not part of the JSON.
	Hint string `json:"-"`
	// Cause is the error underneath, if there is one.
	Cause error `json:"-"`
}

func (e *RunError) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the error underneath.
func (e *RunError) Unwrap() error { return e.Cause }

// Line is the error as canonical JSON and one LF.
func (e *RunError) Line() []byte {
	b, _, err := canon.Artifact(e)
	if err != nil {
		return []byte(`{"code":"RUN_E007","message":"an error could not be written as JSON"}` + "\n")
	}
	return b
}
