package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// valueVar names the value of a head inside the comprehension around the value.
const valueVar = "__fiador_value"

// totalHeads makes the answers of a layer's rules defined whenever their bodies hold.
// The compiler would move {"msg": e.path} into the body. A rule whose body holds would
// then be silent if e has no path. So totalHeads wraps every value that is not a
// literal into the list of its results. answerReader refuses a list that does not have
// exactly one element (TestUndefinedHead).
//
// It returns the wrapped members of each head, by rule + " " + id.
func totalHeads(mods map[string]*ast.Module) map[string]map[string]bool {
	wrapped := map[string]map[string]bool{}
	for _, mod := range mods {
		for _, r := range mod.Rules {
			name, _ := r.Head.Ref()[0].Value.(ast.Var)
			if required, _ := members(string(name)); len(required) == 0 {
				continue
			}
			obj := r.Head.Key.Value.(ast.Object)
			id, _ := headID(string(name), obj, false)
			own := map[string]bool{}
			whole := ast.NewObject()
			obj.Foreach(func(k, v *ast.Term) {
				if !writtenOut(v) {
					own[string(k.Value.(ast.String))] = true
					v = listOf(v)
				}
				whole.Insert(k, v)
			})
			r.Head.Key = ast.NewTerm(whole).SetLocation(r.Head.Key.Location)
			wrapped[string(name)+" "+id] = own
		}
	}
	return wrapped
}

// writtenOut says whether a term is a literal value, with no part to evaluate.
func writtenOut(t *ast.Term) bool {
	out := true
	ast.WalkTerms(t, func(t *ast.Term) bool {
		switch t.Value.(type) {
		case ast.Null, ast.Boolean, ast.Number, ast.String, *ast.Array, ast.Set, ast.Object:
		default:
			out = false
		}
		return !out
	})
	return out
}

// listOf returns [x | x = t].
func listOf(t *ast.Term) *ast.Term {
	x := ast.VarTerm(valueVar)
	x.Location = t.Location
	is := ast.Equality.Expr(x, t)
	is.Location = t.Location
	list := ast.ArrayComprehensionTerm(x, ast.NewBody(is))
	list.Location = t.Location
	return list
}
