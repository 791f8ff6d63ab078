package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// The levels of a finding, in the words of SARIF.
const (
	levelError   = "error"   // a denial, a reason of a rejected execution, or an error
	levelWarning = "warning" // a question
	levelNote    = "note"
)

// finding is one statement about an intent, with its original words.
type finding struct {
	level   string
	id      string // of a rule, or the code of an error
	text    string
	fix     string
	options []string // possible answers to a question

	question   string   // id of the question, empty of another statement
	answerable bool     // an answer in the intent settles the question
	settling   []string // the options that settle it, if any does

	title, why, help, layer string // of the rule; an error has no layer
	page                    string // what describes the rule: a path of the repository, and a place

	key string // what tells the finding from others of its rule; empty: the text

	subject string   // subject of a reason of an execution, if it is not a pointer
	stderr  []string // of the first finding of an execution: the last lines of the output

	pointer    string
	hasPointer bool
	offset     int64
	hasOffset  bool

	region region
}

// findings lists the findings of an item, in the order of the decision, the notes last,
// with the place of each.
func findings(i Item) []finding {
	var list []finding
	switch i.Outcome() {
	case OutcomeError:
		list = faults(i)
	case OutcomeUnannounced:
		r := Unannounced()
		list = []finding{{level: levelError, id: r.ID, text: i.unannounced(), fix: r.Fix, title: r.Title, why: r.Why, help: r.Fix}}
	default:
		list = decided(i.Decision)
	}
	if i.Outcome() == OutcomeFailed {
		list = append(i.Execution.findings(), list...)
	}
	if len(list) > 0 {
		locate(i, list)
	}
	return list
}

func decided(d kernel.Decision) []finding {
	var list []finding
	add := func(level string, r kernel.Result) {
		f := finding{
			level: level, id: r.ID, text: r.Text, fix: r.Fix, options: r.Options,
			title: r.Title, why: r.Why, help: r.Fix, layer: r.Module, pointer: r.Path, hasPointer: true,
		}
		if r.Module == kernel.ModuleBuiltin || r.Module == kernel.ModuleKernel {
			f.page = reference(r.ID)
		}
		if level == levelWarning {
			f.question, f.answerable, f.settling = r.QuestionID(), r.Needs() == kernel.NeedAnswer, r.Answers()
		}
		list = append(list, f)
	}
	level := levelError
	if d.Outcome == kernel.OutcomeClarify {
		level = levelWarning
	}
	for _, r := range d.Findings {
		add(level, r)
	}
	for _, r := range d.Notes {
		add(levelNote, r)
	}
	return list
}

// reference returns the place of a code in the reference.
func reference(id string) string { return "docs/reference.md#" + strings.ToLower(id) }

// faults returns the findings of an error: one for each violation in the error, or one
// for the error itself.
func faults(i Item) []finding {
	e := i.Err
	if e == nil {
		e = result.Undecided()
	}
	rec := result.RecordOf(string(e.Code))
	base := finding{level: levelError, id: string(e.Code), fix: e.Remedy(), title: rec.Title, why: rec.Why, help: rec.Fix, page: reference(string(e.Code))}
	if list := e.Violations(); len(list) > 0 {
		found := make([]finding, len(list))
		for k, v := range list {
			found[k] = base
			found[k].pointer, found[k].hasPointer, found[k].text = v.Pointer, true, v.Text
		}
		return found
	}
	// A place in another file, such as a profile, is no place in the intent.
	if file, named := e.Details["file"].(string); !named || file == i.Path || file == i.Name() {
		base.pointer, base.hasPointer = e.Details["pointer"].(string)
		base.offset, base.hasOffset = e.Details["offset"].(int64)
	}
	base.text = withoutPlace(withoutFile(i, e), e, base)
	return []finding{base}
}

// split separates the faults of an intent from the notes about it.
func split(list []finding) (wrong, notes []finding) {
	n := slices.IndexFunc(list, func(f finding) bool { return f.level == levelNote })
	if n < 0 {
		n = len(list)
	}
	return list[:n], list[n:]
}

// withoutFile returns the message of an item's error without the leading file name.
// Every format writes the file name in its own way.
func withoutFile(i Item, e *result.RunError) string {
	if msg, ok := strings.CutPrefix(e.Message, i.Name()+": "); ok {
		return msg
	}
	return strings.TrimPrefix(e.Message, i.Path+": ")
}

// withoutPlace removes the place of a fault from the beginning of its message.
func withoutPlace(msg string, e *result.RunError, f finding) string {
	column := fmt.Sprint("column ", e.Details["column"])
	for _, place := range []string{fmt.Sprint("line ", e.Details["line"], ", ", column), column, fmt.Sprint("byte ", f.offset), ""} {
		if f.pointer != "" {
			place = strings.TrimPrefix(place+", "+f.pointer, ", ")
		}
		if rest, ok := strings.CutPrefix(msg, place+": "); ok {
			return rest
		}
	}
	return msg
}

// reason returns the finding in the form of the RunResult.
func (f finding) reason() string { return squeeze(" ", f.id, f.pointer, f.subject) }

// Answers returns the options of a question on one line, in quotes if they would be
// ambiguous without.
func Answers(options []string) string {
	if !slices.ContainsFunc(options, func(o string) bool { return strings.ContainsAny(o, `,"`) }) {
		return strings.Join(options, ", ")
	}
	var quoted []string
	for _, o := range options {
		quoted = append(quoted, strconv.Quote(o))
	}
	return strings.Join(quoted, ", ")
}

// advice returns the text after a finding: the possible answers, and its fix.
func (f finding) advice() string {
	answers, fix := "", ""
	if len(f.options) > 0 {
		answers = "answers: " + Answers(f.options)
	}
	if f.fix != "" {
		fix = "fix: " + f.fix
	}
	return squeeze("; ", answers, fix)
}
