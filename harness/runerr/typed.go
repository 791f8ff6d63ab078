// Package runerr makes RunErrors: typed errors of other packages become RunErrors here,
// with code, message, hint and details. No other package has a literal of one, but for
// usage errors of commands.
package runerr

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/lazy"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/likeness"
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

// Read is the RunError for a text that canon.Parse refused. The message names the file,
// the line, the column and the pointer.
func Read(t Text, err error) *result.RunError {
	ce, ok := errors.AsType[*canon.Error](err)
	if !ok {
		return Internal("the file could not be parsed", err)
	}
	if ce.Kind == canon.KindSize {
		return New(result.CodeUnreadable, t.Name+": larger than the limit of "+strconv.FormatInt(ce.Offset, 10)+" bytes",
			"keep large contents out of the intent; a run action can make them", File(t.Name), Because(err))
	}
	var pointer *string
	if ce.Pointer != "" {
		pointer = &ce.Pointer
	}
	e := t.Fault(result.CodeNotJSON, t.offset(ce.Offset), pointer, ce.Msg)
	e.Details["offset"] = ce.Offset
	e.Cause = err
	if ce.Kind == canon.KindTrailing {
		e.Hint = "leave out what follows the value; fiador check reads one intent a line from a .jsonl file"
	}
	if l := likeness.OfText(t.Src); l != nil {
		e.Message, e.Hint = t.Name+": "+l.Not("JSON"), l.Use
	}
	return e
}

// NotIntent is the RunError for a document that breaks the schema of intents. There is at
// least one violation.
func NotIntent(t Text, doc any, violations []specs.Violation) *result.RunError {
	at := t.Places(specs.Pointers(violations))
	e := t.Fault(result.CodeNotIntent, at[0], &violations[0].Pointer, violations[0].Msg)
	e.RuleID = SchemaCheck(violations[0])
	if n := len(violations) - 1; n > 0 {
		e.Message += " (and " + strconv.Itoa(n) + " more)"
		e.Details["violations"] = Violations(violations, at)
	}
	e.Hint = "fiador schema intent prints what an intent may hold"
	for _, v := range violations[1:] {
		if v.Near != "" && strings.HasPrefix(v.Pointer, violations[0].Pointer+"/") {
			e.Hint = "did you mean " + canon.Quote(v.Near) + " by " + canon.Quote(v.Member) + "? " + e.Hint
			break
		}
	}
	t.Named(e, "an intent", specs.KindIntent, doc)
	return e
}

// Named says in an error what a document seems to be that is not of the wanted kind. The
// violations leave the details: they say nothing about a document of another kind.
func (t Text) Named(e *result.RunError, wanted string, kind specs.Kind, doc any) {
	if l := likeness.Of(doc, string(kind)); l != nil {
		e.Message, e.Hint = t.Name+": "+l.Not(wanted), l.Use
		delete(e.Details, "violations")
	}
}

// Violations is the detail "violations": for each one its pointer, its message and its
// position.
func Violations(violations []specs.Violation, at []canon.Position) []any {
	list := make([]any, len(violations))
	for i, v := range violations {
		list[i] = map[string]any{"pointer": v.Pointer, "message": v.Msg, "line": at[i].Line, "column": at[i].Column}
	}
	return list
}

// Intent is the RunError for an intent that kernel.ParseIntent refused.
func Intent(t Text, err error) *result.RunError {
	ie, ok := errors.AsType[*kernel.IntentError](err)
	if !ok {
		return Internal("the intent could not be read", err)
	}
	e := t.Fault(result.CodeNotIntent, t.Places([]string{ie.Pointer})[0], &ie.Pointer, ie.Msg)
	e.Hint, e.RuleID = ie.Hint, ie.Rule
	return e
}

// checkedBySchema are the places of intents and requests whose form the schema checks
// before an input check can, and what it can find there.
var checkedBySchema = lazy.Value[[]schemaCheck]{Make: func() []schemaCheck {
	return []schemaCheck{
		{regexp.MustCompile(`^/(actions/\d+/argv|inputs/arguments)/`), []string{"maxLength"}, contract.IV02},
		{regexp.MustCompile(`^/(actions/\d+/env|inputs/environment)/`), []string{"maxLength", "propertyNames"}, contract.IV04},
		{regexp.MustCompile(`^/inputs(/input_files)?$`), []string{"maxItems"}, contract.IV05},
	}
}}

type schemaCheck struct {
	place *regexp.Regexp
	rules []string
	id    string
}

// SchemaCheck is the input check of the contract that a violation of a schema breaks, or
// empty.
func SchemaCheck(v specs.Violation) string {
	for _, c := range checkedBySchema.Get() {
		if slices.Contains(c.rules, v.Rule) && c.place.MatchString(v.Pointer) {
			return c.id
		}
	}
	return ""
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
		Known("file", pe.File), Known("module", pe.Module), Known("line", pe.Line), Known("column", pe.Column), Known("rule", pe.Rule))
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
