// Package stored owns the stored form of compiled modules: a file from which a process
// takes a policy that never changes, instead of parsing and compiling it. The form is
//
//	magic | SHA-256 of all that follows | key | tables | rules | modules
//
// The key has the version of OPA, and what the caller lists: from what the modules were
// made. A number is an unsigned varint of at most four bytes, a text has its length before
// it, and a list its number of elements. The tables have each scalar value and each place
// (file and row) once; the rest refers to them by number. All else stands where it is used.
//
// The modules are those that OPA's compiler leaves after its last stage that rewrites.
// Columns, comments, annotations and imports are not part of the form; no evaluation reads
// them.
package stored

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/version"
)

const magic = "fiador-policy 2\n"

// Layer is what the form holds.
type Layer struct {
	Rules   []Rule
	Modules []*ast.Module // compiled
}

// Rule is one rule through which a layer answers, as its source has it.
type Rule struct {
	Name, ID, Module string
	Line             int
}

// Write returns the form of a layer. The error names a node that the form cannot hold.
func Write(key []string, l Layer) ([]byte, error) {
	body := coder{numbers: map[any]int{}}
	body.layer(l)
	tables := coder{scalars: body.scalars, places: body.places, sizes: body.sizes}
	tables.tables()
	if fault := cmp.Or(body.fault, tables.fault); fault != "" {
		return nil, errors.New(fault)
	}
	content := slices.Concat(keyBytes(key), tables.out, body.out)
	sum := sha256.Sum256(content)
	return slices.Concat([]byte(magic), sum[:], content), nil
}

func keyBytes(key []string) []byte {
	var c coder
	list(&c, append([]string{version.Version}, key...), c.text)
	return c.out
}

// Read reads the form of a layer. It returns false for the form of another key, for a
// form that was changed, and for bytes that are no form.
func Read(form []byte, key []string) (Layer, bool) {
	content, ok := open(form, key)
	if !ok {
		return Layer{}, false
	}
	return read(content)
}

// open returns the content of a form behind its key.
func open(form []byte, key []string) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(form, []byte(magic))
	if !ok || len(rest) < sha256.Size {
		return nil, false
	}
	content := rest[sha256.Size:]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, false
	}
	return bytes.CutPrefix(content, keyBytes(key))
}

// read reads what stands behind the key.
func read(content []byte) (l Layer, ok bool) {
	c := coder{reading: true, in: string(content)}
	if c.tables(); c.fault == "" {
		l = c.layer(Layer{})
	}
	return l, c.fault == "" && c.in == "" && c.sizes == sizes{}
}

// coder writes the stored form, or reads it. One method for each kind of node does
// both: it writes the node that it is given and returns it, or it reads and returns a new
// one.
type coder struct {
	reading bool
	in      string // not yet read
	out     []byte
	fault   string // the first fault: of what is read, or a node that the form cannot hold
	depth   int

	scalars []ast.Value
	places  []ast.Location
	numbers map[any]int // of scalars and places, for writing
	sizes   sizes       // counted by a writer; not yet taken by a reader
	made    nodes
}

// sizes are the numbers of nodes of each type, and of the elements of lists of them.
type sizes struct{ terms, exprs, rules, termLists, exprLists int }

// nodes are the nodes that a reader makes at once.
type nodes struct {
	terms     []ast.Term
	exprs     []ast.Expr
	rules     []ast.Rule
	termLists []*ast.Term
	exprLists []*ast.Expr
}

func (c *coder) fail(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

// number codes a number from 0 to 1<<28 - 1.
func (c *coder) number(n int) int {
	if !c.reading {
		if n < 0 || n >= 1<<28 {
			c.fail("the number %d is not stored", n)
		}
		c.out = binary.AppendUvarint(c.out, uint64(n))
		return n
	}
	n = 0
	for i := 0; i < min(len(c.in), 4); i++ {
		n |= int(c.in[i]&0x7f) << (7 * i)
		if c.in[i] < 0x80 {
			c.in = c.in[i+1:]
			return n
		}
	}
	c.fail("no number")
	return 0
}

// size codes the number of elements of a list. Each element has a byte or more.
func (c *coder) size(n int) int {
	if n = c.number(n); c.reading && n > len(c.in) {
		c.fail("a list that is too long")
		return 0
	}
	return n
}

func (c *coder) text(s string) string {
	n := c.size(len(s))
	if c.reading {
		s, c.in = c.in[:n], c.in[n:]
		return s
	}
	c.out = append(c.out, s...)
	return s
}

func (c *coder) flag(b bool) bool {
	n := 0
	if b {
		n = 1
	}
	return c.number(n) != 0
}

// list codes a list by coding its elements.
func list[T any](c *coder, l []T, element func(T) T) []T {
	n := c.size(len(l))
	if c.reading {
		l = make([]T, n)
	}
	for i := range l {
		l[i] = element(l[i])
	}
	return l
}

// tables codes the scalars, the places and the sizes.
func (c *coder) tables() {
	c.scalars = list(c, c.scalars, c.scalar)
	var last ast.Location
	c.places = list(c, c.places, func(l ast.Location) ast.Location {
		if c.flag(l.File == last.File) {
			l.File = last.File
		} else {
			l.File = c.text(l.File)
		}
		l.Row = c.number(l.Row)
		last = l
		return l
	})
	s := &c.sizes
	for _, n := range []*int{&s.terms, &s.exprs, &s.rules, &s.termLists, &s.exprLists} {
		*n = c.size(*n) // a node, and its element in a list, has a byte or more
	}
	if c.reading {
		c.made = nodes{
			make([]ast.Term, s.terms), make([]ast.Expr, s.exprs), make([]ast.Rule, s.rules),
			make([]*ast.Term, s.termLists), make([]*ast.Expr, s.exprLists),
		}
	}
}

// numbered returns the number of a value in a table, to which a new value is added.
func numbered[T any](c *coder, key any, value T, table *[]T) int {
	n, known := c.numbers[key]
	if !known {
		n = len(*table)
		c.numbers[key] = n
		*table = append(*table, value)
	}
	return n
}

// take returns the next n of the nodes that were made for a reader. For a writer it
// counts them.
func take[T any](c *coder, size *int, made *[]T, n int) []T {
	if !c.reading {
		*size += n
		return nil
	}
	if n > *size {
		c.fail("more nodes than were counted")
		return make([]T, n)
	}
	*size -= n
	got := (*made)[:n:n]
	*made = (*made)[n:]
	return got
}

// slots is list for the lists of nodes, which a reader makes at once too.
func slots[T any](c *coder, l []T, size *int, made *[]T, element func(*coder, T) T) []T {
	n := c.size(len(l))
	if got := take(c, size, made, n); c.reading {
		l = got
	}
	for i := range l {
		l[i] = element(c, l[i])
	}
	return l
}

// Kinds of scalars.
const (
	scalarNull = iota
	scalarFalse
	scalarTrue
	scalarNumber
	scalarString
	scalarVar
)

func (c *coder) scalar(v ast.Value) ast.Value {
	kind, text := scalarNull, ""
	switch x := v.(type) {
	case ast.Boolean:
		if kind = scalarFalse; x {
			kind = scalarTrue
		}
	case ast.Number:
		kind, text = scalarNumber, string(x)
	case ast.String:
		kind, text = scalarString, string(x)
	case ast.Var:
		kind, text = scalarVar, string(x)
	}
	if kind = c.number(kind); kind >= scalarNumber {
		text = c.text(text)
	}
	switch kind {
	case scalarFalse, scalarTrue:
		return ast.Boolean(kind == scalarTrue)
	case scalarNumber:
		return ast.Number(text)
	case scalarString:
		return ast.String(text)
	case scalarVar:
		return ast.Var(text)
	case scalarNull:
	default:
		c.fail("an unknown scalar")
	}
	return ast.Null{}
}

func (c *coder) layer(l Layer) Layer {
	l.Rules = list(c, l.Rules, func(r Rule) Rule {
		return Rule{Name: c.text(r.Name), ID: c.text(r.ID), Module: c.text(r.Module), Line: c.number(r.Line)}
	})
	l.Modules = list(c, l.Modules, c.module)
	return l
}

func (c *coder) module(m *ast.Module) *ast.Module {
	if c.reading {
		m = &ast.Module{Package: &ast.Package{}}
	}
	if len(m.Imports)+len(m.Annotations)+len(m.Comments) > 0 {
		c.fail("a compiled module has no imports and no comments")
	}
	m.Package.Location = c.place(m.Package.Location)
	m.Package.Path = c.terms(m.Package.Path)
	m.Rules = list(c, m.Rules, func(r *ast.Rule) *ast.Rule { return c.rule(r, m) })
	return m
}

func (c *coder) rule(r *ast.Rule, in *ast.Module) *ast.Rule {
	if made := take(c, &c.sizes.rules, &c.made.rules, 1); c.reading {
		r = &made[0]
		r.Head = &ast.Head{}
		r.Module = in
	}
	h := r.Head
	r.Location = c.place(r.Location)
	r.Default = c.flag(r.Default)
	h.Location = c.place(h.Location)
	h.Name = ast.Var(c.text(string(h.Name)))
	h.Reference = c.terms(h.Reference)
	h.Args = c.terms(h.Args)
	h.Key = c.optional(h.Key)
	h.Value = c.optional(h.Value)
	h.Assign = c.flag(h.Assign)
	r.Body = c.body(r.Body)
	if c.flag(r.Else != nil) && c.deeper() {
		r.Else = c.rule(r.Else, in)
		c.depth--
	}
	return r
}

// deeper says whether a node may stand in the present one. The depth then decreases after
// the node.
func (c *coder) deeper() bool {
	if c.fault != "" || c.depth == 100 {
		c.fail("too deep")
		return false
	}
	c.depth++
	return true
}

func (c *coder) body(b ast.Body) ast.Body {
	return slots(c, b, &c.sizes.exprLists, &c.made.exprLists, (*coder).expr)
}

// Kinds of expressions.
const (
	exprTerm = iota
	exprCall
	exprEvery
	exprNot
)

func (c *coder) expr(e *ast.Expr) *ast.Expr {
	if made := take(c, &c.sizes.exprs, &c.made.exprs, 1); c.reading {
		e = &made[0]
	}
	if len(e.With) > 0 {
		c.fail("an embedded layer has no with")
	}
	e.Location = c.place(e.Location)
	e.Generated, e.Negated, e.Index = c.flag(e.Generated), c.flag(e.Negated), c.number(e.Index)
	if c.deeper() {
		e.Terms = c.exprTerms(e.Terms)
		c.depth--
	}
	return e
}

func (c *coder) exprTerms(terms any) any {
	kind := exprTerm
	switch terms.(type) {
	case []*ast.Term:
		kind = exprCall
	case *ast.Every:
		kind = exprEvery
	case *ast.Not:
		kind = exprNot
	}
	switch kind = c.number(kind); kind {
	case exprTerm:
		t, ok := terms.(*ast.Term)
		if !ok && !c.reading {
			c.fail("no expression of the type %T is stored", terms)
			return terms
		}
		return c.term(t)
	case exprCall:
		call, _ := terms.([]*ast.Term)
		return c.terms(call)
	case exprEvery:
		e, ok := terms.(*ast.Every)
		if !ok {
			e = &ast.Every{}
		}
		e.Location = c.place(e.Location)
		e.Key, e.Value, e.Domain = c.optional(e.Key), c.optional(e.Value), c.term(e.Domain)
		e.Body = c.body(e.Body)
		return e
	case exprNot:
		n, ok := terms.(*ast.Not)
		if !ok {
			n = &ast.Not{}
		}
		n.Location, n.ExplicitBody = c.place(n.Location), c.flag(n.ExplicitBody)
		n.Body = c.body(n.Body)
		return n
	}
	c.fail("an unknown expression")
	return nil
}

// place codes a place by its number in the table. 0 is no place.
func (c *coder) place(l *ast.Location) *ast.Location {
	n := 0
	if l != nil && !c.reading {
		type place struct {
			file string
			row  int
		}
		n = 1 + numbered(c, place{l.File, l.Row}, ast.Location{File: l.File, Row: l.Row}, &c.places)
	}
	switch n = c.number(n); {
	case !c.reading || n == 0:
		return l
	case n > len(c.places):
		c.fail("an unknown place")
		return nil
	}
	return &c.places[n-1]
}

func (c *coder) optional(t *ast.Term) *ast.Term {
	if c.flag(t != nil) {
		return c.term(t)
	}
	return nil
}

func (c *coder) terms(l []*ast.Term) []*ast.Term {
	return slots(c, l, &c.sizes.termLists, &c.made.termLists, (*coder).term)
}

func (c *coder) term(t *ast.Term) *ast.Term {
	if made := take(c, &c.sizes.terms, &c.made.terms, 1); c.reading {
		t = &made[0]
		t.Value = ast.Null{}
	}
	if c.deeper() {
		t.Location = c.place(t.Location)
		t.Value = c.value(t.Value)
		c.depth--
	}
	return t
}

// Kinds of values. A scalar has its number in the table, behind kindScalar.
const (
	kindRef = iota
	kindArray
	kindObject
	kindSet
	kindArrayComprehension
	kindSetComprehension
	kindObjectComprehension
	kindScalar
)

// value codes a value: a scalar, or the terms of another value and the body of a
// comprehension.
func (c *coder) value(v ast.Value) ast.Value {
	var kind int
	var terms []*ast.Term
	var body ast.Body
	if !c.reading {
		if kind, terms, body = partsOf(v); kind == kindScalar {
			kind += numbered(c, v, v, &c.scalars)
		} else if kind < 0 {
			c.fail("no value of the type %T is stored", v)
			return v
		}
	}
	if kind = c.number(kind); kind >= kindScalar {
		if kind -= kindScalar; kind < len(c.scalars) {
			return c.scalars[kind]
		}
		c.fail("an unknown scalar")
		return ast.Null{}
	}
	if terms = c.terms(terms); kind >= kindArrayComprehension {
		body = c.body(body)
	}
	if c.reading {
		return c.compound(kind, terms, body)
	}
	return v
}

// partsOf returns the kind, the terms and the body of a value. The kind of a value that the
// form cannot hold is negative.
func partsOf(v ast.Value) (kind int, terms []*ast.Term, body ast.Body) {
	each := func(t *ast.Term) { terms = append(terms, t) }
	switch x := v.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String, ast.Var:
		return kindScalar, nil, nil
	case ast.Ref:
		return kindRef, x, nil
	case *ast.Array:
		x.Foreach(each)
		return kindArray, terms, nil
	case ast.Object:
		x.Foreach(func(k, v *ast.Term) { terms = append(terms, k, v) })
		return kindObject, terms, nil
	case ast.Set:
		x.Foreach(each)
		return kindSet, terms, nil
	case *ast.ArrayComprehension:
		return kindArrayComprehension, []*ast.Term{x.Term}, x.Body
	case *ast.SetComprehension:
		return kindSetComprehension, []*ast.Term{x.Term}, x.Body
	case *ast.ObjectComprehension:
		return kindObjectComprehension, []*ast.Term{x.Key, x.Value}, x.Body
	}
	return -1, nil, nil
}

// compound returns the value of a kind that is no scalar.
func (c *coder) compound(kind int, terms []*ast.Term, body ast.Body) ast.Value {
	least := 0
	switch kind {
	case kindRef, kindArrayComprehension, kindSetComprehension:
		least = 1
	case kindObjectComprehension:
		least = 2
	}
	if c.fault != "" || len(terms) < least {
		c.fail("a value without its terms")
		return ast.Null{}
	}
	switch kind {
	case kindRef:
		return ast.Ref(terms)
	case kindArray:
		return ast.NewArray(terms...)
	case kindObject:
		var pairs [][2]*ast.Term
		for i := 1; i < len(terms); i += 2 {
			pairs = append(pairs, [2]*ast.Term{terms[i-1], terms[i]})
		}
		return ast.NewObject(pairs...)
	case kindSet:
		return ast.NewSet(terms...)
	case kindArrayComprehension:
		return &ast.ArrayComprehension{Term: terms[0], Body: body}
	case kindSetComprehension:
		return &ast.SetComprehension{Term: terms[0], Body: body}
	}
	return &ast.ObjectComprehension{Key: terms[0], Value: terms[1], Body: body}
}
