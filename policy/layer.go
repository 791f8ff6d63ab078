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
	c := newCompiledLayer(l.Package, frozenCapabilities.Get())
	c.records = func() (map[string]Rule, error) { return records, nil }
	if err := firstOf(c.addHeads(p.heads, l)); err != nil {
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
	if err := firstOf(checkOwnReferences(c.compiler.Modules)); err != nil {
		return nil, err
	}
	return c, c.Bound(lim)
}

// parsedLayer is a layer between its parser and its compiler.
type parsedLayer struct {
	mods   map[string]*ast.Module
	heads  []head
	unread []string // texts of modules that cannot be parsed
	faulty []string // texts of modules with a fault
}

// parseLayer parses and checks the modules of a layer, and reads their records.
func parseLayer(l Layer) (parsedLayer, map[string]Rule, error) {
	p, records, errs := parseModules(l)
	return p, records, firstOf(errs)
}

// parseModules is parseLayer with all faults, and with as much as could be read. Of modules
// that cannot be parsed it takes only their text.
func parseModules(l Layer) (parsedLayer, map[string]Rule, []*Error) {
	opts := ParserOptions()
	opts.ProcessAnnotation = true
	p := parsedLayer{mods: map[string]*ast.Module{}}
	var records []Rule
	var errs []*Error
	for _, source := range l.Rego() {
		m, faults := parseModule(source, l, opts)
		errs = append(errs, faults...)
		if m.mod == nil {
			p.unread = append(p.unread, string(source.Source))
			continue
		}
		if len(faults) > 0 {
			p.faulty = append(p.faulty, string(source.Source))
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
	joined, faults := joinRecords(l, records, p.heads, p.may)
	return p, joined, append(errs, faults...)
}

// may says whether an id can stand in a module, a record or a head that could not be read.
func (p parsedLayer) may(id string) bool {
	return slices.ContainsFunc(slices.Concat(p.unread, p.faulty), func(text string) bool { return strings.Contains(text, id) })
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
func (c *compiledLayer) addHeads(heads []head, l Layer) (errs []*Error) {
	for _, h := range heads {
		key := h.rule + " " + h.id
		if first, dup := c.ids[key]; dup && h.rule != rulePermit {
			e := moduleErrorf(h.module, h.line, "a second rule %q has the id %q; the first is at %s:%d", h.rule, h.id, cmp.Or(fileOf([]Layer{l}, first.module), first.module), first.line)
			e.Rule, e.Column = h.id, h.column
			errs = append(errs, e)
			continue
		}
		c.ids[key] = h
	}
	for _, name := range answerRules() {
		if slices.ContainsFunc(heads, func(h head) bool { return h.rule == name }) {
			c.rules = append(c.rules, name)
		}
	}
	return errs
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
