package policy

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// inputSchema is the schema against which the compiler checks every reference to the
// input. A rule about a member that no input has would be silent for ever.
func inputSchema() *ast.SchemaSet {
	set := ast.NewSchemaSet()
	src, _ := specs.Schema(string(specs.KindPolicyInput))
	var schema any
	if json.Unmarshal(src, &schema) == nil {
		set.Put(ast.SchemaRootRef, schema)
	}
	return set
}

// checkOwnReferences refuses references that can never resolve: to a member that no
// profile has, and to a rule that the layer does not have. It also refuses data.profile
// and the layer's package as whole values, because they would hide such references. The
// modules are compiled, so imports and aliases are resolved.
func checkOwnReferences(mods map[string]*ast.Module) error {
	names := slices.Sorted(maps.Keys(mods))
	rules := map[string]bool{}
	for _, name := range names {
		for _, r := range mods[name].Rules {
			rules[string(r.Head.Ref()[0].Value.(ast.Var))] = true
		}
	}
	c := ownReferences{members: append([]string{"name"}, Members()...), rules: slices.Sorted(maps.Keys(rules))}
	for _, name := range names {
		own := mods[name].Package.Path
		var err error
		for _, r := range mods[name].Rules {
			ast.WalkRefs(r, func(ref ast.Ref) bool {
				if err == nil {
					err = c.check(name, own, ref)
				}
				return err != nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type ownReferences struct{ members, rules []string }

func (c ownReferences) check(module string, own, ref ast.Ref) error {
	profile := ast.Ref{ast.DefaultRootDocument, ast.StringTerm("profile")}
	line := row(ref)
	switch {
	case len(ref) >= len(profile) && ref.HasPrefix(profile):
		if len(ref) == len(profile) {
			return moduleErrorf(module, line, "data.profile is no value here: name the member, as in data.profile.timeout_ms")
		}
		if member, ok := ref[len(profile)].Value.(ast.String); ok && !slices.Contains(c.members, string(member)) {
			return moduleErrorf(module, line, "data.profile has no member %s%s", canon.Quote(string(member)), specs.Suggest(string(member), c.members))
		}
	case len(ref) >= len(own) && ref.HasPrefix(own):
		if len(ref) == len(own) {
			return moduleErrorf(module, line, "the package is no value here: name the rule")
		}
		rule, ok := ref[len(own)].Value.(ast.String)
		if !ok {
			return moduleErrorf(module, line, "the package is no value here: name the rule by a literal")
		}
		if !slices.Contains(c.rules, string(rule)) {
			return moduleErrorf(module, line, "the package has no rule %s%s", canon.Quote(string(rule)), specs.Suggest(string(rule), c.rules))
		}
	}
	return nil
}

// remedy suggests similar or possible names for a reference that cannot resolve.
func remedy(details any) string {
	d, ok := details.(*ast.RefErrInvalidDetail)
	if !ok || d.Pos >= len(d.Ref) {
		return ""
	}
	var known []string
	for _, v := range d.OneOf {
		if s, ok := v.(ast.String); ok {
			known = append(known, string(s))
		}
	}
	have, ok := d.Ref[d.Pos].Value.(ast.String)
	if !ok || len(known) == 0 {
		return ""
	}
	return specs.Suggest(string(have), known)
}
