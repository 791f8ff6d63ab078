package specs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/text"
	"github.com/fiador/fiador/lazy"
)

// separator separates the names of a path in the library's errors. A member name may
// contain every character, NUL and dot included. Canonical text is UTF-8, so it never
// contains this byte.
const separator = "\xff"

// keywordOf holds the schema keyword for the library's name of an error. An error without
// a keyword is not needed: it only says that a part of the schema failed, and the errors
// of that part are reported too.
var keywordOf = lazy.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"required": "required", "const": "const", "enum": "enum", "pattern": "pattern", "invalid_type": "type",
		"false": "dependencies", "number_any_of": "anyOf",
		"additional_property_not_allowed": "additionalProperties", "invalid_property_name": "propertyNames",
		"array_min_items": "minItems", "array_max_items": "maxItems", "array_max_properties": "maxProperties",
		"string_gte": "minLength", "string_lte": "maxLength", "number_gte": "minimum", "number_lte": "maximum",
	}
}}

// place is the place of one error of the library.
type place struct {
	parent *shape   // of the object or list that contains it, nil at the root
	shape  *shape   // nil if the schema says nothing about the place
	rivals []branch // the branches that include shape
	value  any
	tokens []string
}

// violations translates the library's errors into violations, in order. root is the
// whole document; it gives the length of a list that was shortened.
func (s *schema) violations(root any, faults []gojsonschema.ResultError) []Violation {
	list := make([]Violation, 0, len(faults))
	for _, f := range faults {
		rule := keywordOf.Get()[f.Type()]
		if rule == "" {
			continue
		}
		if v, ok := s.place(root, f).violation(rule, f.Details()); ok {
			list = append(list, v)
		}
	}
	// The library's order at one place is kept, because it is the order of its source.
	// The order of places depends on the order of a Go map, so places are sorted.
	slices.SortStableFunc(list, func(a, b Violation) int { return canon.Compare(a.Pointer, b.Pointer) })
	list = slices.CompactFunc(list, repeats)
	for i := range list {
		list[i].Pointer = canon.Cut(list[i].Pointer)
	}
	return list
}

func (s *schema) place(root any, f gojsonschema.ResultError) place {
	p := place{tokens: strings.Split(f.Context().String(separator), separator)[1:]}
	if n := len(p.tokens); n > 0 {
		around, v := s.shape.at(root, p.tokens[:n-1])
		p.parent = around.in(v)
	}
	here, v := s.shape.at(root, p.tokens)
	p.shape, p.value = here.in(v), v
	if here != nil {
		p.rivals = here.branches
	}
	return p
}

// repeats says whether b adds nothing to a. One violation is enough for a value that is
// not an object or a list, and a schema may have one rule twice.
func repeats(a, b Violation) bool {
	return a == b || a.Pointer == b.Pointer && ofScalar(a.Rule) && ofScalar(b.Rule)
}

func ofScalar(rule string) bool {
	switch rule {
	case "type", "const", "enum", "minLength", "maxLength", "pattern", "minimum", "maximum":
		return true
	}
	return false
}

func (p place) pointer() string {
	pointer := ""
	for _, token := range p.tokens {
		pointer = canon.Pointer(pointer, token)
	}
	return pointer
}

// violation translates one error. It returns false if another error says the same
// better.
func (p place) violation(rule string, d gojsonschema.ErrorDetails) (Violation, bool) {
	v := Violation{Pointer: p.pointer(), Rule: rule}
	name, _ := d["property"].(string)
	switch rule {
	case "required":
		if p.shape != nil && slices.Contains(p.shape.either, name) {
			return v, false
		}
		v.Msg, v.Member = "missing member "+strconv.Quote(name), name
	case "anyOf":
		v.Msg = "missing member " + p.either()
	case "dependencies":
		last := p.tokens[len(p.tokens)-1]
		v.Msg = canon.Quote(last) + " cannot stand next to " + strconv.Quote(p.parent.beside(last))
	case "additionalProperties":
		v.Pointer = canon.Pointer(v.Pointer, name)
		v.Msg, v.Near = p.unknown(name)
		v.Member = name
	case "propertyNames":
		v.Pointer = canon.Pointer(v.Pointer, name)
		v.Msg = canon.Quote(name) + " does not fit as a name" + p.shape.naming.reason()
	case "type":
		v.Msg = "must be " + p.wanted() + ", not " + given(p.value)
	default:
		return p.scalar(v, d)
	}
	return v, true
}

func (p place) scalar(v Violation, d gojsonschema.ErrorDetails) (Violation, bool) {
	text, isText := p.value.(string)
	switch v.Rule {
	case "const", "enum":
		allowed, _ := d["allowed"].(string)
		if v.Rule == "enum" && strings.Contains(allowed, ", ") {
			allowed = "one of " + allowed
		}
		v.Msg = "must be " + allowed + ", not " + given(p.value)
	case "minLength", "maxLength", "pattern":
		// The library reports a member name as if it were its object's value; the error
		// of propertyNames has reported it already.
		if !isText {
			return v, false
		}
		v.Msg = p.text(v.Rule, text, d)
	case "minimum":
		v.Msg = "must be at least " + number(d["min"]) + ", not " + given(p.value)
	case "maximum":
		v.Msg = "must be at most " + number(d["max"]) + ", not " + given(p.value)
	case "minItems":
		v.Msg = fmt.Sprintf("has %s, needs at least %v", size(p.value), d["min"])
	case "maxItems", "maxProperties":
		v.Msg = fmt.Sprintf("has %s, may have at most %v", size(p.value), d["max"])
	}
	return v, true
}

func (p place) text(rule, text string, d gojsonschema.ErrorDetails) string {
	switch {
	case p.shape != nil && p.shape.form != nil && slices.Contains(p.shape.types, "array"):
		return `must be a list, or "*" for all, not ` + given(text)
	case rule == "minLength" && text == "":
		return "is empty"
	case rule == "minLength":
		return fmt.Sprintf("has %d characters, needs at least %v", utf8.RuneCountInString(text), d["min"])
	case rule == "maxLength":
		return fmt.Sprintf("has %d characters, may have at most %v", utf8.RuneCountInString(text), d["max"])
	}
	return canon.Quote(text) + " does not fit" + p.shape.reason()
}

// either returns a choice of members as text: "a" or "b".
func (p place) either() string {
	if p.shape == nil {
		return ""
	}
	quoted := make([]string, len(p.shape.either))
	for i, name := range p.shape.either {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, " or ")
}

// unknown returns the message about an unknown member, and the nearest known name.
func (p place) unknown(name string) (msg, near string) {
	msg = "unknown member " + canon.Quote(name)
	if p.shape == nil {
		return msg, ""
	}
	for _, b := range p.rivals {
		if b.value != "" && b.then != nil && b.then.knows(name) {
			return msg + "; it belongs to " + b.member + " " + strconv.Quote(b.value), ""
		}
	}
	obj, _ := p.value.(map[string]any)
	names := make([]string, len(p.shape.members))
	for i, m := range p.shape.members {
		names[i] = m.name
	}
	if near = text.Nearest(name, names, obj); near != "" {
		msg += "; did you mean " + strconv.Quote(near) + "?"
	}
	return msg, near
}

// reason returns the schema's text about a place, as the end of a message.
func (s *shape) reason() string {
	if s == nil || s.text == "" {
		return ""
	}
	return ": " + strings.ToLower(s.text[:1]) + strings.TrimSuffix(s.text[1:], ".")
}

// wanted returns the types that a place allows, as text.
func (p place) wanted() string {
	if p.shape == nil {
		return "something else"
	}
	words := make([]string, len(p.shape.types))
	for i, t := range p.shape.types {
		words[i] = article(t)
	}
	return strings.Join(words, " or ")
}

// articles holds the words for the types whose words are not "a" and their names.
var articles = lazy.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"array": "a list", "boolean": "true or false", "integer": "a whole number", "null": "null", "object": "an object",
	}
}}

// article returns a JSON type as text.
func article(jsonType string) string { return cmp.Or(articles.Get()[jsonType], "a "+jsonType) }

// given returns a value as text: strings and numbers unchanged, the rest by type.
func given(v any) string {
	switch v := v.(type) {
	case string:
		return canon.Quote(v)
	case json.Number:
		return canon.Cut(string(v))
	case bool:
		return strconv.FormatBool(v)
	}
	return article(typeOf(v))
}

// size returns the size of a list or an object as text.
func size(v any) string {
	n, one, many := 0, "entry", "entries"
	switch v := v.(type) {
	case []any:
		n = len(v)
	case map[string]any:
		n, one, many = len(v), "member", "members"
	}
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// number returns a bound as text. The library stores it as a float.
func number(v any) string {
	if f, ok := v.(*big.Float); ok {
		return f.Text('f', -1)
	}
	return fmt.Sprint(v)
}

// Nearest returns the entry of known that is the most likely correct spelling of name,
// or "".
func Nearest(name string, known []string) string { return text.Nearest(name, known, nil) }

// Suggest returns the end of a message about a wrong name: the nearest known name, or
// else all of them.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return "; one of: " + canon.Cut(strings.Join(known, ", "))
}
