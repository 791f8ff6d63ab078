package policy

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// resultBytes is the most that one call of a built-in function makes. A call that would
// make more is an error before it begins: one call can allocate faster than any poll of
// the watchdog.
const resultBytes = 16 << 20

// largeBytes is what a call makes at least for the watchdog's limit to be looked at
// before it.
const largeBytes = 64 << 10

// boundedHead begins the names of the bounded functions. No policy can write such a
// name: to the compiler it is an unknown function.
const boundedHead = "bounded"

// boundedRef is the name under which a bounded function is called.
func boundedRef(name string) ast.Ref { return ast.Ref{ast.VarTerm(boundedHead), ast.StringTerm(name)} }

// boundedBuiltins returns the bounded functions, for the queries of one layer. OPA looks
// for a function of its own first, so each has a name of its own, and boundCalls
// has a layer call it by that name.
func boundedBuiltins(lim Limits) map[string]*topdown.Builtin {
	all := sizers()
	list := make(map[string]*topdown.Builtin, len(all)+1)
	for name, size := range all {
		list[boundedRef(name).String()] = &topdown.Builtin{
			Decl: ast.BuiltinMap[name], Func: boundedFunc(name, size, topdown.GetBuiltin(name), lim),
		}
	}
	list[boundedRef(ast.ReachableBuiltin.Name).String()] = &topdown.Builtin{Decl: ast.ReachableBuiltin, Func: reachable}
	return list
}

// boundCalls has compiled modules call the bounded functions. It refuses a module in
// which the name of one stands anywhere else: "with" could put it in the place of
// another.
func boundCalls(mods map[string]*ast.Module) error {
	var left *Error
	sized := sizers()
	isBounded := func(ref ast.Ref) bool {
		// Every name of one is a word and no more than one member.
		if len(ref) == 0 || len(ref) > 2 {
			return false
		}
		name := ref.String()
		return sized[name] != nil || name == ast.ReachableBuiltin.Name
	}
	bound := func(t *ast.Term) *ast.Term {
		ref, ok := t.Value.(ast.Ref)
		if !ok || !isBounded(ref) {
			return t
		}
		return ast.NewTerm(boundedRef(ref.String())).SetLocation(t.Location)
	}
	for name, mod := range mods {
		ast.WalkExprs(mod, func(e *ast.Expr) bool {
			if terms, ok := e.Terms.([]*ast.Term); ok && len(terms) > 0 {
				terms[0] = bound(terms[0])
			}
			for _, w := range e.With {
				w.Target = bound(w.Target)
			}
			return false
		})
		ast.WalkRefs(mod, func(ref ast.Ref) bool {
			if left == nil && isBounded(ref) {
				left = moduleErrorf(name, row(ref), "function %q is no value: call it", ref.String())
			}
			return left != nil
		})
	}
	if left != nil {
		return left
	}
	return nil
}

// row is the line of a reference, or 0.
func row(ref ast.Ref) int {
	if loc := ref[0].Location; loc != nil {
		return loc.Row
	}
	return 0
}

// boundedFunc is a built-in function that is asked only for what size allows.
func boundedFunc(name string, size sizer, call topdown.BuiltinFunc, lim Limits) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		m := &meter{left: resultBytes, bctx: bctx}
		size(m, operands)
		if m.over() {
			return halt(bctx, &Error{Kind: KindLimit, Msg: fmt.Sprintf("function %q would make more than %d MiB", name, resultBytes>>20)})
		}
		if m.left < resultBytes-largeBytes {
			if err := overMemory(lim, "evaluating the policy"); err != nil {
				return halt(bctx, err)
			}
		}
		return call(bctx, operands, iter)
	}
}

// halt ends the evaluation, and not only the expression, which a rule could go on
// without.
func halt(bctx topdown.BuiltinContext, err *Error) error {
	if loc := bctx.Location; loc != nil {
		err.Module, err.Line = loc.File, loc.Row
	}
	return topdown.Halt{Err: err}
}

// reachable is graph.reachable. OPA's own looks at a node as often as there are ways to
// it, which doubles with every node of a chain.
func reachable(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	graph, err := builtins.ObjectOperand(operands[0].Value, 1)
	if err != nil {
		return operandError(bctx, ast.ReachableBuiltin.Name, err)
	}
	switch operands[1].Value.(type) {
	case *ast.Array, ast.Set:
	default:
		return operandError(bctx, ast.ReachableBuiltin.Name, builtins.NewOperandTypeErr(2, operands[1].Value, "array", "set"))
	}
	seen, reached := ast.NewSet(), ast.NewSet()
	var queue []*ast.Term
	add := func(t *ast.Term) {
		if !seen.Contains(t) {
			seen.Add(t)
			queue = append(queue, t)
		}
	}
	elements(operands[1], add)
	for ; len(queue) > 0; queue = queue[1:] {
		if bctx.Cancel != nil && bctx.Cancel.Cancelled() {
			return topdown.Halt{Err: &topdown.Error{Code: topdown.CancelErr, Location: bctx.Location}}
		}
		if edges := graph.Get(queue[0]); edges != nil {
			reached.Add(queue[0])
			elements(edges, add)
		}
	}
	return iter(ast.NewTerm(reached))
}

// elements calls f with every element of an array or a set.
func elements(t *ast.Term, f func(*ast.Term)) {
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Foreach(f)
	case ast.Set:
		v.Foreach(f)
	}
}

// operandError words an operand that is not accepted as OPA does.
func operandError(bctx topdown.BuiltinContext, name string, err error) error {
	return &topdown.Error{Code: topdown.TypeErr, Message: name + ": " + err.Error(), Location: bctx.Location}
}
