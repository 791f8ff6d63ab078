// Package runerr makes RunErrors: typed errors of other packages become RunErrors here,
// with code, message, hint and details. No other package has a literal of one, but for
// usage errors of commands.
package runerr

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Internal is the RunError for what should not happen, and for an answer that does not
// count.
func Internal(msg string, cause error) *result.RunError {
	return &result.RunError{Code: result.CodeInternal, Message: msg, Cause: cause}
}

// Of returns the RunError among joined errors.
func Of(err error) *result.RunError {
	if re, ok := errors.AsType[*result.RunError](err); ok {
		return re
	}
	return Internal("internal error: no decision was made", err)
}

// Interrupted is the RunError for a run over many intents that was told to stop.
func Interrupted() *result.RunError {
	return Internal("interrupted: not every intent was decided", nil)
}

// Panicked is the RunError for a panic: no decision was made.
func Panicked() *result.RunError {
	e := Internal("internal error: no decision was made", nil)
	e.Hint = "this is a fault of the program; report it with the intent that led to it"
	return e
}

// Unreadable is the RunError for a file that cannot be read.
func Unreadable(path, why, hint string) *result.RunError {
	return New(result.CodeUnreadable, path+": "+why, hint, File(path))
}

// Read is the RunError for a file that canon.Parse refused. The message
// names the file, the byte and the pointer.
func Read(file string, err error) *result.RunError {
	ce, ok := errors.AsType[*canon.Error](err)
	if !ok {
		return Internal("the file could not be parsed", err)
	}
	e := &result.RunError{Code: result.CodeNotJSON, Details: map[string]any{"file": file}, Cause: err}
	if ce.Kind == canon.KindSize {
		e.Code = result.CodeUnreadable
		e.Message = file + ": larger than the limit of " + strconv.FormatInt(ce.Offset, 10) + " bytes"
		e.Hint = "keep large contents out of the intent; a run action can make them"
		return e
	}
	e.Details["offset"] = ce.Offset
	at := "byte " + strconv.FormatInt(ce.Offset, 10)
	if ce.Pointer != "" {
		e.Details["pointer"] = ce.Pointer
		at += ", " + ce.Pointer
	}
	e.Message = file + ": " + at + ": " + ce.Msg
	return e
}

// NotIntent is the RunError for a document that breaks the schema of intents. There is at
// least one violation.
func NotIntent(file string, violations []specs.Violation) *result.RunError {
	e := intentFault(file, violations[0].Pointer, violations[0].Msg)
	e.RuleID = SchemaCheck(violations[0])
	if n := len(violations) - 1; n > 0 {
		e.Message += " (and " + strconv.Itoa(n) + " more)"
		e.Details["violations"] = Violations(violations)
	}
	e.Hint = "fiador schema intent prints what an intent may hold"
	return e
}

// Violations is the detail "violations": for each one its pointer and its message.
func Violations(violations []specs.Violation) []any {
	list := make([]any, len(violations))
	for i, v := range violations {
		list[i] = map[string]any{"pointer": v.Pointer, "message": v.Msg}
	}
	return list
}

// Intent is the RunError for an intent that kernel.ParseIntent refused.
func Intent(file string, err error) *result.RunError {
	ie, ok := errors.AsType[*kernel.IntentError](err)
	if !ok {
		return Internal("the intent could not be read", err)
	}
	e := intentFault(file, ie.Pointer, ie.Msg)
	e.Hint, e.RuleID = ie.Hint, ie.Rule
	return e
}

// checkedBySchema are the places of intents and requests whose form the schema checks
// before an input check can, and what it can find there.
var checkedBySchema = sync.OnceValue(func() []schemaCheck {
	return []schemaCheck{
		{regexp.MustCompile(`^/(actions/\d+/argv|inputs/arguments)/`), []string{"maxLength"}, contract.IV02},
		{regexp.MustCompile(`^/(actions/\d+/env|inputs/environment)/`), []string{"maxLength", "propertyNames"}, contract.IV04},
		{regexp.MustCompile(`^/inputs(/input_files)?$`), []string{"maxItems"}, contract.IV05},
	}
})

type schemaCheck struct {
	place *regexp.Regexp
	rules []string
	id    string
}

// SchemaCheck is the input check of the contract that a violation of a schema breaks, or
// empty.
func SchemaCheck(v specs.Violation) string {
	for _, c := range checkedBySchema() {
		if slices.Contains(c.rules, v.Rule) && c.place.MatchString(v.Pointer) {
			return c.id
		}
	}
	return ""
}

func intentFault(file, pointer, msg string) *result.RunError {
	e := &result.RunError{
		Code:    result.CodeNotIntent,
		Message: file + ": " + msg,
		Details: map[string]any{"file": file, "pointer": pointer},
	}
	if pointer != "" {
		e.Message = file + ": " + pointer + ": " + msg
	}
	return e
}

// Policy maps what the policy package says: a profile that is itself
// invalid is the caller's to mend, anything else means that the engine gave no
// answer that counts.
func Policy(err error) *result.RunError {
	pe, ok := errors.AsType[*policy.Error](err)
	if !ok {
		return Internal("the policy gave no answer", err)
	}
	code := result.CodeInternal
	if pe.Kind == policy.KindProfile || pe.Kind == policy.KindModule {
		code = result.CodeProfile
	}
	return New(code, "policy: "+pe.Error(), pe.Hint, Because(err),
		Known("file", pe.File), Known("module", pe.Module), Known("line", pe.Line), Known("rule", pe.Rule))
}

// Load is [Policy] for a policy that is being read, where a file over its
// limit is the policy's fault too.
func Load(err error) *result.RunError {
	if re, ok := errors.AsType[*result.RunError](err); ok {
		return re
	}
	e := Policy(err)
	if pe, ok := errors.AsType[*policy.Error](err); ok && pe.Kind == policy.KindLimit {
		e.Code = result.CodeProfile
	}
	return e
}

// Mode is the RunError for a profile, a mode or flags that do not go together.
func Mode(msg, hint string) *result.RunError {
	return &result.RunError{Code: result.CodeProfile, Message: msg, Hint: hint}
}
