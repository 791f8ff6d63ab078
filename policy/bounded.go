package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// resultBytes is the greatest result of one call of a built-in function. A call with a
// greater result is an error before it begins, because one call can allocate faster
// than the watchdog polls.
const resultBytes = 16 << 20

// largeBytes is the size of a result above which the watchdog's memory limit is checked
// before the call.
const largeBytes = 64 << 10

// boundedHead begins the names of the bounded functions. No policy can write such a
// name: for the compiler it is an unknown function.
const boundedHead = "bounded"

// boundedRef is the name under which a bounded function is called.
func boundedRef(name string) ast.Ref { return ast.Ref{ast.VarTerm(boundedHead), ast.StringTerm(name)} }

// boundedBuiltins returns the bounded functions, for the queries of one layer. OPA
// looks in its own functions first, so each bounded function has a new name. boundCalls
// makes a layer call it by that name.
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

// boundCalls makes compiled modules call the bounded functions. It refuses a module
// that uses the name of such a function as a value: "with" could replace another
// function by it.
func boundCalls(mods map[string]*ast.Module) error { return firstOf(bindCalls(mods)) }

func bindCalls(mods map[string]*ast.Module) (left []*Error) {
	sized := sizers()
	isBounded := func(ref ast.Ref) bool {
		// The name of every such function is one word, or two words with a dot between.
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
	for _, name := range slices.Sorted(maps.Keys(mods)) {
		mod := mods[name]
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
			if isBounded(ref) {
				left = append(left, errorAt(name, ref[0].Location, "function %q is no value: call it", ref.String()))
			}
			return false
		})
	}
	return left
}

// boundedFunc returns a built-in function that is called only if size allows the call.
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

// halt ends the whole evaluation. An error of the expression alone would let a rule
// continue.
func halt(bctx topdown.BuiltinContext, err *Error) error {
	if loc := bctx.Location; loc != nil {
		err.Module, err.Line = loc.File, loc.Row
	}
	return topdown.Halt{Err: err}
}

// reachable is graph.reachable. OPA's own function visits a node once for every path to
// it; the number of paths can double with every node of a chain.
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
	Elements(operands[1], add)
	for ; len(queue) > 0; queue = queue[1:] {
		if bctx.Cancel != nil && bctx.Cancel.Cancelled() {
			return topdown.Halt{Err: &topdown.Error{Code: topdown.CancelErr, Location: bctx.Location}}
		}
		if edges := graph.Get(queue[0]); edges != nil {
			reached.Add(queue[0])
			Elements(edges, add)
		}
	}
	return iter(ast.NewTerm(reached))
}

// Elements calls f with every element of an array or a set, and of nothing else.
func Elements(t *ast.Term, f func(*ast.Term)) {
	if v, ok := t.Value.(interface{ Foreach(func(*ast.Term)) }); ok {
		v.Foreach(f)
	}
}

// operandError words an operand that is not accepted, in the words of OPA.
func operandError(bctx topdown.BuiltinContext, name string, err error) error {
	return &topdown.Error{Code: topdown.TypeErr, Message: name + ": " + err.Error(), Location: bctx.Location}
}
