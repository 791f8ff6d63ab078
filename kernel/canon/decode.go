package canon

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Decoder reads decoded documents (Document.Value) into values of one type. A
// decoder is a package variable beside the type. The zero Decoder is ready to use:
// its first use examines the type and stores the result.
type Decoder[T any] struct {
	once sync.Once
	fill filler
}

// A DecodeError says where a document does not fit the type, and why.
type DecodeError struct {
	Pointer string
	Msg     string
}

// Error returns the message behind the pointer.
func (e *DecodeError) Error() string { return e.Pointer + ": " + e.Msg }

// Decode reads v into a new value. It refuses a member that the type does not have,
// and a value of another type. A field without a member stays zero: a schema says
// which members must exist, and within which bounds. The new value shares texts and
// objects with v.
func (d *Decoder[T]) Decode(v any) (*T, error) {
	to := new(T)
	if err := d.Into(to, v); err != nil {
		return nil, err
	}
	return to, nil
}

// Into reads v into to. A field without a member keeps its value, the default.
func (d *Decoder[T]) Into(to *T, v any) error {
	d.once.Do(func() { d.fill = fillerOf(reflect.TypeFor[T](), map[reflect.Type]*filler{}) })
	if err := d.fill(reflect.ValueOf(to).Elem(), v); err != nil {
		return err
	}
	return nil
}

// A filler reads a decoded value into a value of one type.
type filler func(to reflect.Value, v any) *DecodeError

func wrong(what string) *DecodeError { return &DecodeError{Msg: what} }

// inside adds a member or an element in front of an error's pointer.
func inside(token string, err *DecodeError) *DecodeError {
	err.Pointer = Pointer("", token) + err.Pointer
	return err
}

// fillerOf returns the filler of a type. known holds the struct types whose fillers
// are made or being made, so that a type may contain itself.
func fillerOf(t reflect.Type, known map[reflect.Type]*filler) filler {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[documentReader]()) {
		return fillOwn
	}
	switch t.Kind() {
	case reflect.String:
		return fillWith("not a string", reflect.Value.SetString)
	case reflect.Bool:
		return fillWith("neither true nor false", reflect.Value.SetBool)
	case reflect.Int, reflect.Int64:
		return fillInt
	case reflect.Pointer:
		return fillPointer(t.Elem(), fillerOf(t.Elem(), known))
	case reflect.Slice:
		return fillList(t, fillerOf(t.Elem(), known))
	case reflect.Struct:
		if f, made := known[t]; made {
			return func(to reflect.Value, v any) *DecodeError { return (*f)(to, v) }
		}
		f := new(filler)
		known[t] = f
		*f = fillStruct(t, known)
		return *f
	case reflect.Map:
		if t == reflect.TypeFor[map[string]any]() {
			return fillWith("not an object", func(to reflect.Value, v map[string]any) { to.Set(reflect.ValueOf(v)) })
		}
		if t.Key() == reflect.TypeFor[string]() {
			return fillMap(t, fillerOf(t.Elem(), known))
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return fillAny
		}
	}
	return func(reflect.Value, any) *DecodeError { return wrong("no document is read into a " + t.String()) }
}

// A documentReader reads itself from a decoded value, and returns what is wrong, or
// "". A type implements it if its documents have more than one form.
type documentReader interface{ ReadDocument(v any) string }

func fillOwn(to reflect.Value, v any) *DecodeError {
	if what := to.Addr().Interface().(documentReader).ReadDocument(v); what != "" {
		return wrong(what)
	}
	return nil
}

// fillWith returns the filler of a type whose decoded values are of type T. what is the
// error for any other value.
func fillWith[T any](what string, set func(to reflect.Value, v T)) filler {
	return func(to reflect.Value, v any) *DecodeError {
		t, ok := v.(T)
		if !ok {
			return wrong(what)
		}
		set(to, t)
		return nil
	}
}

func fillInt(to reflect.Value, v any) *DecodeError {
	n, ok := Whole(v)
	if !ok || to.OverflowInt(n) {
		return wrong("not a whole number")
	}
	to.SetInt(n)
	return nil
}

// fillMap returns the filler of a map with string keys. It fills the members in the order
// of Compare, so that of several faults the same one is always named.
func fillMap(t reflect.Type, element filler) filler {
	return func(to reflect.Value, v any) *DecodeError {
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("not an object")
		}
		to.Set(reflect.MakeMapWithSize(t, len(m)))
		for _, name := range Names(m) {
			one := reflect.New(t.Elem()).Elem()
			if err := element(one, m[name]); err != nil {
				return inside(name, err)
			}
			to.SetMapIndex(reflect.ValueOf(name), one)
		}
		return nil
	}
}

func fillAny(to reflect.Value, v any) *DecodeError {
	if v != nil {
		to.Set(reflect.ValueOf(v))
	}
	return nil
}

// fillPointer returns the filler of a pointer. A null leaves the pointer as it is.
func fillPointer(t reflect.Type, element filler) filler {
	return func(to reflect.Value, v any) *DecodeError {
		if v == nil {
			return nil
		}
		to.Set(reflect.New(t))
		return element(to.Elem(), v)
	}
}

func fillList(t reflect.Type, element filler) filler {
	return func(to reflect.Value, v any) *DecodeError {
		list, ok := v.([]any)
		if !ok {
			return wrong("not an array")
		}
		to.Set(reflect.MakeSlice(t, len(list), len(list)))
		for i, one := range list {
			if err := element(to.Index(i), one); err != nil {
				return inside(strconv.Itoa(i), err)
			}
		}
		return nil
	}
}

// fillStruct returns the filler of a struct. A field without a name in its json tag is no
// member. Of several unknown members, the error names the first by Compare.
func fillStruct(t reflect.Type, known map[reflect.Type]*filler) filler {
	type member struct {
		name string
		at   int
		fill filler
	}
	var members []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		members = append(members, member{name, i, fillerOf(f.Type, known)})
	}
	return func(to reflect.Value, v any) *DecodeError {
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("not an object")
		}
		read := 0
		for _, f := range members {
			one, there := m[f.name]
			if !there {
				continue
			}
			read++
			if err := f.fill(to.Field(f.at), one); err != nil {
				return inside(f.name, err)
			}
		}
		if read == len(m) {
			return nil
		}
		var extra []string
		for name := range m {
			if !slices.ContainsFunc(members, func(f member) bool { return f.name == name }) {
				extra = append(extra, name)
			}
		}
		first := slices.MinFunc(extra, Compare)
		return inside(first, wrong("unknown member "+strconv.Quote(Cut(first))))
	}
}

// Whole returns a whole number that every reader of JSON holds exactly.
func Whole(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, i >= -MaxSafeInteger && i <= MaxSafeInteger
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > MaxSafeInteger {
		return 0, false
	}
	return int64(f), true
}
