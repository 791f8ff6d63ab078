package conformance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// A FileError says where a file of vectors is wrong.
type FileError struct {
	File    string
	Pointer string // JSON Pointer of the wrong value; "" is the whole file
	Msg     string
	Cause   error // the wrapped error, or nil
}

// Error returns the message.
func (e *FileError) Error() string {
	at := e.File
	if e.Pointer != "" {
		at += ": " + e.Pointer
	}
	return at + ": " + e.Msg
}

// Unwrap returns the wrapped error.
func (e *FileError) Unwrap() error { return e.Cause }

// node is a value of a document and its place.
type node struct {
	pointer string
	value   any
}

func (n node) fault(format string, args ...any) error {
	return &FileError{Pointer: n.pointer, Msg: fmt.Sprintf(format, args...)}
}

// A field reads a value, or says what is wrong with it.
type field func(node) error

// object reads an object with the given members; those in required must exist. Members
// are read in the order of their names, so of several faults always the same one is
// reported.
func object(required []string, members map[string]field) field {
	return func(n node) error {
		obj, ok := n.value.(map[string]any)
		if !ok {
			return n.fault("must be an object")
		}
		for _, name := range required {
			if _, ok := obj[name]; !ok {
				return n.fault("lacks the member %q", name)
			}
		}
		for _, name := range canon.Names(obj) {
			at := node{canon.Pointer(n.pointer, name), obj[name]}
			take := members[name]
			if take == nil {
				msg := "unknown member " + strconv.Quote(name)
				if near := specs.Nearest(name, slices.Sorted(maps.Keys(members))); near != "" {
					msg += ", did you mean " + strconv.Quote(near) + "?"
				}
				return at.fault("%s", msg)
			}
			if err := take(at); err != nil {
				return err
			}
		}
		return nil
	}
}

// named reads an object whose members may have any name; those in required must exist.
func named(take func(name string) field, required ...string) field {
	return func(n node) error {
		members := map[string]field{}
		obj, _ := n.value.(map[string]any)
		for name := range obj {
			members[name] = take(name)
		}
		return object(required, members)(n)
	}
}

// each reads the elements of a list one by one.
func each(take field) field {
	return func(n node) error {
		list, ok := n.value.([]any)
		if !ok {
			return n.fault("must be a list")
		}
		for i, v := range list {
			if err := take(node{canon.Pointer(n.pointer, strconv.Itoa(i)), v}); err != nil {
				return err
			}
		}
		return nil
	}
}

// textAs reads a text, and stores what parse makes of it. The error of parse is the fault of
// the text.
func textAs[T any](to *T, parse func(string) (T, error)) field {
	return func(n node) error {
		s, ok := n.value.(string)
		if !ok {
			return n.fault("must be a string")
		}
		v, err := parse(s)
		if err != nil {
			return n.fault("%s", err)
		}
		*to = v
		return nil
	}
}

func text(to *string) field {
	return textAs(to, func(s string) (string, error) { return s, nil })
}

// ignored reads a text for people, and drops it.
func ignored() field { return text(new(string)) }

// some reads a text that is not empty.
func some(to *string) field {
	return textAs(to, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("must not be empty")
		}
		return s, nil
	})
}

// oneOf reads one of a few words.
func oneOf(to *string, words ...string) field {
	return textAs(to, func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fmt.Errorf("%q is none of %q", canon.Cut(s), words)
		}
		return s, nil
	})
}

// listOf reads a list. take reads an element.
func listOf[T any](to *[]T, take func(*T) field) field {
	return func(n node) error {
		*to = []T{}
		return each(func(n node) error {
			var one T
			err := take(&one)(n)
			*to = append(*to, one)
			return err
		})(n)
	}
}

func texts(to *[]string) field { return listOf(to, text) }

// encoded reads base64 of any bytes, and stores the bytes as a string.
func encoded(to *string) field {
	return textAs(to, func(s string) (string, error) {
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil {
			return "", errors.New("is not base64 with padding")
		}
		return string(b), nil
	})
}

// whole reads a whole number from least to most, in any spelling of JSON, as 1e3.
func whole(to *int, least, most int) field {
	return func(n node) error {
		num, ok := n.value.(json.Number)
		f, err := strconv.ParseFloat(string(num), 64)
		if !ok || err != nil || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
			return n.fault("must be a whole number from %d to %d", least, most)
		}
		*to = int(f)
		return nil
	}
}

func boolean(to *bool) field {
	return func(n node) error {
		b, ok := n.value.(bool)
		if !ok {
			return n.fault("must be true or false")
		}
		*to = b
		return nil
	}
}

// given reads a value and notes that it exists.
func given[T any](to **T, take func(*T) field) field {
	return func(n node) error {
		*to = new(T)
		return take(*to)(n)
	}
}
