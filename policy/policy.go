// Package policy turns a profile and layers of Rego into a [kernel.Verdict].
// It, policy/devel and policy/stored alone import OPA. Package policy/profile reads
// profiles.
//
// # Terms
//
// A layer is one Rego package with its modules: gate.builtin, gate.org.NAME,
// gate.repo.NAME or gate.user.NAME. Each layer is compiled and evaluated alone. It sees
// its own package, data.profile and the input document, and nothing else. Go joins the
// answers of the layers, so that no layer can change another (TestLayersAreAlone). A
// reference to other data is an error at load.
//
// A layer answers through four rules, each a set that grows with "contains":
//
//	permit  contains an effect's id              (gate.builtin only)
//	deny    contains {"id", "path", "msg", "fix"?}
//	clarify contains {"id", "path", "question", "options"?}
//	note    contains {"id", "path", "msg"}
//
// The head of a deny, clarify or note is an object literal. Its id is a literal
// [A-Z][A-Z0-9_]{1,31} that only one rule of that name uses. A METADATA block of the
// layer describes the id: custom.id, title, description, and optionally custom.fix and
// custom.priority (0 to 100). A deny, a clarify and a note may share one id and its
// record. Every other rule name is a helper. path is a JSON Pointer that resolves in
// the intent; options is an array or a set of strings.
//
// # What a policy cannot do
//
// Modules compile in strict mode against capabilities.json, a frozen list of pure
// built-in functions: no clock, no randomness, no environment, no network. builtins.txt
// has a decision about every built-in function. print is refused, because the compiler
// would erase it. An error of a built-in function is an error of the evaluation, and
// never an undefined value that would make a deny silent.
//
// An undefined, malformed or oversized answer is an error. No answer is truncated
// before the verdict, and an error is never a verdict.
//
// # Time and memory
//
// Compiling and evaluating run in a goroutine of their own, which [New] and
// [Engine.Eval] watch. At Limits.Compile or Limits.Deadline the work is cancelled,
// which gives KindTimeout. Work that ignores the cancellation for Limits.Grace, or maps
// more than Limits.MemoryBytes, gives KindWatchdog: the goroutine still runs, so the
// process must end.
//
// One call of a built-in function can allocate faster than any poll. So a function
// whose result can be larger than its operands first computes the size of its result. A
// size above 16 MiB is an error of KindLimit (TestTooLarge, TestSizes). On Linux
// RLIMIT_DATA is the last resort: the runtime then ends the process with status 2
// (TestDataLimit). Layers that are part of the program call the functions without this
// check.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/profiles"
)

// ContractVersion is the version of the input document and of the four rules.
const ContractVersion = "1.3.0"

// The earlier versions.
const (
	ContractFirst  = "1.0.0" // without the member listed, and without the finding env_unlisted
	ContractListed = "1.1.0" // without the member tool
	ContractTools  = "1.2.0" // without the member answers; context.answers is free data
)

// EarlierContracts returns the earlier versions, the first one first.
func EarlierContracts() []string { return []string{ContractFirst, ContractListed, ContractTools} }

// Builtin is the package of the layer that decides permits.
const Builtin = kernel.ModuleBuiltin

// Module is one Rego file of a layer, or the file of its records. Name is a slash-separated
// path such as "builtin/decide.rego" or "org/acme/deploy.rego". It appears in the
// provenance of a result, and is the same on every machine. File is the path at which the
// author finds the file, if it is another path; it appears in errors.
type Module struct {
	Name   string
	Source []byte
	File   string
}

// ErrorAt returns an error of KindModule about a place in the module; nil is the whole
// module.
func (m Module) ErrorAt(loc *ast.Location, format string, args ...any) *Error {
	e := errorAt(m.Name, loc, format, args...)
	e.File = m.File
	return e
}

// Errorf returns an error of KindModule about a line of the module. Line 0 is the whole
// module.
func (m Module) Errorf(line int, format string, args ...any) *Error {
	e := moduleErrorf(m.Name, line, format, args...)
	e.File = m.File
	return e
}

// Layer is one Rego package and its modules.
//
// Of the layer gate.builtin, one module can be a file of records (profiles.ReadRecords).
// Then its rules have no literal ids: the records say which ids answers have, and the rules
// see them as data.records.
//
// Embedded says that the layer's sources are part of the program. A test of the program
// then proves what [New] proves of other layers: TestEmbeddedLayer does so for the
// built-in policy, and Store refuses a rule that uses "with". Opened from its stored form,
// such a layer is not checked again, and its records are read when a verdict or
// [Engine.Rules] needs them. Embedded must not be set for sources from any other place.
//
// Stored is the stored form of an embedded layer (Store), or nil. A form that does not
// belong to these modules, to this version of OPA and to the capabilities is not used.
type Layer struct {
	Package  string
	Modules  []Module
	Embedded bool
	Stored   []byte
}

// Rego returns the modules of a layer without the file of its records.
func (l Layer) Rego() []Module {
	if i := l.recordsAt(); i >= 0 {
		return slices.Delete(slices.Clone(l.Modules), i, i+1)
	}
	return l.Modules
}

// records returns the file of the layer's records, or nil.
func (l Layer) records() *Module {
	if i := l.recordsAt(); i >= 0 {
		return &l.Modules[i]
	}
	return nil
}

func (l Layer) recordsAt() int {
	return slices.IndexFunc(l.Modules, func(m Module) bool { return l.Package == Builtin && m.Name == profiles.RecordsModule })
}

// Limits bound the time, the memory and the sizes of a policy. A zero member means the
// default.
type Limits struct {
	Compile      time.Duration // until compilation is cancelled
	Deadline     time.Duration // until evaluation is cancelled
	Embedded     time.Duration // the same for embedded layers, if it is longer
	Grace        time.Duration // until an ignored cancellation ends the process
	Poll         time.Duration // between two checks of time and memory
	MemoryBytes  uint64        // mapped memory of the process
	Results      int           // denies, clarifies and notes of one layer together; no limit for gate.builtin
	MessageBytes int           // bytes of one msg, question, option or fix
	ModuleBytes  int           // bytes of one module
	BundleBytes  int           // bytes of all modules of a layer
}

// DefaultLimits returns the limits of specs/policy-contract.md.
func DefaultLimits() Limits {
	return Limits{
		Compile:      5 * time.Second,
		Deadline:     time.Second,
		Embedded:     30 * time.Second,
		Grace:        500 * time.Millisecond,
		Poll:         5 * time.Millisecond,
		MemoryBytes:  768 << 20,
		Results:      1000,
		MessageBytes: 2048,
		ModuleBytes:  1 << 20,
		BundleBytes:  8 << 20,
	}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	l.Compile = cmp.Or(l.Compile, d.Compile)
	l.Deadline = cmp.Or(l.Deadline, d.Deadline)
	l.Embedded = cmp.Or(l.Embedded, d.Embedded)
	l.Grace = cmp.Or(l.Grace, d.Grace)
	l.Poll = cmp.Or(l.Poll, d.Poll)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, d.MemoryBytes)
	l.Results = cmp.Or(l.Results, d.Results)
	l.MessageBytes = cmp.Or(l.MessageBytes, d.MessageBytes)
	l.ModuleBytes = cmp.Or(l.ModuleBytes, d.ModuleBytes)
	l.BundleBytes = cmp.Or(l.BundleBytes, d.BundleBytes)
	return l
}

// Kind is the kind of an error. It is stable and meant for comparison.
type Kind string

// The kinds of [Error].
const (
	KindProfile  Kind = "profile"  // an invalid profile
	KindModule   Kind = "module"   // a module or layer that does not load
	KindEval     Kind = "eval"     // an undefined, conflicting or malformed answer
	KindLimit    Kind = "limit"    // a size or a number beyond Limits
	KindTimeout  Kind = "timeout"  // stopped at the deadline or by the caller
	KindWatchdog Kind = "watchdog" // did not stop: the process must end
)

// Error is the only error type of this package. Msg is one line for people and has no
// text of the Go runtime. Module, Line and Column, if known, are the place in a layer, and
// File is the path at which the author finds it. Pointer is the place in a profile. Rule is
// a rule's name or id.
type Error struct {
	Kind    Kind
	Module  string
	File    string
	Line    int
	Column  int // in characters, from 1 on; 0 if it is not known
	Pointer string
	Rule    string
	Msg     string
	Hint    string // advice, or empty
}

// Error returns "FILE:LINE: MSG", with the parts that are known; of a profile with the column.
func (e *Error) Error() string {
	place := cmp.Or(e.File, e.Module)
	switch {
	case place == "":
		return e.Msg
	case e.Line == 0:
		return fmt.Sprintf("%s: %s", place, e.Msg)
	case e.Kind == KindProfile && e.Column > 0:
		return fmt.Sprintf("%s:%d:%d: %s", place, e.Line, e.Column, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", place, e.Line, e.Msg)
}

// located adds to an error the file of its module.
func located(err error, layers []Layer) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Module != "" && e.File == "" {
		e.File = fileOf(layers, e.Module)
	}
	return err
}

// Locate adds to errors the files of their modules.
func Locate(errs []*Error, layers []Layer) {
	for _, e := range errs {
		_ = located(e, layers)
	}
}

// SortErrors sorts errors by place. It returns each once.
func SortErrors(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Msg, b.Msg))
	})
	return slices.CompactFunc(errs, func(a, b *Error) bool { return a.Error() == b.Error() })
}

// fileOf returns the file of a module, or "" if the file is the module's name.
func fileOf(layers []Layer, module string) string {
	for _, l := range layers {
		for _, m := range l.Modules {
			if m.Name == module {
				return m.File
			}
		}
	}
	return ""
}

func moduleErrorf(name string, line int, format string, args ...any) *Error {
	return &Error{Kind: KindModule, Module: name, Line: line, Msg: fmt.Sprintf(format, args...)}
}

// errorAt returns an error of KindModule about a place in a module.
func errorAt(name string, loc *ast.Location, format string, args ...any) *Error {
	e := moduleErrorf(name, LineOf(loc), format, args...)
	if e.Line > 0 {
		e.Column = loc.Col
	}
	return e
}

// LineOf returns the line of a place, from 1 on, or 0 if the place is unknown.
func LineOf(loc *ast.Location) int {
	if loc == nil {
		return 0
	}
	return loc.Row
}

// firstOf returns the first of several errors, or nil.
func firstOf(errs []*Error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
