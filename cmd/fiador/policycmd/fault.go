package policycmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
)

// fault is a fault or a warning: its place, the rule that it is about, and what to do. Line
// and Column count from 1, and are 0 if they are not known.
type fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// newFault describes an error about a policy. file is the policy's folder, for an error
// without a file.
func newFault(file string, err error) fault {
	if e, ok := errors.AsType[*policy.Error](err); ok {
		return fault{cmp.Or(e.File, e.Module, file), e.Line, e.Column, e.Rule, e.Msg, cmp.Or(e.Hint, devel.Remedy(e))}
	}
	re := runerr.Of(err)
	if e, ok := errors.AsType[*policy.Error](re.Cause); ok {
		return newFault(file, e)
	}
	f := fault{File: file, Rule: re.RuleID, Message: re.Message, Hint: re.Remedy()}
	if name, ok := re.Details["file"].(string); ok {
		f.File = name
	}
	f.Message = strings.TrimPrefix(f.Message, f.File+": ")
	return f
}

// intentFaults describes an error about the intent of a file: one fault for each violation.
func intentFaults(file string, err error) []fault {
	whole, details := newFault(file, err), runerr.Of(err).Details
	whole.File = file
	list, _ := details["violations"].([]any)
	if list == nil {
		list = []any{details}
	}
	var faults []fault
	for _, v := range list {
		v, _ := v.(map[string]any)
		f := whole
		f.Line, _ = v["line"].(int)
		f.Column, _ = v["column"].(int)
		// The place stands before the message, and is not said twice.
		f.Message = strings.TrimLeft(strings.TrimPrefix(f.Message, fmt.Sprintf("line %d, column %d", f.Line, f.Column)), ":, ")
		if msg, ok := v["message"].(string); ok {
			pointer, _ := v["pointer"].(string)
			f.Message = strings.TrimPrefix(pointer+": "+msg, ": ")
		}
		faults = append(faults, f)
	}
	return faults
}

// place sets the line and the column of a value of a JSON text.
func (f *fault) place(src []byte, pointer string) {
	at := canon.Places(src, []string{pointer})[0]
	f.Line, f.Column = at.Line, at.Column
}

// samePlace says whether two faults have one place.
func (f fault) samePlace(o fault) bool {
	return f.File == o.File && f.Line == o.Line && f.Column == o.Column
}

// sorted returns faults by place, each once.
func sorted(list []fault) []fault {
	slices.SortStableFunc(list, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(list)
}

// print prints a fault as editors read it, FILE:LINE:COLUMN: KIND: MESSAGE, and its hint in a
// line of its own.
func (f fault) print(t cli.Terminal, style, kind string) {
	at := screen.Plain(f.File)
	for _, n := range []int{f.Line, f.Column} {
		if n > 0 {
			at += fmt.Sprintf(":%d", n)
		}
	}
	t.Line(at + ": " + t.Paint(style, kind) + ": " + screen.Plain(f.Message))
	if f.Hint != "" {
		t.Line("    " + screen.Plain(f.Hint))
	}
}
