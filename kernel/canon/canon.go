// Package canon reads JSON strictly and writes it in one form only.
//
// # Reading
//
// [Parse] accepts I-JSON (RFC 7493) and nothing near it. It refuses, with the
// byte offset and the JSON Pointer (RFC 6901) of the place:
//
//   - a text over its byte limit, an empty text, a byte order mark, bytes that
//     are not UTF-8, and anything after the one value;
//   - whatever the grammar of RFC 8259 does not allow, a raw control byte in a
//     string included;
//   - two members of one object whose names are equal once escapes are resolved;
//   - arrays and objects nested deeper than [MaxDepth], the outermost counting 1;
//   - escapes of lone surrogates, and the 66 noncharacters of Unicode (U+FDD0 to
//     U+FDEF and the last two of each plane), in strings and in names;
//   - a number that overflows a double, one that is not zero but becomes zero,
//     and one that is written in digits alone beyond ±[MaxSafeInteger], in the
//     source or in its canonical form. So 9007199254740993 and 1e16 are refused,
//     while 1E30, canonical 1e+30, is read. -0 is read as 0.
//
// # Writing
//
// The canonical form is that of RFC 8785: no white space, members ordered by
// the UTF-16 code units of their names, the shortest number that reads back as
// the same double, the shortest escapes. The value of a text and its canonical
// bytes say the same: numbers of a value have their canonical spelling, the bytes
// are written from the value, and FuzzParse holds them against jcs.Transform and
// against a second reading. For example
//
//	{"b": 1.50, "a": "\u0041\/"}
//
// has the canonical bytes
//
//	{"a":"A/","b":1.5}
//
// # Reading canonical text
//
// [ParseCanonical] is for text that is meant to be canonical already, as stored
// artifacts are. It reads once and checks all that Parse checks, and besides that
// every byte is the one that the canonical form has there. FuzzParseCanonical
// holds it against Parse.
//
// # Numbers as spelt
//
// [ParseLiteral] reads, and [Literal] writes, in the same way, except that they take every
// number of the grammar and keep its spelling: 1.50, -0, 1e400, 12345678901234567890.
//
// # Hashes
//
// A [ContentHash] of an artifact covers its canonical bytes plus one LF, and an
// artifact is stored in exactly those bytes ([Artifact]).
//
// # Documents
//
// A document is a struct with tags. A [Plan] writes it several times as fast as
// [Canonical], which looks at the type of a struct at every call. A [Decoder]
// reads it, and refuses what is no field of the struct.
//
// No function of this package reads anything but its arguments or changes them,
// except [Decoder.Into], and the methods of a Plan that are given room. A Plan and a Decoder keep what they found out about
// their type; nothing else keeps state.
package canon

import (
	"strconv"
	"strings"
)

const (
	// MaxIntentBytes is the size limit of an intent, in bytes.
	MaxIntentBytes = 1 << 20
	// MaxDepth is how deep arrays and objects may nest in a text that Parse
	// reads; the outermost one is at depth 1.
	MaxDepth = 64
	// MaxSafeInteger is the largest integer n for which n and n+1 are both
	// doubles (RFC 7493, section 2.2).
	MaxSafeInteger = 1<<53 - 1
)

// Kind is the class of an [Error], a closed list.
type Kind string

// The kinds of refusal. Parse can return all but KindValue, KindCanonical and KindValues.
// ParseCanonical can return KindCanonical too. ParseLiteral can return KindValues too, but
// not KindNumber. Canonical can return KindNumber, KindEncoding, KindCharacter,
// KindDuplicate, KindDepth, KindSyntax and KindValue. Literal can return KindEncoding,
// KindCharacter, KindDepth and KindValue.
const (
	KindSize      Kind = "size"            // more bytes than the limit
	KindEmpty     Kind = "empty"           // no value at all
	KindEncoding  Kind = "encoding"        // byte order mark, or not UTF-8
	KindSyntax    Kind = "syntax"          // not the grammar of RFC 8259
	KindDuplicate Kind = "duplicate"       // a member name twice in one object
	KindDepth     Kind = "depth"           // nested too deep
	KindNumber    Kind = "number"          // a number that a double does not hold
	KindCharacter Kind = "character"       // lone surrogate or noncharacter
	KindTrailing  Kind = "trailing"        // more text after the value
	KindValue     Kind = "value"           // a Go value that JSON has no form for
	KindCanonical Kind = "canonical"       // well-formed, but not its own canonical form
	KindValues    Kind = "too_many_values" // more values than the limit
)

// Error says why a text was refused, or why a Go value has no canonical form. Msg
// and Offset can be shown to a user as they are. Pointer holds member names as the
// text has them, so a terminal must escape it.
type Error struct {
	Kind    Kind
	Offset  int64  // of the offending byte or the token's first byte; -1 from Canonical
	Pointer string // of the innermost value concerned, cut by Cut; "" is the whole text
	Msg     string // what was found and what to do, lower-case, without the position

	err error // what Canonical's encoder said, for errors.Is and errors.As only
}

// Error returns the message, with the position in parentheses.
func (e *Error) Error() string {
	var where []string
	if e.Offset >= 0 {
		where = append(where, "byte "+strconv.FormatInt(e.Offset, 10))
	}
	if e.Pointer != "" {
		where = append(where, "in "+quoteJSON(e.Pointer))
	}
	if len(where) == 0 {
		return e.Msg
	}
	return e.Msg + " (" + strings.Join(where, ", ") + ")"
}

// Unwrap returns the error of a Go value's own encoder, if that encoder failed.
// Its text is not for users.
func (e *Error) Unwrap() error { return e.err }

// Document is one JSON text that Parse accepted. The zero value has no bytes and no
// value.
type Document struct {
	text  []byte
	value any
}

// Bytes returns the canonical form, without a line feed at the end. All callers
// share it and must not change it.
func (d Document) Bytes() []byte { return d.text }

// Value returns the decoded canonical form: map[string]any, []any, string,
// json.Number, bool or nil. Numbers have their canonical spelling. All callers share
// the value and must not change it.
func (d Document) Value() any { return d.value }

// Parse reads one JSON text of at most maxBytes bytes, as the package comment
// describes. The error is always an *Error, for the first fault in the text. Parse
// keeps no reference to src.
func Parse(src []byte, maxBytes int) (Document, error) {
	value, err := newReader(src, false).readAll(maxBytes)
	if err != nil {
		return Document{}, err
	}
	text, err := appendValue(make([]byte, 0, len(src)), value, 1)
	if err != nil {
		return Document{}, &Error{Kind: KindSyntax, Msg: "the text has no canonical form", err: err}
	}
	return Document{text: text, value: value}, nil
}

// precheck refuses faults that need no look at the grammar.
func precheck(src []byte, maxBytes int) error {
	if len(src) > maxBytes {
		return &Error{Kind: KindSize, Offset: int64(max(maxBytes, 0)),
			Msg: "the text has " + strconv.Itoa(len(src)) + " bytes, the limit is " + strconv.Itoa(maxBytes)}
	}
	if msg := markOf(src); msg != "" {
		return &Error{Kind: KindEncoding, Msg: msg}
	}
	if skipSpace(src, 0) == len(src) {
		what := "the text is empty"
		if len(src) > 0 {
			what = "the text is white space only"
		}
		return &Error{Kind: KindEmpty, Msg: what + "; a JSON value is needed"}
	}
	return nil
}

// markOf returns the advice for a byte order mark, or "".
func markOf(src []byte) string {
	switch {
	case len(src) >= 3 && string(src[:3]) == "\xef\xbb\xbf":
		return "the text begins with a byte order mark; save it as UTF-8 without one"
	case len(src) >= 2 && (string(src[:2]) == "\xff\xfe" || string(src[:2]) == "\xfe\xff"):
		return "the text begins with a UTF-16 byte order mark; save it as UTF-8 without one"
	}
	return ""
}
