package specs

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// shape is a schema's description of one place, in a form that can be walked beside a
// value. It has three uses. It names the known members of a place, for violations. It
// counts the minimum number of faults of a value, so that a crowded document can be
// shortened before its validation. Walk validates by it. A nil shape means free data.
type shape struct {
	types   []string
	members []member // sorted by name
	closed  bool     // no other members
	other   *shape   // shape of the values of other members
	naming  *shape   // shape of the names of other members
	items   *shape
	text    string // the schema's description

	minItems, maxItems, maxMembers, minLength, maxLength int // -1 if there is no limit

	low, high int64 // bounds of a number
	form      *form // form of the texts, nil for any
	enum      []any // allowed values, nil for any

	// branches have the members that depend on the value of one member.
	branches []branch
	// either is a list of members. One of them must exist.
	either []string
	clash  []clash
}

// clash names a member that must not stand beside another.
type clash struct{ name, beside string }

// member is a member of an object that the schema names.
type member struct {
	name     string
	required bool
	shape    *shape
}

// branch is the shape for an object whose member has that value. Without a value, it is for
// every object that has the member, and without a member, for every other object.
type branch struct {
	member, value string
	then          *shape
}

// shaper builds the shapes of one schema, each definition once.
type shaper struct {
	root  map[string]any
	defs  map[string]*shape
	under []string // the references that are being followed
}

func newShape(root map[string]any) (*shape, error) {
	b := &shaper{root: root, defs: map[string]*shape{}}
	return b.build(root)
}

// reference resolves "#/definitions/NAME", the only form of reference that the
// schemas use.
func (b *shaper) reference(ref string) (*shape, error) {
	if s, ok := b.defs[ref]; ok {
		return s, nil
	}
	if slices.Contains(b.under, ref) {
		return nil, fmt.Errorf("reference %q leads to itself", ref)
	}
	name, ok := strings.CutPrefix(ref, "#/definitions/")
	if !ok {
		return nil, errRemote
	}
	defs, _ := b.root["definitions"].(map[string]any)
	node, ok := defs[name]
	if !ok {
		return nil, fmt.Errorf("reference %q leads nowhere", ref)
	}
	b.under = append(b.under, ref)
	s, err := b.build(node)
	b.under = b.under[:len(b.under)-1]
	b.defs[ref] = s
	return s, err
}

func (b *shaper) build(node any) (*shape, error) {
	m, ok := node.(map[string]any)
	if _, described := m["description"]; !ok || described && len(m) == 1 {
		return nil, nil
	}
	if ref, ok := m["$ref"].(string); ok {
		return b.reference(ref)
	}
	m = union(m)
	s := &shape{
		types:  typeNames(m["type"]),
		either: alternatives(m["anyOf"]), clash: clashes(m["dependencies"]),
		minItems: bound(m["minItems"]), maxItems: bound(m["maxItems"]), maxMembers: bound(m["maxProperties"]),
		minLength: bound(m["minLength"]), maxLength: bound(m["maxLength"]),
		low: limit(m["minimum"], math.MinInt64), high: limit(m["maximum"], math.MaxInt64),
	}
	s.enum, _ = m["enum"].([]any)
	if value, fixed := m["const"]; fixed {
		s.enum = []any{value}
	}
	if pattern, ok := m["pattern"].(string); ok {
		s.form = &form{pattern: pattern}
	}
	s.text, _ = m["description"].(string)
	if err := b.object(s, m); err != nil {
		return nil, err
	}
	var err error
	if s.items, err = b.build(m["items"]); err != nil {
		return nil, err
	}
	return s, b.choices(s, m)
}

// union returns a node that chooses between types by conditions as a node with all of these
// types and their keywords. Each keyword belongs to one type. The schemas have no list of
// types but with null, because the strict mode of ajv refuses it.
func union(m map[string]any) map[string]any {
	kind, _ := m["if"].(map[string]any)
	if m["type"] != nil || kind["type"] == nil {
		return m
	}
	whole, list := maps.Clone(m), []any{}
	maps.DeleteFunc(whole, func(name string, _ any) bool { return slices.Contains([]string{"if", "then", "else"}, name) })
	then, _ := m["then"].(map[string]any)
	other, _ := m["else"].(map[string]any)
	for _, one := range []map[string]any{then, union(other)} {
		maps.Copy(whole, one)
		list = append(list, canon.List(typeNames(one["type"]))...)
	}
	whole["type"] = list
	return whole
}

func (b *shaper) object(s *shape, m map[string]any) error {
	props, _ := m["properties"].(map[string]any)
	required := texts(m["required"])
	for _, name := range canon.Names(props) {
		inner, err := b.build(props[name])
		if err != nil {
			return err
		}
		s.members = append(s.members, member{name, slices.Contains(required, name), inner})
	}
	s.closed = m["additionalProperties"] == false
	var err error
	if s.other, err = b.build(m["additionalProperties"]); err != nil {
		return err
	}
	s.naming, err = b.build(m["propertyNames"])
	return err
}

// choices reads a chain of if, then and else. Each condition asks for one value of one member,
// or for a member. An else without a condition is the last.
func (b *shaper) choices(s *shape, m map[string]any) error {
	for link := m; link != nil; link, _ = link["else"].(map[string]any) {
		cond, conditional := link["if"].(map[string]any)
		then := link["then"]
		one := branch{}
		props, _ := cond["properties"].(map[string]any)
		for _, name := range texts(cond["required"]) {
			sub, _ := props[name].(map[string]any)
			one.member = name
			one.value, _ = sub["const"].(string)
		}
		if !conditional {
			then = link
		}
		if one.member == "" && s.branches == nil {
			continue // no chain at all
		}
		var err error
		if one.then, err = b.build(then); err != nil {
			return err
		}
		s.branches = append(s.branches, one)
	}
	return nil
}

// in returns the shape for v: the shape of v's branch, if it has one.
func (s *shape) in(v any) *shape {
	if s == nil || len(s.branches) == 0 {
		return s
	}
	obj, isObject := v.(map[string]any)
	for _, b := range s.branches {
		value, has := obj[b.member]
		if isObject && b.member == "" || has && (b.value == "" || value == any(b.value)) {
			return b.then
		}
	}
	return s
}

// find returns the index of the member with that name, and whether the schema names it.
func (s *shape) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.members, name, func(m member, name string) int { return canon.Compare(m.name, name) })
}

// knows says whether s has the member by its name.
func (s *shape) knows(name string) bool {
	_, known := s.find(name)
	return known
}

// member returns the shape of the member with that name. It returns nil if the member is
// free or unknown.
func (s *shape) member(name string) *shape {
	if i, known := s.find(name); known {
		return s.members[i].shape
	}
	return s.other
}

// at follows tokens from s and v. It returns the shape and the value there; the shape is
// the one before a branch is chosen. Both are nil if the path ends early.
func (s *shape) at(v any, tokens []string) (*shape, any) {
	for _, token := range tokens {
		s = s.in(v)
		if s == nil {
			return nil, nil
		}
		switch c := v.(type) {
		case map[string]any:
			s, v = s.member(token), c[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(c) {
				return nil, nil
			}
			s, v = s.items, c[i]
		default:
			return nil, nil
		}
	}
	return s, v
}

// admits says whether the shape allows values of v's type. All numbers count as one
// type: admits accepts 1.5 for an integer.
func (s *shape) admits(v any) bool {
	if len(s.types) == 0 {
		return true
	}
	name := typeOf(v)
	return slices.Contains(s.types, name) || name == "number" && slices.Contains(s.types, "integer")
}

// fits says whether a string has a length that the shape allows.
func (s *shape) fits(v string) bool {
	if len(v) <= s.maxLength && s.minLength <= 0 {
		return true
	}
	n := utf8.RuneCountInString(v)
	return n >= s.minLength && (s.maxLength < 0 || n <= s.maxLength)
}

// takes says whether the shape of a string allows it.
func (s *shape) takes(text string) bool {
	if s.enum != nil {
		return slices.ContainsFunc(s.enum, func(one any) bool { return one == text })
	}
	return s.fits(text) && (s.form == nil || s.form.fits(text))
}

// typeOf returns the JSON type of a decoded value, or "" if it has none.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

func typeNames(v any) []string {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	return texts(v)
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func bound(v any) int {
	num, ok := v.(json.Number)
	n, err := strconv.Atoi(string(num))
	if !ok || err != nil {
		return -1
	}
	return n
}

func limit(v any, none int64) int64 {
	if n, ok := canon.Whole(v); ok {
		return n
	}
	return none
}

// alternatives reads anyOf where each choice is one required member.
func alternatives(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		item, _ := item.(map[string]any)
		out = append(out, texts(item["required"])...)
	}
	return out
}

// clashes reads dependencies that forbid a member next to another.
func clashes(v any) (list []clash) {
	deps, _ := v.(map[string]any)
	for _, present := range canon.Names(deps) {
		sub, _ := deps[present].(map[string]any)
		props, _ := sub["properties"].(map[string]any)
		for _, name := range canon.Names(props) {
			if props[name] == false {
				list = append(list, clash{name, present})
			}
		}
	}
	return list
}

// beside returns the member beside which a member must not stand, or "".
func (s *shape) beside(name string) string {
	for _, c := range s.clash {
		if c.name == name {
			return c.beside
		}
	}
	return ""
}
