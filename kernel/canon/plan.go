package canon

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Plan writes the values of one type. It returns the bytes and the errors of
// Canonical. A plan is a package variable beside the type. The zero Plan is ready to
// use: its first use examines the type and stores the result.
type Plan[T any] struct {
	once sync.Once
	step step
}

// Canonical returns the canonical form of v, without a line feed at the end.
func (p *Plan[T]) Canonical(v *T) ([]byte, error) { return p.CanonicalIn(nil, v) }

// CanonicalIn is Canonical for a text that is needed for a short time alone. It overwrites
// room, and the text lies in room if it fits.
func (p *Plan[T]) CanonicalIn(room []byte, v *T) ([]byte, error) {
	p.once.Do(func() { p.step = stepOf(reflect.TypeFor[T](), map[reflect.Type]*step{}) })
	text, err := p.step(slices.Grow(room[:0], planBytes), reflect.ValueOf(v).Elem(), 1)
	if err != nil {
		return Transform(v) // which words the error
	}
	return text, nil
}

// planBytes is the first capacity of a text.
const planBytes = 1 << 10

// Artifact returns what the function Artifact returns for v.
func (p *Plan[T]) Artifact(v *T) ([]byte, ContentHash, error) { return artifact(p.Canonical(v)) }

// ArtifactIn is Artifact with the room of CanonicalIn.
func (p *Plan[T]) ArtifactIn(room []byte, v *T) ([]byte, ContentHash, error) {
	return artifact(p.CanonicalIn(room, v))
}

// ID returns what the function ID returns for v. It overwrites room, as CanonicalIn does.
func (p *Plan[T]) ID(room []byte, prefix string, v *T) (string, error) {
	_, sum, err := p.ArtifactIn(room, v)
	return id(prefix, sum, err)
}

// A step appends the canonical form of a value of one type. Its error means only
// that Transform must write the value, or say what is wrong with it.
type step func(dst []byte, v reflect.Value, depth int) ([]byte, error)

// appendOther appends a value of a type that appendValue does not know.
func appendOther(dst []byte, v any, depth int) ([]byte, error) {
	dst, err := stepOf(reflect.TypeOf(v), map[reflect.Type]*step{})(dst, reflect.ValueOf(v), depth)
	if err != nil {
		return nil, errNotPlain
	}
	return dst, nil
}

// stepOf returns the step of a type. known holds the struct types whose steps are
// made or being made, so that a type may contain itself.
func stepOf(t reflect.Type, known map[reflect.Type]*step) step {
	switch {
	case t == reflect.TypeFor[json.Number]():
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			return appendJSONNumber(dst, json.Number(v.String()))
		}
	case writesItself(t):
		return refuse
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			return strconv.AppendBool(dst, v.Bool()), nil
		}
	case reflect.String:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) { return appendString(dst, v.String()) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) { return appendInt(dst, v.Int()) }
	case reflect.Interface:
		return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			return appendValue(dst, v.Interface(), depth)
		}
	case reflect.Float64:
		return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			return appendValue(dst, v.Float(), depth)
		}
	case reflect.Pointer:
		return orNull(pointerStep(stepOf(t.Elem(), known)))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return orNull(listStep(stepOf(t.Elem(), known)))
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !writesItself(t.Key()) {
			return orNull(mapStep(stepOf(t.Elem(), known)))
		}
	case reflect.Struct:
		return structStep(t, known)
	}
	return refuse
}

func refuse([]byte, reflect.Value, int) ([]byte, error) { return nil, errNotPlain }

// writesItself says whether a type has an encoder of its own.
func writesItself(t reflect.Type) bool {
	type text interface{ MarshalText() ([]byte, error) }
	for _, own := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[text]()} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return t.Kind() != reflect.Interface
		}
	}
	return false
}

// orNull returns the step that writes null for a nil value, and otherwise takes the step s
// one level deeper. It refuses a value deeper than maxEncodeDepth.
func orNull(s step) step {
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		if depth > maxEncodeDepth {
			return nil, tooDeep()
		}
		return s(dst, v, depth+1)
	}
}

func pointerStep(to step) step {
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) { return to(dst, v.Elem(), depth) }
}

func listStep(element step) step {
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = element(dst, v.Index(i), depth); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
}

func mapStep(value step) step {
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return Compare(a.String(), b.String()) })
		dst = append(dst, '{')
		for i, key := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendString(dst, key.String()); err != nil {
				return nil, err
			}
			if dst, err = value(append(dst, ':'), v.MapIndex(key), depth); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
}

// field is a member of a struct.
type field struct {
	name  string
	start string // of the member's text: a comma, the name and a colon
	index []int
	omit  func(reflect.Value) bool // whether the member is left out; nil: never
	step  step
}

// structStep returns the step of a struct. A struct that fieldsOf refuses, or that has two
// members of one name, is left to encoding/json.
func structStep(t reflect.Type, known map[reflect.Type]*step) step {
	if made := known[t]; made != nil {
		return func(dst []byte, v reflect.Value, depth int) ([]byte, error) { return (*made)(dst, v, depth) }
	}
	made := new(step)
	known[t] = made
	fields, ok := fieldsOf(t, nil, known)
	slices.SortFunc(fields, func(a, b field) int { return Compare(a.name, b.name) })
	for i := range fields {
		ok = ok && (i == 0 || fields[i].name != fields[i-1].name)
	}
	*made = refuse
	if ok {
		*made = membersStep(fields)
	}
	return *made
}

// fieldsOf returns the members of a struct, with those of embedded structs. It
// returns false if only encoding/json can name or write a member.
func fieldsOf(t reflect.Type, at []int, known map[reflect.Type]*step) (list []field, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(at), i)
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			inner, ok := fieldsOf(f.Type, index, known)
			if !ok {
				return nil, false
			}
			list = append(list, inner...)
			continue
		case f.Anonymous && (name == "" || !f.IsExported()), strings.Trim(name, nameBytes) != "":
			return nil, false
		case name == "":
			name = f.Name
		}
		omit, ok := omission(options, f.Type)
		if !ok {
			return nil, false
		}
		list = append(list, field{name, `,"` + name + `":`, index, omit, stepOf(f.Type, known)})
	}
	return list, true
}

// nameBytes are the bytes of names that are valid in every tag.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

// membersStep returns the step that writes the members in the order of fields. Each member's
// text begins with a comma; the first comma becomes the opening brace.
func membersStep(fields []field) step {
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		if depth > maxEncodeDepth {
			return nil, tooDeep()
		}
		start := len(dst)
		for i := range fields {
			f := &fields[i]
			value := v.FieldByIndex(f.index)
			if f.omit != nil && f.omit(value) {
				continue
			}
			if dst, err = f.step(append(dst, f.start...), value, depth+1); err != nil {
				return nil, err
			}
		}
		if len(dst) == start {
			return append(dst, "{}"...), nil
		}
		dst[start] = '{'
		return append(dst, '}'), nil
	}
}

// omission returns the test for the values that an option of a tag leaves out.
func omission(option string, t reflect.Type) (omit func(reflect.Value) bool, ok bool) {
	switch _, own := t.MethodByName("IsZero"); option {
	case "":
		return nil, true
	case "omitempty":
		return empty, true
	case "omitzero":
		return reflect.Value.IsZero, !own
	}
	return nil, false
}

// empty says whether omitempty leaves a value out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
