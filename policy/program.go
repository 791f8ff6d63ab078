package policy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/fiador/fiador/kernel/canon"
)

// ParserOptions returns the options under which modules are parsed. Their capabilities
// are the frozen ones.
func ParserOptions() ast.ParserOptions {
	return ast.ParserOptions{Capabilities: frozenCapabilities.Get(), RegoVersion: ast.RegoV1}
}

// Program is a set of modules that are compiled as one. An engine compiles each layer
// alone; tools for authors compile a layer together with its tests.
type Program struct {
	compiler *ast.Compiler
	bounded  map[string]*topdown.Builtin // functions in place of built-in functions; none for an embedded layer
}

// CompileAll compiles modules under the capabilities of their parser. It returns the errors
// of the compiler.
func CompileAll(mods map[string]*ast.Module, opts ast.ParserOptions) (*Program, []*Error) {
	p := &Program{compiler: ast.NewCompiler().WithCapabilities(opts.Capabilities).SetErrorLimit(0)}
	return p, p.faults(mods)
}

func (p *Program) compile(mods map[string]*ast.Module) error {
	return firstOf(p.faults(mods))
}

// faults compiles modules and returns the errors of the compiler.
func (p *Program) faults(mods map[string]*ast.Module) []*Error {
	if p.compiler.Compile(mods); p.compiler.Failed() {
		return parseErrors("", p.compiler.Errors)
	}
	return nil
}

// Modules returns the compiled modules by name. Imports and aliases are resolved in them.
func (p *Program) Modules() map[string]*ast.Module { return p.compiler.Modules }

// Bound makes the program call the bounded functions. It refuses a module that uses the
// name of such a function as a value.
func (p *Program) Bound(lim Limits) error {
	p.bounded = boundedBuiltins(lim.orDefault())
	return boundCalls(p.compiler.Modules)
}

// rulesQuery is a compiled query that binds rules to variables of the same names.
type rulesQuery struct {
	body     ast.Body
	prepared ast.QueryCompiler
}

// ask compiles a query of rules of a package.
func (p *Program) ask(pkg ast.Ref, rules ...string) (rulesQuery, error) {
	var body ast.Body
	for _, name := range rules {
		body.Append(ast.Equality.Expr(ast.VarTerm(name), ast.NewTerm(pkg.Append(ast.StringTerm(name)))))
	}
	prepared := p.compiler.QueryCompiler()
	body, err := prepared.Compile(body)
	if err != nil {
		return rulesQuery{}, parseError("", err)
	}
	return rulesQuery{body, prepared}, nil
}

// query returns a query that is ready to run. Clock and seed are fixed, for no function
// that a policy may call reads them.
func (p *Program) query(q rulesQuery, cancel topdown.Cancel) *topdown.Query {
	return topdown.NewQuery(q.body).
		WithCompiler(p.compiler).
		WithQueryCompiler(q.prepared).
		WithBuiltins(p.bounded).
		WithCancel(cancel).
		WithTime(time.Unix(0, 0)).
		WithSeed(strings.NewReader("")).
		WithStrictBuiltinErrors(true)
}

// run runs a query on the data of a store.
func run(ctx context.Context, store storage.Store, q *topdown.Query) (topdown.QueryResultSet, error) {
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, &Error{Kind: KindEval, Msg: "the profile cannot be read"}
	}
	defer store.Abort(ctx, txn)
	return q.WithStore(store).WithTransaction(txn).Run(ctx)
}

// Eval returns the value of a rule without arguments, or nil if it is undefined. The
// rule is one of the modules that were compiled. trace sees every expression, because no
// index leaves one out. The error is an *Error.
func (p *Program) Eval(ctx context.Context, cancel topdown.Cancel, store storage.Store, rule *ast.Rule, trace topdown.QueryTracer) (*ast.Term, error) {
	name := string(rule.Head.Ref()[0].Value.(ast.Var))
	q, err := p.ask(rule.Module.Package.Path, name)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, store, p.query(q, cancel).WithIndexing(false).WithQueryTracer(trace))
	if err != nil {
		return nil, evalError(rule.Location.File, err)
	}
	if len(rows) != 1 {
		return nil, nil
	}
	return rows[0][ast.Var(name)], nil
}

// evalError words an error of the evaluation of a module or a layer. It keeps only the
// name of a built-in function, because the function's text can come from the Go runtime.
func evalError(module string, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	e := &Error{Kind: KindEval, Module: module, Msg: "evaluation failed"}
	td, ok := errors.AsType[*topdown.Error](err)
	if !ok {
		return e
	}
	if td.Location != nil && td.Location.File != "" {
		e.Module, e.Line = td.Location.File, td.Location.Row
	}
	switch td.Code {
	case topdown.CancelErr:
		e.Kind, e.Msg = KindTimeout, "evaluation was cancelled"
	case topdown.BuiltinErr, topdown.TypeErr:
		name, _, _ := strings.Cut(td.Message, ":")
		if _, ok := ast.BuiltinMap[name]; ok {
			e.Msg = "function " + canon.Quote(name) + " does not accept its operands"
		}
	case topdown.ConflictErr:
		e.Msg = "a rule or function has two different values"
	}
	return e
}
