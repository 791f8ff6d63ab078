package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
)

// compiledLayer is a layer that is ready to answer. Any number of evaluations may read
// it at once.
type compiledLayer struct {
	pkg      string
	embedded bool
	Program
	rules   []string                        // those of the four rules that the layer defines
	asked   rulesQuery                      // asks all of rules
	ids     map[string]head                 // by rule + " " + id; permits have no id
	wrapped map[string]map[string]bool      // by rule + " " + id: the members that totalHeads has wrapped
	records func() (map[string]Rule, error) // by id; the caller must not change the map
}

func newCompiledLayer(pkg string, caps *ast.Capabilities) *compiledLayer {
	return &compiledLayer{
		pkg:     pkg,
		Program: Program{compiler: ast.NewCompiler().WithStrict(true).WithCapabilities(caps).SetErrorLimit(1)},
		ids:     map[string]head{},
	}
}

// compileLayer parses, checks and compiles one layer, alone.
func compileLayer(l Layer, lim Limits) (*compiledLayer, error) {
	if err := checkSizes(l, lim); err != nil {
		return nil, err
	}
	if l.Embedded {
		if c := openLayer(l); c != nil {
			return c, nil
		}
	}
	p, records, err := parseLayer(l)
	if err != nil {
		return nil, err
	}
	c := newCompiledLayer(l.Package, frozenCapabilities())
	c.records = func() (map[string]Rule, error) { return records, nil }
	if err := c.addHeads(p.heads, l); err != nil {
		return nil, err
	}
	if c.embedded = l.Embedded; c.embedded {
		return c, c.compile(p.mods)
	}
	c.compiler.WithSchemas(inputSchema())
	c.wrapped = totalHeads(p.mods)
	if err := c.compile(p.mods); err != nil {
		return nil, err
	}
	if err := checkOwnReferences(c.compiler.Modules); err != nil {
		return nil, err
	}
	return c, c.Bound(lim)
}

// CheckModules makes the checks of New that need only one module, for every module of a
// layer. It returns the first error of each module.
func CheckModules(l Layer) []error {
	opts := ParserOptions()
	opts.ProcessAnnotation = true
	var errs []error
	for _, m := range l.Rego() {
		if _, err := parseModule(m, l, opts); err != nil {
			errs = append(errs, located(err, []Layer{l}))
		}
	}
	return errs
}

// parsedLayer is a layer between its parser and its compiler.
type parsedLayer struct {
	mods  map[string]*ast.Module
	heads []head
}

// parseLayer parses and checks the modules of a layer, and reads their records.
func parseLayer(l Layer) (parsedLayer, map[string]Rule, error) {
	opts := ParserOptions()
	opts.ProcessAnnotation = true
	p := parsedLayer{mods: map[string]*ast.Module{}}
	var records []Rule
	for _, source := range l.Rego() {
		m, err := parseModule(source, l, opts)
		if err != nil {
			return parsedLayer{}, nil, err
		}
		records = append(records, m.records...)
		// Comments and annotations have been read. A decision cannot depend on them, and
		// the compiler need not carry them.
		m.mod.Annotations, m.mod.Comments = nil, nil
		for _, r := range m.mod.Rules {
			r.Annotations = nil
		}
		p.mods[source.Name] = m.mod
		p.heads = append(p.heads, m.heads...)
	}
	joined, err := joinRecords(l, records, p.heads)
	return p, joined, err
}

// checkSizes makes those checks of a layer that need no parser. checkLayers has refused two
// modules of one name before.
func checkSizes(l Layer, lim Limits) error {
	if !validPackage(l.Package) {
		return &Error{Kind: KindModule, Msg: "layer " + canon.Quote(l.Package) + " is not gate.builtin, gate.org.NAME, gate.repo.NAME or gate.user.NAME"}
	}
	if len(l.Rego()) == 0 {
		return &Error{Kind: KindModule, Msg: "layer " + canon.Quote(l.Package) + " has no module"}
	}
	total := 0
	for _, m := range l.Modules {
		if m.Name == "" {
			return moduleErrorf(m.Name, 0, "layer %q has a module without a name", l.Package)
		}
		if len(m.Source) > lim.ModuleBytes {
			return &Error{Kind: KindLimit, Module: m.Name, Msg: fmt.Sprintf("module has %d bytes; the limit is %d", len(m.Source), lim.ModuleBytes)}
		}
		total += len(m.Source)
	}
	if total > lim.BundleBytes {
		return &Error{Kind: KindLimit, Msg: fmt.Sprintf("layer %q has %d bytes; the limit is %d", l.Package, total, lim.BundleBytes)}
	}
	return nil
}

// validPackage says whether pkg may be a layer.
func validPackage(pkg string) bool {
	if pkg == Builtin {
		return true
	}
	for _, prefix := range []string{PrefixOrg, PrefixRepo, PrefixUser} {
		if name, ok := strings.CutPrefix(pkg, prefix); ok {
			return ast.IsVarCompatibleString(name)
		}
	}
	return false
}

// addHeads records the rules and ids of the layer. An id belongs to one rule of a kind,
// so that a result leads to one place in the source. With a file of records, a layer has
// one rule of a kind, with the id "".
func (c *compiledLayer) addHeads(heads []head, l Layer) error {
	for _, h := range heads {
		key := h.rule + " " + h.id
		if first, dup := c.ids[key]; dup && h.rule != rulePermit {
			e := moduleErrorf(h.module, h.line, "a second rule %q has the id %q; the first is at %s:%d", h.rule, h.id, cmp.Or(fileOf([]Layer{l}, first.module), first.module), first.line)
			e.Rule = h.id
			return e
		}
		c.ids[key] = h
	}
	for _, name := range answerRules() {
		if slices.ContainsFunc(heads, func(h head) bool { return h.rule == name }) {
			c.rules = append(c.rules, name)
		}
	}
	return nil
}

// compile compiles the modules and the query of the layer.
func (c *compiledLayer) compile(mods map[string]*ast.Module) error {
	if err := c.Program.compile(mods); err != nil {
		return err
	}
	return c.askRules()
}

// askRules compiles the query of the layer's rules.
func (c *compiledLayer) askRules() error {
	pkg, err := ast.PtrRef(ast.DefaultRootDocument, strings.ReplaceAll(c.pkg, ".", "/"))
	if err == nil {
		c.asked, err = c.ask(pkg, c.rules...)
	}
	return err
}
