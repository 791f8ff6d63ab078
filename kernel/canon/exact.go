package canon

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseCanonical reads a text that is its own canonical form, several times as fast
// as Parse. It succeeds exactly if Parse succeeds and the document's Bytes are src.
// The two documents are then equal. A line feed at the end does not belong to the
// canonical form: the caller removes the one of an artifact.
//
// The error is always an *Error. If Parse refuses the text, it is the error of
// Parse. Otherwise it has KindCanonical, and its Offset is the first byte at which
// src and its canonical form differ. ParseCanonical keeps no reference to src.
func ParseCanonical(src []byte, maxBytes int) (Document, error) {
	if len(src) <= maxBytes {
		if text, value, ok := readExact(src); ok {
			return Document{text: []byte(text), value: value}, nil
		}
	}
	doc, err := Parse(src, maxBytes)
	if err != nil {
		return Document{}, err
	}
	return Document{}, notCanonical(src, doc.text)
}

// notCanonical says where a text that Parse accepts differs from its canonical form,
// and how.
func notCanonical(src, want []byte) *Error {
	at := sharedPrefix(src, want)
	r := newReader(src, false)
	token := r.tokenAt(at)
	e := r.fail(KindCanonical, at, r.pointer(), "white space stands where canonical text has none; remove it")
	if r.atName() {
		e.Pointer = Cut(string(r.dec.StackPointer().Parent())) // a name is part of its object
	}
	if token == nil || r.start > at {
		return e
	}
	// All text before this token is equal, so the canonical token begins here too.
	wanted, err := jsontext.NewDecoder(bytes.NewBuffer(want[r.start:])).ReadValue()
	switch {
	case err != nil:
		e.Msg, e.err = "the text is not in canonical form", err
	case token[0] != '"':
		e.Msg = "number " + quoteJSON(string(token)) + " is " + quoteJSON(string(wanted)) + " in canonical text"
	case unquoted(token) != unquoted(wanted):
		e.Msg = "member " + quoteJSON(unquoted(token)) + " stands where canonical text has member " + quoteJSON(unquoted(wanted)) +
			"; order members by the UTF-16 code units of their names"
	default:
		from := bytes.LastIndexByte(src[:at+1], '\\')
		e.Msg = "escape " + escapeAt(src[from:]) + " is not that of canonical text; " +
			"escape only quote, backslash and control characters, in the shortest form and with lower-case digits"
	}
	return e
}

// tokenAt reads as far as the token that has the byte at. If that byte lies between
// tokens, it reads the next token. It returns nil if the text ends before.
func (r *reader) tokenAt(at int) []byte {
	for {
		token, err := r.read()
		if err != nil {
			return nil
		}
		if r.end > at {
			return token
		}
	}
}

// unquoted returns the string that a valid token encodes.
func unquoted[T ~[]byte | ~string](token T) string {
	s, _ := jsontext.AppendUnquote(nil, token)
	return string(s)
}

// sharedPrefix returns the number of equal bytes at the beginning of a and b.
func sharedPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
