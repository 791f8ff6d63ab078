package devel

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Lint warns of two faults. The first is a comparison that can never hold, because the
// compared text is not in the member's closed list of values. The second is a member of
// a variable that nothing in the input or in the layer has. Rego does not find it,
// because the arguments of a function and the variables of every have no types. The
// warnings are no errors, because a variable may come from free data. They are
// *policy.Error values, in the order of the modules. A module that does not parse has no warnings.
func Lint(l policy.Layer) []error {
	var schema any
	src, _ := specs.Schema(string(specs.KindPolicyInput))
	if json.Unmarshal(src, &schema) != nil {
		return nil
	}
	mods := map[string]*ast.Module{}
	for _, m := range l.Rego() {
		if mod, err := parse(m); err == nil {
			mods[m.Name] = mod
		}
	}
	known, names := closedMembers(schema), memberNames(schema, mods)
	var warnings []error
	for _, m := range l.Rego() {
		mod, ok := mods[m.Name]
		if !ok {
			continue
		}
		ast.WalkExprs(mod, func(e *ast.Expr) bool {
			member, texts := compared(e)
			for _, text := range texts {
				if values := known[member]; len(values) > 0 && !slices.Contains(values, text) {
					warnings = append(warnings, m.ErrorAt(e.Location, "%q is never %q%s", member, canon.Cut(text), specs.Suggest(text, values)))
				}
			}
			return false
		})
		for _, r := range mod.Rules {
			ast.WalkRefs(r, func(ref ast.Ref) bool {
				if w := unknownMember(m, ref, names); w != nil {
					warnings = append(warnings, w)
				}
				return false
			})
		}
	}
	return warnings
}

// unknownMember warns of x.name for a variable x, if no such name exists but a similar
// name does.
func unknownMember(m policy.Module, ref ast.Ref, names map[string]bool) error {
	if len(ref) < 2 {
		return nil
	}
	head, ok := ref[0].Value.(ast.Var)
	first, ok2 := ref[1].Value.(ast.String)
	if !ok || !ok2 || head == "input" || head == "data" || names[string(head)] || names[string(first)] || ast.BuiltinMap[ref.String()] != nil {
		return nil
	}
	near := specs.Nearest(string(first), slices.Sorted(maps.Keys(names)))
	if near == "" {
		return nil
	}
	return m.ErrorAt(ref[0].Location, "nothing in the input has a member %q; did you mean %q?", canon.Cut(string(first)), near)
}

// memberNames returns the member names of the input's schema, of profiles, and of every
// object that the layer writes itself. It also returns the names of the layer's
// imports.
func memberNames(schema any, mods map[string]*ast.Module) map[string]bool {
	names := map[string]bool{"name": true}
	for _, m := range policy.Members() {
		names[m] = true
	}
	propertyNames(schema, names)
	for _, mod := range mods {
		for _, imp := range mod.Imports {
			names[string(imp.Name())] = true
		}
		ast.WalkTerms(mod, func(t *ast.Term) bool {
			switch v := t.Value.(type) {
			case ast.Object:
				v.Foreach(func(k, _ *ast.Term) {
					if s, ok := k.Value.(ast.String); ok {
						names[string(s)] = true
					}
				})
			case ast.Ref:
				for i := 1; i+1 < len(v); i++ {
					if isFree(v[i]) {
						for _, rest := range v[i+1:] {
							if s, ok := rest.Value.(ast.String); ok {
								names[string(s)] = true
							}
						}
					}
				}
			}
			return false
		})
		for _, r := range mod.Rules {
			if name, ok := r.Head.Ref()[0].Value.(ast.Var); ok {
				names[string(name)] = true
			}
		}
	}
	return names
}

// isFree says whether members below this one may have any name.
func isFree(t *ast.Term) bool {
	return t.Value.Compare(ast.String("context")) == 0 || t.Value.Compare(ast.String("params")) == 0
}

func propertyNames(schema any, names map[string]bool) {
	switch v := schema.(type) {
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok {
			for name := range properties {
				names[name] = true
			}
		}
		for _, below := range v {
			propertyNames(below, names)
		}
	case []any:
		for _, below := range v {
			propertyNames(below, names)
		}
	}
}

// compared returns the member and the texts of x.member == "text", of "text" ==
// x.member and of x.member in {"text", …}. For any other expression it returns nothing.
func compared(e *ast.Expr) (member string, texts []string) {
	if !e.IsCall() || len(e.Operands()) != 2 || !slices.Contains([]string{"equal", "eq", "internal.member_2"}, e.Operator().String()) {
		return "", nil
	}
	a, b := e.Operand(0), e.Operand(1)
	if _, ok := a.Value.(ast.String); ok {
		a, b = b, a
	}
	ref, ok := a.Value.(ast.Ref)
	if !ok || len(ref) < 2 {
		return "", nil
	}
	last, ok := ref[len(ref)-1].Value.(ast.String)
	if !ok || slices.ContainsFunc(ref[1:], isFree) {
		return "", nil
	}
	add := func(t *ast.Term) {
		if s, ok := t.Value.(ast.String); ok {
			texts = append(texts, string(s))
		}
	}
	add(b)
	policy.Elements(b, add)
	return string(last), texts
}

// closedMembers returns the members of the input with a closed list of values, from
// every place in its schema.
func closedMembers(schema any) map[string][]string {
	root, _ := schema.(map[string]any)
	shared, _ := root["definitions"].(map[string]any)
	found := map[string][]string{}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if values, ok := m["enum"].([]any); ok {
			for _, value := range values {
				if s, ok := value.(string); ok && !slices.Contains(found[name], s) {
					found[name] = append(found[name], s)
				}
			}
		}
		if ref, ok := m["$ref"].(string); ok && ref != "#/definitions/action" && ref != "#/definitions/effect" {
			walk(name, shared[strings.TrimPrefix(ref, "#/definitions/")])
		}
		if properties, ok := m["properties"].(map[string]any); ok {
			for member, p := range properties {
				walk(member, p)
			}
		}
		if items, ok := m["items"]; ok {
			walk("", items)
		}
		if definitions, ok := m["definitions"].(map[string]any); ok {
			for _, d := range definitions {
				walk("", d)
			}
		}
	}
	walk("", schema)
	delete(found, "")
	for _, values := range found {
		slices.Sort(values)
	}
	return found
}
