package policy

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// builtinModules parses the built-in Rego, its tests included.
func builtinModules(t *testing.T, caps *ast.Capabilities) (modules map[string]*ast.Module, tests int) {
	t.Helper()
	fsys := os.DirFS("../profiles")
	names, err := fs.Glob(fsys, "builtin/*.rego")
	if err != nil {
		t.Fatal(err)
	}
	modules = map[string]*ast.Module{}
	for _, name := range names {
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ast.ParseModuleWithOpts(name, string(src), ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1})
		if err != nil {
			t.Fatal(err)
		}
		modules[name] = m
		if strings.HasSuffix(name, "_test.rego") {
			tests++
		}
	}
	return modules, tests
}

// TestBuiltinRego runs the Rego tests of the built-in policy under the frozen
// capabilities and requires that they reach every line.
func TestBuiltinRego(t *testing.T) {
	caps := frozenCapabilities.Get()
	modules, tests := builtinModules(t, caps)
	if tests == 0 {
		t.Fatal("the built-in policy has no Rego test")
	}
	ctx := context.Background()
	records, err := recordData([]Layer{builtinLayer(t)})
	if err != nil {
		t.Fatal(err)
	}
	store := inmem.NewFromObject(records)
	txn := storage.NewTransactionOrDie(ctx, store)
	defer store.Abort(ctx, txn)
	coverage := cover.New()
	results, err := tester.NewRunner().
		SetCompiler(ast.NewCompiler().WithCapabilities(caps)).
		SetStore(store).
		SetModules(modules).
		SetParallel(1).
		RaiseBuiltinErrors(true).
		SetCoverageQueryTracer(coverage).
		RunTests(ctx, txn)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for r := range results {
		if r.Pass() {
			passed++
		} else {
			t.Errorf("%s: %s.%s: failed (error: %v)", r.Location, r.Package, r.Name, r.Error)
		}
	}
	if passed == 0 {
		t.Error("no Rego test passed")
	}
	report := coverage.Report(modules)
	for name, f := range report.Files {
		if strings.HasSuffix(name, "_test.rego") {
			continue
		}
		for _, r := range f.NotCovered {
			t.Errorf("%s: lines %d to %d are reached by no Rego test", name, r.Start.Row, r.End.Row)
		}
	}
}

// TestBuiltinLoads compiles the built-in policy as a layer, with every check of
// a layer, and evaluates it.
func TestBuiltinLoads(t *testing.T) {
	e := newEngine(t, builtinLayer(t))
	v, err := e.Eval(context.Background(), testInput(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Permits) != len(testInput(t).Effects) || len(v.Deny)+len(v.Clarify)+len(v.Note) > 0 {
		t.Errorf("verdict is %+v, want a permit for every effect and nothing else", v)
	}
	rules, err := e.Rules()
	if err != nil || len(rules) < 20 {
		t.Errorf("%d records, error %v", len(rules), err)
	}
}
