package policy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// Suite is a layer with its tests. A test is a rule named test_NAME in a *_test.rego
// file; it passes if it is true. A test sees its layer, data.profile, and in
// data.intents the input documents of example intents by name. It may replace input and
// data.profile by "with".
type Suite struct {
	Profile kernel.Profile
	Layer   Layer
	Tests   []Module
	Intents map[string]Input
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
// defines one of the rules through which a layer answers. The error is an *Error.
func Test(ctx context.Context, s Suite, lim Limits) (Tested, error) {
	lim = lim.orDefault()
	compile := lim
	compile.Deadline = lim.Compile
	layers := []Layer{s.Layer, {Modules: s.Tests}}
	t := task{what: "compiling the tests", failed: KindModule, stop: func() {}}
	b, err := watched(ctx, compile, t, func() (*testBench, error) { return newTestBench(s, lim) })
	if err != nil {
		return Tested{}, located(err, layers)
	}
	var out Tested
	for _, c := range b.cases {
		if s.Run != nil && !s.Run.MatchString(c.Package+"."+c.Name) {
			continue
		}
		cancel := topdown.NewCancel()
		t := task{what: "the test", failed: KindEval, stop: cancel.Cancel}
		fault, err := watched(ctx, lim, t, func() (string, error) { return b.run(ctx, cancel, c) })
		if err != nil {
			err = located(err, layers)
			var e *Error
			if !errors.As(err, &e) || e.Kind == KindWatchdog || ctx.Err() != nil {
				return Tested{}, err
			}
			fault = e.Error()
		}
		c.Pass, c.Fault = fault == "", fault
		out.Cases = append(out.Cases, c)
	}
	if len(out.Cases) == 0 {
		msg := "no test (test_NAME in a *_test.rego) was found"
		if s.Run != nil {
			msg = "no test matches " + quote(s.Run.String())
		}
		return Tested{}, &Error{Kind: KindModule, Msg: msg}
	}
	out.Coverage = b.coverage()
	for i, c := range out.Coverage {
		out.Coverage[i].File = cmp.Or(fileOf(layers, c.File), c.File)
	}
	return out, nil
}

// testBench is a compiled suite.
type testBench struct {
	layer    map[string]*ast.Module // as the parser returns it
	compiler *ast.Compiler
	bounded  map[string]*topdown.Builtin
	store    storage.Store
	cases    []Case
	reached  map[string]map[int]bool // lines by module
}

func newTestBench(s Suite, lim Limits) (*testBench, error) {
	caps, err := frozenCapabilities()
	if err != nil {
		return nil, err
	}
	b := &testBench{layer: map[string]*ast.Module{}, reached: map[string]map[int]bool{}}
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	all := map[string]*ast.Module{}
	for _, m := range s.Layer.Modules {
		if b.layer[m.Name], err = parseTested(m, opts); err != nil {
			return nil, err
		}
		all[m.Name] = b.layer[m.Name]
	}
	for _, m := range s.Tests {
		mod, err := parseTested(m, opts)
		if err != nil {
			return nil, err
		}
		all[m.Name] = mod
		cases, err := testCases(m.Name, mod)
		if err != nil {
			return nil, err
		}
		if err := checkTestModule(s.Layer, m.Name, mod, b.layer); err != nil {
			return nil, err
		}
		for _, c := range cases {
			if n := slices.IndexFunc(b.cases, func(o Case) bool { return o.Package == c.Package && o.Name == c.Name }); n >= 0 {
				return nil, moduleErrorf(m.Name, c.Line, "a second test %q; the first is at %s:%d", c.Name, b.cases[n].File, b.cases[n].Line)
			}
		}
		b.cases = append(b.cases, cases...)
	}
	b.compiler = ast.NewCompiler().WithCapabilities(caps).SetErrorLimit(1)
	if b.compiler.Compile(all); b.compiler.Failed() {
		return nil, parseError("", b.compiler.Errors)
	}
	if err := checkTestReferences(s, b.compiler.Modules); err != nil {
		return nil, err
	}
	if err := boundCalls(b.compiler.Modules); err != nil {
		return nil, err
	}
	b.bounded = boundedBuiltins(lim)
	b.store, err = testStore(s)
	return b, err
}

// checkTestModule refuses a test file that changes the tested layer. It refuses a
// package that would replace data.profile, data.intents or another layer, and a rule
// that the layer also has.
func checkTestModule(l Layer, name string, mod *ast.Module, layer map[string]*ast.Module) error {
	switch pkg := packageName(mod); pkg {
	case l.Package + "_test":
	case l.Package:
		for _, r := range mod.Rules {
			rule := r.Head.Ref()[0].Value
			for _, m := range layer {
				if slices.ContainsFunc(m.Rules, func(own *ast.Rule) bool { return own.Head.Ref()[0].Value.Compare(rule) == 0 }) {
					return moduleErrorf(name, r.Location.Row, "rule %q is the layer's: a test file must not add to it", rule.String())
				}
			}
		}
	default:
		return moduleErrorf(name, mod.Package.Location.Row, "package %q must be %q", pkg, l.Package+"_test")
	}
	return nil
}

// checkTestReferences refuses tests that name a missing intent or rule. Without this
// check, count(acme.dny) == 0 would be undefined, and not acme.dny would pass.
func checkTestReferences(s Suite, mods map[string]*ast.Module) error {
	own := ast.Ref{ast.DefaultRootDocument}
	for part := range strings.SplitSeq(s.Layer.Package, ".") {
		own = append(own, ast.StringTerm(part))
	}
	rules := map[string]bool{}
	for _, m := range s.Layer.Modules {
		for _, r := range mods[m.Name].Rules {
			rules[r.Head.Ref()[0].Value.String()] = true
		}
	}
	intents := ast.Ref{ast.DefaultRootDocument, ast.StringTerm("intents")}
	for _, m := range s.Tests {
		// In a test file, rules of the layer's own package are helpers.
		if packageName(mods[m.Name]) == s.Layer.Package {
			for _, r := range mods[m.Name].Rules {
				rules[r.Head.Ref()[0].Value.String()] = true
			}
		}
	}
	for _, m := range s.Tests {
		var err *Error
		ast.WalkRefs(mods[m.Name], func(ref ast.Ref) bool {
			known, what, n := []string(nil), "", 0
			switch {
			case err != nil:
			case len(ref) > len(intents) && ref.HasPrefix(intents):
				known, what, n = slices.Sorted(maps.Keys(s.Intents)), "intent (intents/NAME.json)", len(intents)
			case len(ref) > len(own) && len(own) > 1 && ref.HasPrefix(own):
				known, what, n = slices.Sorted(maps.Keys(rules)), "rule of "+quote(s.Layer.Package), len(own)
			}
			if name, ok := stringAt(ref, n); ok && what != "" && !slices.Contains(known, name) {
				line := 0
				if loc := ref[n].Location; loc != nil {
					line = loc.Row
				}
				err = moduleErrorf(m.Name, line, "%s is no %s%s", quote(name), what, nearest(name, known))
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

func parseTested(m Module, opts ast.ParserOptions) (*ast.Module, error) {
	mod, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), opts)
	if err != nil {
		return nil, parseError(m.Name, err)
	}
	if mod == nil {
		return nil, moduleErrorf(m.Name, 0, "module has no package")
	}
	return mod, nil
}

// testCases finds the tests of a file. It refuses rules that would pass without being
// run.
func testCases(name string, mod *ast.Module) ([]Case, error) {
	var cases []Case
	for _, r := range mod.Rules {
		rule := r.Head.Ref()[0].Value.String()
		line := r.Location.Row
		if slices.Contains(answerRules(), rule) {
			return nil, moduleErrorf(name, line, "rule %q stands in a test file, which never decides; move it to a module", rule)
		}
		if strings.HasPrefix(rule, "todo_test_") {
			return nil, moduleErrorf(name, line, "test %q would not run; take it out, or name it %q", rule, strings.TrimPrefix(rule, "todo_"))
		}
		if !strings.HasPrefix(rule, "test_") {
			continue
		}
		if len(r.Head.Ref()) != 1 || len(r.Head.Args) > 0 || r.Head.RuleKind() != ast.SingleValue || r.Default || r.Else != nil {
			return nil, moduleErrorf(name, line, "test %q must be one rule without arguments, default or else: write %q", rule, rule+" if { … }")
		}
		c := Case{Package: packageName(mod), Name: rule, File: name, Line: line}
		if n := slices.IndexFunc(cases, func(o Case) bool { return o.Name == rule }); n >= 0 {
			return nil, moduleErrorf(name, line, "a second test %q; the first is at line %d, and one of them passing would hide the other", rule, cases[n].Line)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, moduleErrorf(name, 0, "test file has no test (test_NAME)")
	}
	return cases, nil
}

// testStore holds data.profile, as a decision sees it, and data.intents.
func testStore(s Suite) (storage.Store, error) {
	profile, _, err := canon.Artifact(s.Profile)
	if err != nil {
		return nil, &Error{Kind: KindProfile, Msg: "profile has no canonical form"}
	}
	doc, err := canon.Parse(profile, len(profile))
	if err != nil {
		return nil, &Error{Kind: KindProfile, Msg: "profile has no canonical form"}
	}
	intents := map[string]any{}
	for name, in := range s.Intents {
		intents[name] = in.Document()
	}
	v, err := ast.InterfaceToValue(map[string]any{"profile": doc.Value(), "intents": intents})
	if err != nil {
		return nil, &Error{Kind: KindEval, Msg: "an example intent is not a decoded document"}
	}
	return inmem.NewFromASTObject(v.(ast.Object)), nil
}

// run evaluates one test. It returns the fault of the test, or "".
func (b *testBench) run(ctx context.Context, cancel topdown.Cancel, c Case) (string, error) {
	txn, err := b.store.NewTransaction(ctx)
	if err != nil {
		return "", &Error{Kind: KindEval, Msg: "the profile cannot be read"}
	}
	defer b.store.Abort(ctx, txn)
	ref := ast.Ref{ast.DefaultRootDocument}
	for part := range strings.SplitSeq(c.Package, ".") {
		ref = append(ref, ast.StringTerm(part))
	}
	qc := b.compiler.QueryCompiler()
	query, err := qc.Compile(ast.NewBody(ast.Equality.Expr(ast.VarTerm("x"), ast.NewTerm(ref.Append(ast.StringTerm(c.Name))))))
	if err != nil {
		return "", parseError(c.File, err)
	}
	trace := &lineTracer{reached: b.reached, file: c.File}
	rows, err := topdown.NewQuery(query).
		WithCompiler(b.compiler).WithQueryCompiler(qc).WithBuiltins(b.bounded).
		WithStore(b.store).WithTransaction(txn).
		WithCancel(cancel).
		WithTime(time.Unix(0, 0)).WithSeed(strings.NewReader("")).
		WithStrictBuiltinErrors(true).
		WithIndexing(false). // with an index, an expression that the index rules out would fail without a line
		WithQueryTracer(trace).
		Run(ctx)
	if err != nil {
		return "", (&compiledLayer{pkg: c.File}).evalError(err)
	}
	if len(rows) == 1 && rows[0][ast.Var("x")].Equal(ast.BooleanTerm(true)) {
		return "", nil
	}
	if len(rows) == 1 {
		return "the test is " + canon.Cut(rows[0][ast.Var("x")].String()) + ", not true", nil
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
func (b *testBench) coverage() []Covered {
	var list []Covered
	for name, mod := range b.layer {
		lines := map[int]bool{}
		ast.WalkRules(mod, func(r *ast.Rule) bool {
			lines[r.Head.Location.Row] = true
			return false
		})
		ast.WalkExprs(mod, func(e *ast.Expr) bool {
			if e.Location != nil && !e.Generated && evaluates(e) {
				lines[e.Location.Row] = true
			}
			return false
		})
		c := Covered{File: name, Lines: len(lines), Missed: []int{}}
		for line := range lines {
			if !b.reached[name][line] {
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

// CheckTests compiles a suite and runs nothing. The error is an *Error.
func CheckTests(ctx context.Context, s Suite, lim Limits) error {
	lim = lim.orDefault()
	compile := lim
	compile.Deadline = lim.Compile
	t := task{what: "compiling the tests", failed: KindModule, stop: func() {}}
	_, err := watched(ctx, compile, t, func() (*testBench, error) { return newTestBench(s, lim) })
	return located(err, []Layer{s.Layer, {Modules: s.Tests}})
}

// CheckModules makes the checks of New that need only one module, for every module of a
// layer. It returns the first error of each module.
func CheckModules(l Layer) []error {
	caps, err := frozenCapabilities()
	if err != nil {
		return []error{err}
	}
	var errs []error
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1, ProcessAnnotation: true}
	for _, m := range l.Modules {
		if _, err := parseModule(m, l.Package, opts); err != nil {
			errs = append(errs, located(err, []Layer{l}))
		}
	}
	return errs
}
