package policy

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/lazy"
)

// Inspected is a layer with all of its faults.
type Inspected struct {
	Layer   Layer    // with the modules that could be read
	Faults  []*Error // by file, line and column
	Parsed  bool     // each module is a module of the layer
	IDs     []string // ids of the rules, sorted
	Choices []string // ids that occur under at least two of deny, clarify and note, sorted

	may func(id string) bool
}

// May says whether an id can be one of a rule that could not be read.
func (i Inspected) May(id string) bool { return i.may != nil && i.may(id) }

// Inspect reads the layer of a folder like LoadLayer, makes the checks of New, and goes on
// after a fault with everything that the fault does not touch. So each fault is reported at
// once, and no fault that another one causes. A folder without modules has no fault if pkg
// names the package.
//
// New refuses a layer with a fault, and accepts every other one (TestInspectAgrees).
func Inspect(ctx context.Context, f Folder, pkg string, lim Limits) Inspected {
	lim = lim.orDefault()
	l, err := f.layer(pkg, lim)
	for _, m := range l.Modules {
		// The first module names a package that is none. Another module names the layer.
		if other := statedPackage(m.Source); l.Package == "" && strings.HasPrefix(other, pkg) && strings.HasSuffix(pkg, ".") && validPackage(other) {
			l.Package, err = other, nil
		}
	}
	i := Inspected{Layer: l}
	if err != nil {
		i.add(err)
		// Without all of a layer each module is checked as far as its syntax.
		for _, m := range l.Modules {
			if _, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), ParserOptions()); err != nil {
				i.Faults = append(i.Faults, SyntaxErrors(m, err)...)
			}
		}
	} else if len(l.Modules) > 0 {
		found, err := WatchCompile(ctx, lim, []Layer{l}, "compiling the policy", func() (Inspected, error) { return inspectLayer(l, lim), nil })
		found.Faults = append(i.Faults, found.Faults...)
		if i = found; err != nil {
			i.Layer = l
			i.add(err)
		}
	}
	Locate(i.Faults, []Layer{l})
	i.Faults = SortErrors(i.Faults)
	return i
}

func (i *Inspected) add(err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: KindModule, Msg: "the policy cannot be read"}
	}
	i.Faults = append(i.Faults, e)
}

// inspectLayer inspects a layer whose package is valid.
func inspectLayer(l Layer, lim Limits) Inspected {
	if err := checkSizes(l, lim); err != nil {
		i := Inspected{Layer: l}
		i.add(err)
		return i
	}
	p, records, errs := parseModules(l)
	i := Inspected{Layer: l, Parsed: len(p.unread) == 0, may: p.may, IDs: slices.Sorted(maps.Keys(records))}
	for _, id := range i.IDs {
		if len(records[id].Kinds) > 1 {
			i.Choices = append(i.Choices, id)
		}
	}
	heads := slices.DeleteFunc(slices.Clone(p.heads), func(h head) bool { return h.id == "" && h.rule != rulePermit })
	errs = append(errs, newCompiledLayer(l.Package, frozenCapabilities.Get()).addHeads(heads, l)...)
	s := sound{mods: p.mods, pkg: l.Package, names: ruleNames(p.mods), missing: map[string]bool{}, tried: map[string]bool{}, cut: map[*ast.Rule]bool{}}
	for _, text := range p.unread {
		for _, m := range lineWords.Get().FindAllStringSubmatch(text, -1) {
			s.missing[m[1]] = true
		}
	}
	// A fault in the head of an answer names the rule. Such a rule cannot be compiled.
	s.drop(slices.DeleteFunc(slices.Clone(errs), func(e *Error) bool { return !IsAnswer(e.Rule) }))
	i.Faults = append(errs, s.compile()...)
	return i
}

// lineWords matches the words that begin a line of Rego, and so can be names of rules.
var lineWords = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:default[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)`)
}}

// unsafeVar matches the compiler's error about a variable without a value.
var unsafeVar = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`^var ([A-Za-z_][A-Za-z0-9_]*) is unsafe$`) }}

// sound has the rules of a layer that the compiler has not refused yet.
type sound struct {
	mods    map[string]*ast.Module
	pkg     string
	names   map[string]bool    // of all rules that could be read
	missing map[string]bool    // names of rules that can stand in modules that could not be read
	tried   map[string]bool    // faults that were mended
	cut     map[*ast.Rule]bool // rules that lack an expression
}

// compile compiles the rules until no more of them has a fault. The compiler stops after the
// stage in which it finds one, so what is at fault is mended or left out, and the rest is
// compiled again.
func (s *sound) compile() (all []*Error) {
	for {
		c := newCompiledLayer(s.pkg, frozenCapabilities.Get())
		c.compiler.SetErrorLimit(0).WithSchemas(inputSchema())
		mods := map[string]*ast.Module{}
		for name, mod := range s.mods {
			mods[name] = mod.Copy()
		}
		totalHeads(mods)
		if stubs := s.stubs(); stubs != nil {
			mods[""] = stubs
		}
		errs := c.faults(mods)
		if len(errs) == 0 {
			errs = append(checkOwnReferences(c.compiler.Modules, slices.Collect(maps.Keys(s.missing))...), bindCalls(c.compiler.Modules)...)
			return append(all, errs...)
		}
		caused, mended := s.mend(errs)
		all = append(all, slices.DeleteFunc(errs, func(e *Error) bool { return slices.Contains(caused, e) })...)
		if !mended {
			return all
		}
	}
}

// mend gives a variable without a value one of any type, leaves out the expressions with other
// faults, and the rules with faults elsewhere. It returns the errors that an expression which
// was left out has caused, and reports whether it changed anything.
func (s *sound) mend(errs []*Error) (caused []*Error, mended bool) {
	var rest []*Error
	for _, e := range errs {
		key := e.Error()
		r := s.ruleAt(e)
		m := unsafeVar.Get().FindStringSubmatch(e.Msg)
		switch {
		case r == nil || s.tried[key]:
			rest = append(rest, e)
		case m != nil:
			if s.cut[r] {
				caused = append(caused, e)
			}
			for one := r; one != nil; one = one.Else {
				one.Body.Append(ast.Equality.Expr(ast.VarTerm(m[1]), anyTerm()))
			}
			mended = true
		case s.leaveOut(r, e.Line):
			s.cut[r], mended = true, true
		default:
			rest = append(rest, e)
		}
		s.tried[key] = true
	}
	return caused, s.drop(rest) || mended
}

// ruleAt returns the rule in which a fault stands, or nil.
func (s *sound) ruleAt(e *Error) *ast.Rule {
	if mod := s.mods[e.Module]; mod != nil {
		if i := slices.IndexFunc(mod.Rules, func(r *ast.Rule) bool { return covers(r.Location, e.Line) }); i >= 0 {
			return mod.Rules[i]
		}
	}
	return nil
}

// leaveOut replaces the expressions at a line of a rule's bodies by true. It reports whether
// there was one.
func (s *sound) leaveOut(r *ast.Rule, line int) bool {
	found := false
	for ; r != nil; r = r.Else {
		for i, e := range r.Body {
			if e.Location != nil && covers(e.Location, line) && !e.Equal(ast.NewExpr(ast.BooleanTerm(true))) {
				r.Body.Set(ast.NewExpr(ast.BooleanTerm(true).SetLocation(e.Location)).SetLocation(e.Location), i)
				found = true
			}
		}
	}
	return found
}

// anyTerm is a value of the input of any type.
func anyTerm() *ast.Term { return ast.NewTerm(ast.MustParseRef("input.intent.context.any")) }

// covers says whether a line is one of a place's text.
func covers(loc *ast.Location, line int) bool {
	return line >= loc.Row && line <= loc.Row+strings.Count(strings.TrimRight(string(loc.Text), "\n"), "\n")
}

// drop leaves out the rules and imports at the lines of faults, and imports that no rule uses
// then, because the compiler refuses them. It reports whether there was one.
func (s *sound) drop(errs []*Error) bool {
	dropped := false
	for name, mod := range s.mods {
		errs := slices.DeleteFunc(slices.Clone(errs), func(e *Error) bool { return e.Module != name })
		before := len(mod.Rules) + len(mod.Imports)
		mod.Rules = slices.DeleteFunc(mod.Rules, func(r *ast.Rule) bool {
			return slices.ContainsFunc(errs, func(e *Error) bool { return covers(r.Location, e.Line) })
		})
		used := map[ast.Var]bool{}
		for _, r := range mod.Rules {
			ast.WalkVars(r, func(v ast.Var) bool { used[v] = true; return false })
		}
		mod.Imports = slices.DeleteFunc(mod.Imports, func(imp *ast.Import) bool {
			path, ok := imp.Path.Value.(ast.Ref)
			root := ok && (path[0].Equal(ast.DefaultRootDocument) || path[0].Equal(ast.InputRootDocument))
			return root && len(errs) > 0 && !used[imp.Name()] || slices.ContainsFunc(errs, func(e *Error) bool { return e.Line == LineOf(imp.Location) })
		})
		dropped = dropped || len(mod.Rules)+len(mod.Imports) < before
	}
	return dropped
}

// stubs returns a module with a rule of any value for each name that the rules use, and that
// is the name of a rule which is left out or could not be read. So those rules can be
// compiled, and the compiler reports none of these names. It returns nil if there is none.
func (s *sound) stubs() *ast.Module {
	defined, heads := ruleNames(s.mods), map[string]string{}
	left := func(name string) bool { return !defined[name] && (s.names[name] || s.missing[name]) }
	for _, mod := range s.mods {
		own := mod.Package.Path
		nameOf := func(ref ast.Ref) string {
			if v, ok := ref[0].Value.(ast.Var); ok && len(ref) == 1 {
				return string(v)
			}
			if len(ref) == len(own)+1 && ref.HasPrefix(own) {
				name, _ := ref[len(own)].Value.(ast.String)
				return string(name)
			}
			return ""
		}
		call := func(terms []*ast.Term) {
			if ref, ok := terms[0].Value.(ast.Ref); ok && left(nameOf(ref)) {
				args := strings.Repeat(", _", len(terms)-1)
				heads[nameOf(ref)] = "(" + strings.TrimPrefix(args, ", ") + ")"
			}
		}
		for _, r := range mod.Rules {
			ast.WalkTerms(r, func(t *ast.Term) bool {
				name := ""
				switch v := t.Value.(type) {
				case ast.Call:
					call(v)
				case ast.Var:
					name = string(v)
				case ast.Ref:
					name = nameOf(v[:min(len(v), max(1, len(own)+1))])
				}
				if _, known := heads[name]; left(name) && !known {
					heads[name] = ""
				}
				return false
			})
			ast.WalkExprs(r, func(e *ast.Expr) bool {
				if terms, ok := e.Terms.([]*ast.Term); ok && len(terms) > 0 {
					call(terms)
				}
				return false
			})
		}
	}
	if len(heads) == 0 {
		return nil
	}
	text := "package " + s.pkg + "\n"
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		text += name + heads[name] + " := " + anyTerm().String() + "\n"
	}
	mod, err := ast.ParseModuleWithOpts("", text, ParserOptions())
	if err != nil {
		return nil
	}
	return mod
}
