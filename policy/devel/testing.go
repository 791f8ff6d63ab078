package devel

import (
	"cmp"
	"context"
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

// CheckTests compiles a suite and runs nothing. The error is a *policy.Error.
func CheckTests(ctx context.Context, s Suite, lim policy.Limits) error {
	_, err := compileTests(ctx, s, lim)
	return err
}

func compileTests(ctx context.Context, s Suite, lim policy.Limits) (*testBench, error) {
	return policy.WatchCompile(ctx, lim, s.layers(), "compiling the tests", func() (*testBench, error) { return newTestBench(s, lim) })
}

// layers returns all modules of a suite.
func (s Suite) layers() []policy.Layer { return []policy.Layer{s.Layer, {Modules: s.Tests}} }

// testBench is a compiled suite.
type testBench struct {
	layer   map[string]*ast.Module // as the parser returns it
	program *policy.Program
	store   storage.Store
	tests   []testRule
	reached map[string]map[int]bool // lines by module
}

// testRule is a test with its rule, as the parser returns it.
type testRule struct {
	Case
	rule *ast.Rule
}

func newTestBench(s Suite, lim policy.Limits) (*testBench, error) {
	b := &testBench{layer: map[string]*ast.Module{}, reached: map[string]map[int]bool{}}
	all := map[string]*ast.Module{}
	for _, m := range s.Layer.Rego() {
		mod, err := parse(m)
		if err != nil {
			return nil, err
		}
		b.layer[m.Name], all[m.Name] = mod, mod
	}
	for _, m := range s.Tests {
		mod, err := parse(m)
		if err != nil {
			return nil, err
		}
		all[m.Name] = mod
		tests, err := testRules(m, mod)
		if err != nil {
			return nil, err
		}
		if err := checkTestModule(s.Layer, m, mod, b.layer); err != nil {
			return nil, err
		}
		for _, t := range tests {
			if n := slices.IndexFunc(b.tests, func(o testRule) bool { return o.Package == t.Package && o.Name == t.Name }); n >= 0 {
				return nil, m.Errorf(t.Line, "a second test %q; the first is at %s:%d", t.Name, b.tests[n].File, b.tests[n].Line)
			}
		}
		b.tests = append(b.tests, tests...)
	}
	var err error
	if b.program, err = policy.Compile(all, policy.ParserOptions()); err != nil {
		return nil, err
	}
	if err = checkTestReferences(s, b.program.Modules()); err == nil {
		err = b.program.Bound(lim)
	}
	if err == nil {
		b.store, err = testStore(s)
	}
	return b, err
}

// checkTestModule refuses a test file that changes the tested layer. It refuses a
// package that would replace data.profile, data.intents or another layer, and a rule
// that the layer also has.
func checkTestModule(l policy.Layer, m policy.Module, mod *ast.Module, layer map[string]*ast.Module) error {
	switch pkg := policy.PackageName(mod); pkg {
	case l.Package + "_test":
	case l.Package:
		for _, r := range mod.Rules {
			rule := r.Head.Ref()[0].Value
			for _, tested := range layer {
				if slices.ContainsFunc(tested.Rules, func(own *ast.Rule) bool { return own.Head.Ref()[0].Value.Compare(rule) == 0 }) {
					return m.Errorf(r.Location.Row, "rule %q is the layer's: a test file must not add to it", rule.String())
				}
			}
		}
	default:
		return m.Errorf(mod.Package.Location.Row, "package %q must be %q", pkg, l.Package+"_test")
	}
	return nil
}

// checkTestReferences refuses tests that name a missing intent or rule. Without this
// check, count(acme.dny) == 0 would be undefined, and not acme.dny would pass.
func checkTestReferences(s Suite, mods map[string]*ast.Module) error {
	own, err := ast.PtrRef(ast.DefaultRootDocument, strings.ReplaceAll(s.Layer.Package, ".", "/"))
	if err != nil {
		return err
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
		var err *policy.Error
		ast.WalkRefs(mods[m.Name], func(ref ast.Ref) bool {
			known, what, n := []string(nil), "", 0
			switch {
			case err != nil:
			case len(ref) > len(intents) && ref.HasPrefix(intents):
				known, what, n = slices.Sorted(maps.Keys(s.Intents)), "intent (intents/NAME.json)", len(intents)
			case len(ref) > len(own) && len(own) > 1 && ref.HasPrefix(own):
				known, what, n = slices.Sorted(maps.Keys(rules)), fmt.Sprintf("rule of %q", canon.Cut(s.Layer.Package)), len(own)
			}
			if name, ok := stringAt(ref, n); ok && what != "" && !slices.Contains(known, name) {
				err = m.Errorf(policy.LineOf(ref[n].Location), "%q is no %s%s", canon.Cut(name), what, specs.Suggest(name, known))
			}
			return err != nil
		})
		if err != nil {
			return err
		}
	}
	return nil
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
func testRules(m policy.Module, mod *ast.Module) ([]testRule, error) {
	var tests []testRule
	for _, r := range mod.Rules {
		rule := r.Head.Ref()[0].Value.String()
		line := r.Location.Row
		if policy.IsAnswer(rule) {
			return nil, m.Errorf(line, "rule %q stands in a test file, which never decides; move it to a module", rule)
		}
		if strings.HasPrefix(rule, "todo_test_") {
			return nil, m.Errorf(line, "test %q would not run; take it out, or name it %q", rule, strings.TrimPrefix(rule, "todo_"))
		}
		if !strings.HasPrefix(rule, "test_") {
			continue
		}
		if len(r.Head.Ref()) != 1 || len(r.Head.Args) > 0 || r.Head.RuleKind() != ast.SingleValue || r.Default || r.Else != nil {
			return nil, m.Errorf(line, "test %q must be one rule without arguments, default or else: write %q", rule, rule+" if { … }")
		}
		if n := slices.IndexFunc(tests, func(o testRule) bool { return o.Name == rule }); n >= 0 {
			return nil, m.Errorf(line, "a second test %q; the first is at line %d, and one of them passing would hide the other", rule, tests[n].Line)
		}
		tests = append(tests, testRule{Case{Package: policy.PackageName(mod), Name: rule, File: m.Name, Line: line}, r})
	}
	if len(tests) == 0 {
		return nil, m.Errorf(0, "test file has no test (test_NAME)")
	}
	return tests, nil
}

// testStore holds data.profile, as a decision sees it, and data.intents.
func testStore(s Suite) (storage.Store, error) {
	profile, _, err := canon.Artifact(s.Profile)
	if err != nil {
		return nil, &policy.Error{Kind: policy.KindProfile, Msg: "profile has no canonical form"}
	}
	intents := map[string]any{}
	for name, in := range s.Intents {
		intents[name] = in.Document()
	}
	return policy.NewStore(profile, map[string]any{"intents": intents})
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
