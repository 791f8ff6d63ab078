// Package params reads schemas of parameters, in a closed vocabulary of JSON Schema, and checks
// decoded values by them.
package params

import (
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// vocabulary has the keywords of a schema of parameters. Any other keyword is a fault, so
// that no rule is written down and not applied. description says nothing about a value.
var vocabulary = []string{"additionalProperties", "const", "description", "enum", "format", "items", "maxItems", "maxLength", "maximum",
	"minItems", "minLength", "minimum", "pattern", "properties", "required", "type"}

// maxPattern and maxSteps are the most bytes of a pattern, and the most steps of the program
// that it is compiled to. To match a value takes the time of both lengths multiplied.
const maxPattern, maxSteps = 1000, 2500

// A Fault is an error of a document that its schema in package specs cannot find.
type Fault struct {
	Pointer string // JSON Pointer into the document
	Msg     string // lower-case
	Hint    string // what to do, or empty
}

// Error returns the message behind the pointer.
func (f *Fault) Error() string { return f.Pointer + ": " + f.Msg }

// Schema is a schema of parameters that was read.
type Schema struct {
	Types      any            `json:"type"` // a name, or a list of names
	Enum       []any          `json:"enum"`
	Const      any            `json:"const"`
	Required   []string       `json:"required"`
	Properties map[string]any `json:"properties"`
	Other      any            `json:"additionalProperties"` // a schema, or false
	Items      any            `json:"items"`
	Minimum    any            `json:"minimum"`
	Maximum    any            `json:"maximum"`
	MinItems   *int           `json:"minItems"`
	MaxItems   *int           `json:"maxItems"`
	MinLength  *int           `json:"minLength"`
	MaxLength  *int           `json:"maxLength"`
	Pattern    *string        `json:"pattern"`
	Format     string         `json:"format"`
	About      string         `json:"description"`

	types      []string
	values     map[string]bool // of enum, in canonical form
	constant   string          // in canonical form, or empty
	properties map[string]*Schema
	other      *Schema
	closed     bool
	items      *Schema
	pattern    *regexp.Regexp
	low, high  *float64
}

var schemaDecoder canon.Decoder[Schema]

// New reads a schema of parameters at a pointer of its document. The error is a *Fault.
func New(at string, v any) (*Schema, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, &Fault{at, "a schema is not an object", "write an object with type, properties and so on"}
	}
	for _, name := range canon.Names(m) {
		if !slices.Contains(vocabulary, name) {
			return nil, &Fault{canon.Pointer(at, name), "unknown keyword " + canon.Quote(name), "a schema of parameters may hold " + strings.Join(vocabulary, ", ")}
		}
	}
	s, err := schemaDecoder.Decode(v)
	if de, wrong := errors.AsType[*canon.DecodeError](err); wrong {
		return nil, &Fault{at + de.Pointer, de.Msg, ""}
	}
	if s.Enum != nil {
		s.values = map[string]bool{}
		for _, one := range s.Enum {
			s.values[Shown(one)] = true
		}
	}
	if v, given := m["const"]; given {
		s.constant = Shown(v)
	}
	for _, part := range []func(string) error{s.readTypes, s.readNumbers, s.readText} {
		if err := part(at); err != nil {
			return nil, err
		}
	}
	return s, s.readInner(at, m)
}

func (s *Schema) readTypes(at string) error {
	switch t := s.Types.(type) {
	case nil:
	case string:
		s.types = []string{t}
	case []any:
		for _, one := range t {
			name, _ := one.(string)
			s.types = append(s.types, name)
		}
	default:
		return &Fault{at + "/type", "neither a name nor a list of names", ""}
	}
	for _, name := range s.types {
		if !slices.Contains([]string{"array", "boolean", "integer", "null", "number", "object", "string"}, name) {
			return &Fault{at + "/type", "no type " + canon.Quote(name), "use string, number, integer, boolean, array, object or null"}
		}
	}
	return nil
}

func (s *Schema) readNumbers(at string) error {
	for _, bound := range []struct {
		name  string
		value any
		to    **float64
	}{{"minimum", s.Minimum, &s.low}, {"maximum", s.Maximum, &s.high}} {
		if bound.value == nil {
			continue
		}
		n, ok := number(bound.value)
		if !ok {
			return &Fault{at + "/" + bound.name, "not a number", ""}
		}
		*bound.to = &n
	}
	for _, bound := range []struct {
		name string
		n    *int
	}{{"minItems", s.MinItems}, {"maxItems", s.MaxItems}, {"minLength", s.MinLength}, {"maxLength", s.MaxLength}} {
		if bound.n != nil && *bound.n < 0 {
			return &Fault{at + "/" + bound.name, "below zero", ""}
		}
	}
	return nil
}

func (s *Schema) readText(at string) error {
	if s.Format != "" && s.Format != "path" {
		return &Fault{at + "/format", "unknown format " + canon.Quote(s.Format), `only "path" has a meaning`}
	}
	if s.Pattern == nil {
		return nil
	}
	large := &Fault{at + "/pattern", "a pattern that is too large: it may have " + strconv.Itoa(maxPattern) + " bytes, and " + strconv.Itoa(maxSteps) + " steps when its repetitions are written out", "limit the length of a value by maxLength"}
	if len(*s.Pattern) > maxPattern {
		return large
	}
	parsed, err := syntax.Parse(*s.Pattern, syntax.Perl)
	if err == nil {
		s.pattern, err = regexp.Compile(*s.Pattern)
	}
	if err != nil {
		return &Fault{at + "/pattern", "not a pattern of RE2: " + canon.Clean(canon.Cut(err.Error())), "see https://github.com/google/re2/wiki/Syntax"}
	}
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxSteps {
		return large
	}
	return nil
}

func (s *Schema) readInner(at string, m map[string]any) (err error) {
	s.properties = map[string]*Schema{}
	for _, name := range canon.Names(s.Properties) {
		if s.properties[name], err = New(canon.Pointer(at+"/properties", name), s.Properties[name]); err != nil {
			return err
		}
	}
	switch other := s.Other.(type) {
	case bool:
		s.closed = !other
	case nil:
		if _, given := m["additionalProperties"]; given {
			return &Fault{at + "/additionalProperties", "neither a schema nor true or false", ""}
		}
	default:
		if s.other, err = New(at+"/additionalProperties", other); err != nil {
			return err
		}
	}
	if _, given := m["items"]; given {
		s.items, err = New(at+"/items", s.Items)
	}
	return err
}

// number reads a decoded number as the double that it is.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// TypeOf returns the JSON type of a decoded value, "integer" for a whole number, or "".
func TypeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

// Check calls refuse for every place at which a value breaks the schema.
func (s *Schema) Check(at string, v any, refuse func(at, value, why string)) {
	kind := TypeOf(v)
	if s.types != nil && !slices.Contains(s.types, kind) && (kind != "integer" || !slices.Contains(s.types, "number")) {
		refuse(at, kind, "not of type "+strings.Join(s.types, " or "))
		return
	}
	if s.values != nil && !s.values[Shown(v)] {
		refuse(at, Shown(v), "not in the list of the schema")
	}
	if s.constant != "" && Shown(v) != s.constant {
		refuse(at, Shown(v), "not the constant of the schema")
	}
	switch v := v.(type) {
	case json.Number:
		f, ok := number(v)
		if !ok || s.low != nil && f < *s.low || s.high != nil && f > *s.high {
			refuse(at, string(v), "outside the bounds of the schema")
		}
	case string:
		s.checkText(at, v, refuse)
	case []any:
		if outside(len(v), s.MinItems, s.MaxItems) {
			refuse(at, strconv.Itoa(len(v)), "not a number of elements that the schema allows")
		}
		for i := 0; s.items != nil && i < len(v); i++ {
			s.items.Check(below(at, strconv.Itoa(i)), v[i], refuse)
		}
	case map[string]any:
		s.checkObject(at, v, refuse)
	}
}

func (s *Schema) checkText(at, v string, refuse func(at, value, why string)) {
	if outside(utf8.RuneCountInString(v), s.MinLength, s.MaxLength) {
		refuse(at, v, "not of a length that the schema allows")
	} else if s.pattern != nil && !s.pattern.MatchString(v) {
		refuse(at, v, "does not match the pattern of the schema")
	}
	if s.Format == "path" {
		if _, bad := contract.CheckPath(at, v); bad != nil {
			refuse(at, v, bad.ID+": "+bad.Msg)
		}
	}
}

func (s *Schema) checkObject(at string, v map[string]any, refuse func(at, value, why string)) {
	for _, name := range s.Required {
		if _, there := v[name]; !there {
			refuse(at, name, "missing")
		}
	}
	for _, name := range canon.Names(v) {
		place := below(at, name)
		switch inner := s.properties[name]; {
		case inner != nil:
			inner.Check(place, v[name], refuse)
		case s.closed:
			refuse(place, name, "not a member that the schema allows")
		case s.other != nil:
			s.other.Check(place, v[name], refuse)
		}
	}
}

// below returns the pointer of a member or an element. A long pointer stays as it is, so that
// long names do not multiply.
func below(at, token string) string {
	if len(at) > 1024 {
		return at
	}
	return canon.Pointer(at, canon.Cut(token))
}

func outside(n int, low, high *int) bool { return low != nil && n < *low || high != nil && n > *high }

// Shown returns the canonical form of a decoded value.
func Shown(v any) string {
	b, err := canon.Canonical(v)
	if err != nil {
		return ""
	}
	return string(b)
}
