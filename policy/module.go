package policy

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
)

// The rules through which a layer answers.
const (
	rulePermit  = "permit"
	ruleDeny    = "deny"
	ruleClarify = "clarify"
	ruleNote    = "note"
)

// IsAnswer says whether a layer answers through rules of this name.
func IsAnswer(rule string) bool { return slices.Contains(answerRules(), rule) }

// answerRules returns the names of the four rules in the order of a query.
func answerRules() []string { return []string{rulePermit, ruleDeny, ruleClarify, ruleNote} }

// members returns the members that the objects of a rule must have and may have.
func members(rule string) (required, optional []string) {
	switch rule {
	case ruleDeny:
		return []string{"id", "path", "msg"}, []string{"fix"}
	case ruleClarify:
		return []string{"id", "path", "question"}, []string{"options"}
	case ruleNote:
		return []string{"id", "path", "msg"}, nil
	}
	return nil, nil
}

// head is one rule through which a layer answers. For a permit, id is "", and the title
// and description come from its own METADATA, if it was read.
type head struct {
	rule, id, module string
	line, column     int
	title, why       string
}

// parsedModule is a module that follows the rules of a layer.
type parsedModule struct {
	mod     *ast.Module
	heads   []head
	records []Rule
}

// parseModule parses one module and makes every check that does not need the rest of
// its layer.
//
// It returns all faults, and as much as it could read: mod is nil if the text is no module
// of the layer.
func parseModule(m Module, l Layer, opts ast.ParserOptions) (parsedModule, []*Error) {
	mod, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), opts)
	if err != nil {
		return parsedModule{}, parseErrors(m.Name, err)
	}
	if got := PackageName(mod); got != l.Package {
		return parsedModule{}, []*Error{errorAt(m.Name, mod.Package.Location, "package %q does not belong to layer %q", got, l.Package)}
	}
	errs := append(checkReferences(m.Name, mod), checkNegations(m.Name, mod)...)
	p := parsedModule{mod: mod}
	var more []*Error
	p.records, more = moduleRecords(m.Name, mod)
	errs = append(errs, more...)
	p.heads, more = moduleHeads(m.Name, l, mod)
	return p, append(errs, more...)
}

// moduleHeads returns the rules through which a module answers. The head of a rule at fault
// has the id that could be read.
func moduleHeads(name string, l Layer, mod *ast.Module) ([]head, []*Error) {
	var heads []head
	var errs []*Error
	for _, r := range mod.Rules {
		if !IsAnswer(string(r.Head.Ref()[0].Value.(ast.Var))) {
			continue
		}
		h, err := inspectRule(name, l, r)
		if err != nil {
			errs = append(errs, err)
		}
		heads = append(heads, h)
	}
	if len(heads) == 0 {
		errs = append(errs, moduleErrorf(name, 0, "module defines none of permit, deny, clarify, note"))
	}
	return heads, errs
}

// PackageName returns the package of a module without the leading "data".
func PackageName(mod *ast.Module) string {
	return strings.TrimPrefix(mod.Package.Path.String(), "data.")
}

// inspectRule checks the form of one of the four rules.
func inspectRule(name string, l Layer, r *ast.Rule) (head, *Error) {
	ref := r.Head.Ref()
	rule := string(ref[0].Value.(ast.Var))
	h := head{rule: rule, module: name, line: r.Location.Row, column: r.Location.Col}
	fail := func(format string, args ...any) (head, *Error) {
		e := errorAt(name, r.Location, format, args...)
		e.Rule = rule
		return h, e
	}
	if r.Default || len(r.Head.Args) > 0 || len(ref) != 1 || r.Else != nil || r.Head.RuleKind() != ast.MultiValue || r.Head.Key == nil {
		return fail("rule %q must be a set: write %q", rule, rule+" contains … if { … }")
	}
	if rule == rulePermit {
		if l.Package != Builtin {
			return fail("only layer %q may define rule %q", Builtin, rulePermit)
		}
		for _, a := range r.Annotations {
			h.title, h.why = a.Title, a.Description
		}
		return h, nil
	}
	obj, ok := r.Head.Key.Value.(ast.Object)
	if !ok {
		return fail("rule %q must contain an object literal with a literal %q", rule, "id")
	}
	id, problem := headID(rule, obj, l.records() != nil)
	if validID(id) {
		h.id = id
	}
	if problem != "" {
		return fail("rule %q: %s", rule, problem)
	}
	return h, nil
}

// headID returns the literal id of a head's object, or a description of its fault. A head of
// a layer with records has no literal id.
func headID(rule string, obj ast.Object, records bool) (id, problem string) {
	var names []string
	obj.Foreach(func(k, v *ast.Term) {
		key, ok := k.Value.(ast.String)
		if !ok {
			problem = "every member name must be a literal string"
			return
		}
		names = append(names, string(key))
		if s, ok := v.Value.(ast.String); ok && key == "id" {
			id = string(s)
		}
	})
	if problem == "" {
		problem = checkMembers(rule, names)
	}
	switch {
	case problem != "":
		return id, problem
	case records && id != "":
		return "", `member "id" must come from a record, as in data.records[code].id`
	case records:
	case !validID(id):
		return "", `member "id" must be a literal string that matches [A-Z][A-Z0-9_]{1,31}`
	}
	return id, ""
}

// checkMembers describes what is wrong with the member names of a rule's answer, or
// returns "".
func checkMembers(rule string, names []string) string {
	required, optional := members(rule)
	slices.Sort(names)
	for _, n := range names {
		if !slices.Contains(required, n) && !slices.Contains(optional, n) {
			return "unknown member " + canon.Quote(n)
		}
	}
	for _, n := range required {
		if !slices.Contains(names, n) {
			return "member " + canon.Quote(n) + " is missing"
		}
	}
	return ""
}

// validID says whether id matches [A-Z][A-Z0-9_]{1,31}.
func validID(id string) bool {
	if len(id) < 2 || len(id) > 32 || id[0] < 'A' || id[0] > 'Z' {
		return false
	}
	return strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// checkNegations refuses "not" without the import of future.keywords.not. Without the
// import, not f(x.missing) would silently be false.
func checkNegations(name string, mod *ast.Module) (errs []*Error) {
	ast.WalkExprs(mod, func(e *ast.Expr) bool {
		if e.Negated && errs == nil { // one import mends all
			errs = append(errs, errorAt(name, e.Location, `"not" needs "import future.keywords.not": without it, not f(x) of an undefined x does not hold`))
		}
		return false
	})
	return errs
}

// checkReferences refuses references that a module may not make: to data outside its
// own package and data.profile. It also refuses "with" that replaces data, and print,
// which the compiler would erase.
func checkReferences(name string, mod *ast.Module) []*Error {
	c := &referenceCheck{name: name, own: mod.Package.Path, imported: map[ast.Var]bool{}}
	c.walker = ast.NewGenericVisitor(c.visit)
	for _, imp := range mod.Imports {
		if ref, ok := imp.Path.Value.(ast.Ref); ok {
			if ref[0].Equal(ast.DefaultRootDocument) {
				c.imported[imp.Name()] = true
			}
			c.ref(ref, imp.Path.Location)
		}
	}
	for _, r := range mod.Rules {
		c.walker.Walk(r)
		for ; r != nil; r = r.Else {
			c.rest(r.Head.Ref())
		}
	}
	return c.errs
}

// referenceCheck keeps the forbidden references.
type referenceCheck struct {
	name     string
	own      ast.Ref
	imported map[ast.Var]bool // names that stand for data
	walker   *ast.GenericVisitor
	errs     []*Error
}

func (c *referenceCheck) visit(x any) bool {
	switch x := x.(type) {
	case *ast.With:
		head := x.Target.Value
		if ref, ok := head.(ast.Ref); ok {
			head = ref[0].Value
		}
		if v, ok := head.(ast.Var); ok && (v == "data" || c.imported[v]) {
			c.fail(x.Target.Location, `"with" must not replace %q`, x.Target.String())
		}
	case *ast.Term:
		switch v := x.Value.(type) {
		case ast.Ref:
			c.ref(v, x.Location)
			c.rest(v)
			return true
		case ast.Var:
			if v == "data" {
				c.fail(x.Location, "a policy sees data.profile and its own package, not all of data")
			}
		}
	}
	return false
}

// rest visits the terms in the brackets of a reference. The method ref checks the head
// together with the terms behind it.
func (c *referenceCheck) rest(ref ast.Ref) {
	for _, t := range ref[1:] {
		c.walker.Walk(t)
	}
}

func (c *referenceCheck) ref(ref ast.Ref, loc *ast.Location) {
	switch head := ref[0].Value; {
	case head.Compare(ast.Var("print")) == 0:
		c.fail(loc, "undefined function %q: %s", "print", whyOmitted("print"))
	case head.Compare(ast.DefaultRootDocument.Value) == 0:
		sees := len(ref) > 1 && (ref[1].Value.Compare(ast.String("profile")) == 0 ||
			ref[1].Value.Compare(ast.String("records")) == 0 && c.own.String() == "data."+Builtin)
		if sees || len(ref) >= len(c.own) && ref.HasPrefix(c.own) {
			return
		}
		c.fail(loc, "%q is neither data.profile nor the module's own package", canon.Cut(ref.String()))
	}
}

func (c *referenceCheck) fail(loc *ast.Location, format string, args ...any) {
	c.errs = append(c.errs, errorAt(c.name, loc, format, args...))
}

// SyntaxErrors words the errors of the parser about a module, each in one line.
func SyntaxErrors(m Module, err error) []*Error {
	errs := parseErrors(m.Name, err)
	for _, e := range errs {
		e.File = m.File
	}
	return errs
}

// parseError words the first error of the parser or the compiler, in one line.
func parseError(name string, err error) *Error { return parseErrors(name, err)[0] }

// parseErrors words the errors of the parser or the compiler. It returns at least one.
func parseErrors(name string, err error) []*Error {
	var list ast.Errors
	var one *ast.Error
	if !errors.As(err, &list) && errors.As(err, &one) {
		list = ast.Errors{one}
	}
	errs := make([]*Error, 0, len(list))
	for _, one := range list {
		e := syntaxError(name, one)
		// The parser may have several errors about one line. The first counts, or one that says
		// more of the same.
		if n := len(errs) - 1; n >= 0 && one.Code == ast.ParseErr && errs[n].Module == e.Module && errs[n].Line == e.Line {
			if strings.HasPrefix(e.Msg, errs[n].Msg) {
				errs[n] = e
			}
			continue
		}
		errs = append(errs, e)
	}
	if len(errs) == 0 {
		errs = append(errs, moduleErrorf(name, 0, "module cannot be parsed"))
	}
	return errs
}

func syntaxError(name string, one *ast.Error) *Error {
	if one.Location != nil && one.Location.File != "" {
		name = one.Location.File
	}
	msg, _, _ := strings.Cut(one.Message, "\n")
	if f, ok := strings.CutPrefix(msg, "undefined function "); ok {
		if reason := whyOmitted(f); reason != "" {
			return errorAt(name, one.Location, "undefined function %q: %s", f, reason)
		}
		return errorAt(name, one.Location, "undefined function %q", f)
	}
	msg = canon.Cut(strings.ToValidUTF8(generated.Get().ReplaceAllString(msg, "_"), "\uFFFD"))
	return errorAt(name, one.Location, "%s%s", msg, remedy(one.Details))
}

// generated matches the variables that the compiler makes.
var generated = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`__local[0-9]+__`) }}
