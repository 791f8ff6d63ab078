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
//
// more are rules that the layer has besides.
func checkOwnReferences(mods map[string]*ast.Module, more ...string) (errs []*Error) {
	rules := ruleNames(mods)
	for _, name := range more {
		rules[name] = true
	}
	c := ownReferences{members: append([]string{"name"}, Members()...), rules: slices.Sorted(maps.Keys(rules))}
	for _, name := range slices.Sorted(maps.Keys(mods)) {
		own := mods[name].Package.Path
		for _, r := range mods[name].Rules {
			ast.WalkRefs(r, func(ref ast.Ref) bool {
				if err := c.check(name, own, ref); err != nil {
					errs = append(errs, err)
				}
				return false
			})
		}
	}
	return errs
}

// ruleNames returns the names of the rules of modules.
func ruleNames(mods map[string]*ast.Module) map[string]bool {
	names := map[string]bool{}
	for _, mod := range mods {
		for _, r := range mod.Rules {
			names[string(r.Head.Ref()[0].Value.(ast.Var))] = true
		}
	}
	return names
}

// Members returns the members of a profile but its name, in their order. The first six have
// no default.
func Members() []string {
	return []string{
		"allow_network", "timeout_ms", "max_output_files", "max_total_output_bytes",
		"allowed_commands", "allowed_write_roots", "env_allow", "execution_modes", "model_modes",
		"model_adapters", "risk_tags", "severity", "memory_mb", "max_children", "cpu_cores", "isolation", "shell_metacharacters", "allowed_tools",
		"network_hosts", "registries",
	}
}

type ownReferences struct{ members, rules []string }

func (c ownReferences) check(module string, own, ref ast.Ref) *Error {
	profile := ast.Ref{ast.DefaultRootDocument, ast.StringTerm("profile")}
	at := ref[0].Location
	switch {
	case len(ref) >= len(profile) && ref.HasPrefix(profile):
		if len(ref) == len(profile) {
			return errorAt(module, at, "data.profile is no value here: name the member, as in data.profile.timeout_ms")
		}
		if member, ok := ref[len(profile)].Value.(ast.String); ok && !slices.Contains(c.members, string(member)) {
			return errorAt(module, at, "data.profile has no member %s%s", canon.Quote(string(member)), specs.Suggest(string(member), c.members))
		}
	case len(ref) >= len(own) && ref.HasPrefix(own):
		if len(ref) == len(own) {
			return errorAt(module, at, "the package is no value here: name the rule")
		}
		rule, ok := ref[len(own)].Value.(ast.String)
		if !ok {
			return errorAt(module, at, "the package is no value here: name the rule by a literal")
		}
		if !slices.Contains(c.rules, string(rule)) {
			return errorAt(module, at, "the package has no rule %s%s", canon.Quote(string(rule)), specs.Suggest(string(rule), c.rules))
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
