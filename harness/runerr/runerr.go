package runerr

import "github.com/fiador/fiador/kernel/result"

// More adds something to a RunError.
type More func(*result.RunError)

// New makes a RunError. With an empty hint its remedy is that of the code.
func New(code result.Code, msg, hint string, more ...More) *result.RunError {
	e := &result.RunError{Code: code, Message: msg, Hint: hint}
	for _, add := range more {
		add(e)
	}
	return e
}

// Because names the error underneath.
func Because(cause error) More { return func(e *result.RunError) { e.Cause = cause } }

// Rule names the rule that is broken.
func Rule(id string) More { return func(e *result.RunError) { e.RuleID = id } }

// File is the detail that names a file.
func File(name string) More { return With("file", name) }

// At is the detail that points into a document.
func At(pointer string) More { return With("pointer", pointer) }

// Known is a detail that is left out if its value is the zero value.
func Known[T comparable](name string, value T) More {
	if value == *new(T) {
		return func(*result.RunError) {}
	}
	return With(name, value)
}

// With is a detail.
func With(name string, value any) More {
	return func(e *result.RunError) {
		if e.Details == nil {
			e.Details = map[string]any{}
		}
		e.Details[name] = value
	}
}
