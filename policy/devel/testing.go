package devel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Suite is a layer with its tests. A test is a rule named test_NAME in a *_test.rego
// file; it passes if it is true. A test sees its layer, data.profile, and in
// data.intents the input documents of example intents by name. It may replace input and
// data.profile by "with".
type Suite struct {
	Profile kernel.Profile
	Layer   policy.Layer
	Tests   []policy.Module
	Intents map[string]policy.Input
	Run     *regexp.Regexp // selects the tests to run, by PACKAGE.NAME; nil selects all
}

// Case is one test with its outcome.
type Case struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Pass    bool   `json:"pass"`
	Fault   string `json:"fault,omitempty"` // what is wrong, in one line
}

// Tested is the outcome of a suite. Cases are sorted by file and line, and files by
// name.
type Tested struct {
	Cases    []Case    `json:"tests"`
	Coverage []Covered `json:"coverage"`
}

// Covered says which lines of a module the tests reached. It counts only lines on which
// a rule or an expression begins.
type Covered struct {
	File   string `json:"file"`
	Lines  int    `json:"lines"`  // number of lines that tests could reach
	Missed []int  `json:"missed"` // lines that no test reached, ascending
}

// Test runs a suite under the frozen capabilities, each test within Limits.Deadline. A
// suite without a test is an error. A test file is an error if it has no test, or
// defines one of the rules through which a layer answers. The error is a *policy.Error.
func Test(ctx context.Context, s Suite, lim policy.Limits) (Tested, error) {
	b, err := compileTests(ctx, s, lim)
	if err != nil {
		return Tested{}, err
	}
	var out Tested
	for _, t := range b.tests {
		c := t.Case
		if s.Run != nil && !s.Run.MatchString(c.Package+"."+c.Name) {
			continue
		}
		c.Fault, err = policy.WatchEval(ctx, lim, s.layers(), "the test", func(cancel topdown.Cancel) (string, error) { return b.run(ctx, cancel, t) })
		if err != nil {
			e, ok := errors.AsType[*policy.Error](err)
			if !ok || e.Kind == policy.KindWatchdog || ctx.Err() != nil {
				return Tested{}, err
			}
			c.Fault = e.Error()
		}
		c.Pass = c.Fault == ""
		out.Cases = append(out.Cases, c)
	}
	if len(out.Cases) == 0 {
		msg := "no test (test_NAME in a *_test.rego) was found"
		if s.Run != nil {
			msg = fmt.Sprintf("no test matches %q", canon.Cut(s.Run.String()))
		}
		return Tested{}, &policy.Error{Kind: policy.KindModule, Msg: msg}
	}
	out.Coverage = b.coverage(s.Layer)
	return out, nil
}

// CheckTests compiles a suite, runs nothing, and returns all faults of the tests. Of a layer
// with a fault, sound is false: then no test is compiled.
func CheckTests(ctx context.Context, s Suite, sound bool, lim policy.Limits) []*policy.Error {
	var errs []*policy.Error
	_, err := policy.WatchCompile(ctx, lim, s.layers(), "compiling the tests", func() (*testBench, error) {
		b := &testBench{layer: map[string]*ast.Module{}, reached: map[string]map[int]bool{}}
		errs = b.read(s)
		if len(errs) == 0 && sound {
			errs = b.compile(s, lim)
		}
		return b, nil
	})
	if e, ok := errors.AsType[*policy.Error](err); ok {
		return []*policy.Error{e} // errs may still be written
	}
	policy.Locate(errs, s.layers())
	return errs
}

func compileTests(ctx context.Context, s Suite, lim policy.Limits) (*testBench, error) {
	return policy.WatchCompile(ctx, lim, s.layers(), "compiling the tests", func() (*testBench, error) {
		b := &testBench{layer: map[string]*ast.Module{}, reached: map[string]map[int]bool{}}
		errs := b.read(s)
		if len(errs) == 0 {
			errs = b.compile(s, lim)
		}
		if len(errs) > 0 {
			return nil, errs[0]
		}
		return b, nil
	})
}

// layers returns all modules of a suite.
func (s Suite) layers() []policy.Layer { return []policy.Layer{s.Layer, {Modules: s.Tests}} }

// testBench is a compiled suite.
type testBench struct {
	layer   map[string]*ast.Module // as the parser returns it
	program *policy.Program
	store   storage.Store
	tests   []testRule
	all     map[string]*ast.Module  // of the layer and its tests
	reached map[string]map[int]bool // lines by module
}

// testRule is a test with its rule, as the parser returns it.
type testRule struct {
	Case
	rule *ast.Rule
}

// read parses the modules and checks each test file. A module of the layer that cannot be
// parsed is no fault of the tests.
func (b *testBench) read(s Suite) (errs []*policy.Error) {
	b.all = map[string]*ast.Module{}
	for _, m := range s.Layer.Rego() {
		if mod, err := parse(m); err == nil {
			b.layer[m.Name], b.all[m.Name] = mod, mod
		}
	}
	for _, m := range s.Tests {
		mod, faults := parseAll(m)
		if len(faults) > 0 {
			errs = append(errs, faults...)
			continue
		}
		b.all[m.Name] = mod
		tests, faults := testRules(m, mod)
		errs = append(append(errs, faults...), checkTestModule(s.Layer, m, mod, b.layer)...)
		for _, t := range tests {
			if n := slices.IndexFunc(b.tests, func(o testRule) bool { return o.Package == t.Package && o.Name == t.Name }); n >= 0 {
				errs = append(errs, m.ErrorAt(t.rule.Location, "a second test %q; the first is at %s:%d", t.Name, b.tests[n].File, b.tests[n].Line))
			}
		}
		b.tests = append(b.tests, tests...)
	}
	return errs
}

// compile compiles the modules that read has read.
func (b *testBench) compile(s Suite, lim policy.Limits) []*policy.Error {
	program, errs := policy.CompileAll(b.all, policy.ParserOptions())
	if len(errs) > 0 {
		return errs
	}
	b.program = program
	if errs := checkTestReferences(s, program.Modules()); len(errs) > 0 {
		return errs
	}
	err := program.Bound(lim)
	if err == nil {
		b.store, err = testStore(s)
	}
	if e, ok := errors.AsType[*policy.Error](err); ok {
		return []*policy.Error{e}
	}
	return nil
}

// checkTestModule refuses a test file that changes the tested layer. It refuses a
// package that would replace data.profile, data.intents or another layer, and a rule
// that the layer also has.
func checkTestModule(l policy.Layer, m policy.Module, mod *ast.Module, layer map[string]*ast.Module) (errs []*policy.Error) {
	switch pkg := policy.PackageName(mod); pkg {
	case l.Package + "_test":
	case l.Package:
		for _, r := range mod.Rules {
			rule := r.Head.Ref()[0].Value
			for _, tested := range layer {
				if slices.ContainsFunc(tested.Rules, func(own *ast.Rule) bool { return own.Head.Ref()[0].Value.Compare(rule) == 0 }) {
					errs = append(errs, m.ErrorAt(r.Location, "rule %q is the layer's: a test file must not add to it", rule.String()))
				}
			}
		}
	default:
		errs = append(errs, m.ErrorAt(mod.Package.Location, "package %q must be %q", pkg, l.Package+"_test"))
	}
	return errs
}

// checkTestReferences refuses tests that name a missing intent or rule. Without this
// check, count(acme.dny) == 0 would be undefined, and not acme.dny would pass.
func checkTestReferences(s Suite, mods map[string]*ast.Module) (errs []*policy.Error) {
	own, err := ast.PtrRef(ast.DefaultRootDocument, strings.ReplaceAll(s.Layer.Package, ".", "/"))
	if err != nil {
		return []*policy.Error{{Kind: policy.KindModule, Msg: "package " + canon.Quote(s.Layer.Package) + " is no name"}}
	}
	rules := map[string]bool{}
	for _, m := range s.Layer.Rego() {
		for _, r := range mods[m.Name].Rules {
			rules[r.Head.Ref()[0].Value.String()] = true
		}
	}
	intents := ast.Ref{ast.DefaultRootDocument, ast.StringTerm("intents")}
	for _, m := range s.Tests {
		// In a test file, rules of the layer's own package are helpers.
		if policy.PackageName(mods[m.Name]) == s.Layer.Package {
			for _, r := range mods[m.Name].Rules {
				rules[r.Head.Ref()[0].Value.String()] = true
			}
		}
	}
	for _, m := range s.Tests {
		ast.WalkRefs(mods[m.Name], func(ref ast.Ref) bool {
			known, what, n := []string(nil), "", 0
			switch {
			case len(ref) > len(intents) && ref.HasPrefix(intents):
				known, what, n = slices.Sorted(maps.Keys(s.Intents)), "intent (intents/NAME.json)", len(intents)
			case len(ref) > len(own) && len(own) > 1 && ref.HasPrefix(own):
				known, what, n = slices.Sorted(maps.Keys(rules)), fmt.Sprintf("rule of %q", canon.Cut(s.Layer.Package)), len(own)
			}
			if name, ok := stringAt(ref, n); ok && what != "" && !slices.Contains(known, name) {
				errs = append(errs, m.ErrorAt(ref[n].Location, "%q is no %s%s", canon.Cut(name), what, specs.Suggest(name, known)))
			}
			return false
		})
	}
	return errs
}

func stringAt(ref ast.Ref, n int) (string, bool) {
	if n == 0 || n >= len(ref) {
		return "", false
	}
	s, ok := ref[n].Value.(ast.String)
	return string(s), ok
}

// testRules finds the tests of a file. It refuses rules that would pass without being
// run.
func testRules(m policy.Module, mod *ast.Module) (tests []testRule, errs []*policy.Error) {
	for _, r := range mod.Rules {
		rule := r.Head.Ref()[0].Value.String()
		fail := func(format string, args ...any) { errs = append(errs, m.ErrorAt(r.Location, format, args...)) }
		switch {
		case policy.IsAnswer(rule):
			fail("rule %q stands in a test file, which never decides; move it to a module", rule)
		case strings.HasPrefix(rule, "todo_test_"):
			fail("test %q would not run; take it out, or name it %q", rule, strings.TrimPrefix(rule, "todo_"))
		}
		if !strings.HasPrefix(rule, "test_") {
			continue
		}
		if len(r.Head.Ref()) != 1 || len(r.Head.Args) > 0 || r.Head.RuleKind() != ast.SingleValue || r.Default || r.Else != nil {
			fail("test %q must be one rule without arguments, default or else: write %q", rule, rule+" if { … }")
		}
		if n := slices.IndexFunc(tests, func(o testRule) bool { return o.Name == rule }); n >= 0 {
			fail("a second test %q; the first is at line %d, and one of them passing would hide the other", rule, tests[n].Line)
			continue
		}
		tests = append(tests, testRule{Case{Package: policy.PackageName(mod), Name: rule, File: m.Name, Line: r.Location.Row}, r})
	}
	if len(tests) == 0 {
		errs = append(errs, m.ErrorAt(nil, "test file has no test (test_NAME)"))
	}
	return tests, errs
}

// testStore holds data.profile, as a decision sees it, and data.intents.
func testStore(s Suite) (storage.Store, error) {
	profile, err := s.profile()
	if err != nil {
		return nil, err
	}
	return policy.NewStore(profile, map[string]any{"intents": s.documents()})
}

func (s Suite) profile() ([]byte, error) {
	b, _, err := canon.Artifact(s.Profile)
	if err != nil {
		return nil, &policy.Error{Kind: policy.KindProfile, Msg: "profile has no canonical form"}
	}
	return b, nil
}

// documents returns the input documents of the intents.
func (s Suite) documents() map[string]any {
	intents := map[string]any{}
	for name, in := range s.Intents {
		intents[name] = in.Document()
	}
	return intents
}

// Data returns what the tests see as data besides the rules, data.profile and data.intents,
// as an indented JSON document. OPA's own test runner can load it.
func (s Suite) Data() ([]byte, error) {
	profile, err := s.profile()
	if err != nil {
		return nil, err
	}
	b, _, err := canon.Artifact(struct {
		Intents map[string]any  `json:"intents"`
		Profile json.RawMessage `json:"profile"`
	}{s.documents(), profile})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "", "  ")
	return out.Bytes(), err
}

// run evaluates one test. It returns the fault of the test, or "".
func (b *testBench) run(ctx context.Context, cancel topdown.Cancel, t testRule) (string, error) {
	trace := &lineTracer{reached: b.reached, file: t.File}
	value, err := b.program.Eval(ctx, cancel, b.store, t.rule, trace)
	switch {
	case err != nil:
		return "", err
	case value != nil && value.Equal(ast.BooleanTerm(true)):
		return "", nil
	case value != nil:
		return "the test is " + canon.Cut(value.String()) + ", not true", nil
	}
	if at := trace.failed; at != nil {
		text, _, _ := strings.Cut(string(at.Text), "\n")
		return "line " + strconv.Itoa(at.Row) + " does not hold: " + canon.Cut(text), nil
	}
	return "the test is undefined", nil
}

// lineTracer records the lines that an evaluation reaches, and the last expression that
// failed in the test's own file.
type lineTracer struct {
	reached map[string]map[int]bool
	file    string
	failed  *ast.Location
}

// Enabled says that the tracer takes events.
func (*lineTracer) Enabled() bool { return true }

// Config asks for no further data with an event.
func (*lineTracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent records one event of an evaluation.
func (t *lineTracer) TraceEvent(event topdown.Event) {
	var loc *ast.Location
	switch event.Op {
	case topdown.ExitOp:
		if r, ok := event.Node.(*ast.Rule); ok {
			loc = r.Head.Location
		}
	case topdown.EvalOp:
		if e, ok := event.Node.(*ast.Expr); ok {
			loc = e.Location
		}
	case topdown.FailOp:
		if e, ok := event.Node.(*ast.Expr); ok && e.Location != nil && e.Location.File == t.file {
			t.failed = e.Location
		}
	}
	if loc == nil || loc.File == "" {
		return
	}
	if t.reached[loc.File] == nil {
		t.reached[loc.File] = map[int]bool{}
	}
	t.reached[loc.File][loc.Row] = true
}

// coverage compares the lines that were reached with the lines of the layer.
func (b *testBench) coverage(l policy.Layer) []Covered {
	var list []Covered
	for _, m := range l.Rego() {
		lines := map[int]bool{}
		ast.WalkRules(b.layer[m.Name], func(r *ast.Rule) bool {
			lines[r.Head.Location.Row] = true
			return false
		})
		ast.WalkExprs(b.layer[m.Name], func(e *ast.Expr) bool {
			if e.Location != nil && !e.Generated && evaluates(e) {
				lines[e.Location.Row] = true
			}
			return false
		})
		c := Covered{File: cmp.Or(m.File, m.Name), Lines: len(lines), Missed: []int{}}
		for line := range lines {
			if !b.reached[m.Name][line] {
				c.Missed = append(c.Missed, line)
			}
		}
		slices.Sort(c.Missed)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Covered) int { return strings.Compare(a.File, b.File) })
	return list
}

// evaluates says whether an expression is more than the declaration of a variable.
// "some x" is only a declaration; "some x in xs" is more.
func evaluates(e *ast.Expr) bool {
	some, ok := e.Terms.(*ast.SomeDecl)
	if !ok {
		return true
	}
	return slices.ContainsFunc(some.Symbols, func(t *ast.Term) bool {
		_, call := t.Value.(ast.Call)
		return call
	})
}
