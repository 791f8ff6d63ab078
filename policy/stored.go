package policy

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy/stored"
)

// StoredFile is the name of the stored form of the built-in policy beside its modules.
const StoredFile = "policy.stored"

// Store compiles an embedded layer from its sources and returns its stored form. The
// error is an *Error; it is of KindModule if a module has what the form cannot hold.
func Store(l Layer) ([]byte, error) {
	p, _, err := parseLayer(l)
	if err != nil {
		return nil, err
	}
	c, err := compileLayer(Layer{Package: l.Package, Modules: l.Modules, Embedded: true}, DefaultLimits())
	if err != nil {
		return nil, err
	}
	var layer stored.Layer
	for _, h := range p.heads {
		layer.Rules = append(layer.Rules, stored.Rule{Name: h.rule, ID: h.id, Module: h.module, Line: h.line})
	}
	rego := l.Rego()
	for _, m := range rego {
		layer.Modules = append(layer.Modules, c.compiler.Modules[m.Name])
	}
	form, err := stored.Write(storedKey(l), layer)
	if err != nil {
		return nil, &Error{Kind: KindModule, Msg: err.Error()}
	}
	return form, nil
}

// storedKey lists from what the stored form of a layer is made.
func storedKey(l Layer) []string {
	key := []string{string(capabilitiesSum.Get()), l.Package}
	for _, m := range l.Modules {
		key = append(key, m.Name, string(canon.Sum(m.Source)))
	}
	return key
}

// openLayer makes an embedded layer from its stored form. It returns nil if there is none,
// or one that cannot be used. Of the compiler's stages one is left: the index of the rules.
// The compiler then compiles the layer's query, which calls no function but equality.
func openLayer(l Layer) *compiledLayer {
	layer, ok := stored.Read(l.Stored, storedKey(l))
	rego := l.Rego()
	if !ok || len(layer.Modules) != len(rego) {
		return nil
	}
	heads := make([]head, len(layer.Rules))
	for i, r := range layer.Rules {
		heads[i] = head{rule: r.Name, id: r.ID, module: r.Module, line: r.Line, column: 1}
	}
	mods := make(map[string]*ast.Module, len(rego))
	for i, m := range rego {
		mods[m.Name] = layer.Modules[i]
	}
	c := newCompiledLayer(l.Package, &ast.Capabilities{Builtins: []*ast.Builtin{ast.Equality}})
	c.embedded = true
	if c.addHeads(heads, l) != nil {
		return nil
	}
	c.records = sync.OnceValues(func() (map[string]Rule, error) {
		if l.records() != nil {
			records, errs := joinRecords(l, nil, heads, parsedLayer{}.may)
			return records, firstOf(errs)
		}
		_, records, err := parseLayer(l)
		return records, err
	})
	c.compiler.WithSkipStages(slices.DeleteFunc(ast.AllStages(), func(s ast.StageID) bool { return s == ast.StageBuildRuleIndices })...)
	c.compiler.ModuleTree = ast.NewModuleTree(mods)
	c.compiler.RuleTree = ast.NewRuleTree(c.compiler.ModuleTree)
	c.compiler.Compile(nil) // Compile would copy modules that it is given
	c.compiler.Modules = mods
	if c.compiler.Failed() || c.askRules() != nil {
		return nil
	}
	return c
}
