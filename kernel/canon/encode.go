package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// Canonical returns the RFC 8785 form of a Go value, without a line feed at the
// end. It reads the value as encoding/json does: struct tags, map[string]T,
// json.Number, json.RawMessage and Marshalers all work. It does not escape
// characters for HTML. The caller owns the bytes.
//
// Canonical replaces nothing silently. The error is an *Error with Offset -1. Its
// causes are NaN or an infinity, an integer with more digits than a double keeps,
// and a number that becomes zero. A string or a name causes it that is not UTF-8 or
// has a noncharacter. So do a member that appears twice (in a json.RawMessage),
// nesting deeper than 1000 levels, and a type that JSON has no form for.
//
// Canonical writes floats of any size. Parse reads the result, unless it has a
// number of digits alone beyond ±MaxSafeInteger, or is nested too deep. A
// json.RawMessage must hold U+FFFD as the character, as canonical text does.
// encoding/json writes \ufffd for a byte that was not UTF-8, so the escape is
// refused.
func Canonical(v any) ([]byte, error) {
	text, err := appendValue(nil, v, 1)
	switch e := (*Error)(nil); {
	case err == nil:
		return text, nil
	case errors.As(err, &e):
		e.Pointer = Cut(e.Pointer)
		return nil, e
	}
	return Transform(v)
}

// Transform returns what Canonical returns, by the code of others alone:
// encoding/json encodes the value, and jcs.Transform makes the text canonical.
// Transform is slower than Canonical.
func Transform(v any) ([]byte, error) {
	return transform(v, func(text []byte) error {
		err := newReader(text, true).check()
		if e, ok := errors.AsType[*Error](err); ok {
			e.Offset = -1
		}
		return err
	})
}

// TransformAgain is Transform for a value that Canonical or a Plan has written. It does
// not look again for the faults that these refuse.
func TransformAgain(v any) ([]byte, error) {
	return transform(v, func([]byte) error { return nil })
}

func transform(v any, check func(text []byte) error) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, encodeError(err)
	}
	if err := check(buf.Bytes()); err != nil {
		return nil, err
	}
	text, err := jcs.Transform(buf.Bytes())
	if err != nil {
		return nil, &Error{Kind: KindValue, Offset: -1, Msg: "the value has no canonical form", err: err}
	}
	return text, nil
}

// encodeError translates an error of encoding/json.
func encodeError(err error) *Error {
	e := &Error{Kind: KindValue, Offset: -1, Msg: "a value that JSON has no form for", err: err}
	if value, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		switch value.Str {
		case "NaN", "+Inf", "-Inf":
			e.Kind, e.Msg = KindNumber, notFinite
		default:
			e.Kind, e.Msg = KindDepth, "the value contains itself"
		}
	}
	return e
}

const notFinite = "a number is NaN or an infinity, which JSON cannot hold"

// errNotPlain sends a whole value to Transform. The value has a type that no step
// writes, or a fault within a type that encodes itself.
var errNotPlain = errors.New("not a plain JSON value")

// appendValue appends the canonical form of a value. It writes types that Parse
// returns and plain Go numbers itself, and all others by the steps of their type.
// The bytes equal those of Transform.
func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v)
	case json.Number:
		return appendJSONNumber(dst, v)
	case int:
		return appendInt(dst, int64(v))
	case int64:
		return appendInt(dst, v)
	case float64:
		text, err := jcs.NumberToJSON(v)
		if err != nil {
			return nil, &Error{Kind: KindNumber, Offset: -1, Msg: notFinite}
		}
		return append(dst, text...), nil
	case []any:
		return appendArray(dst, v, depth, appendValue)
	case map[string]any:
		return appendObject(dst, v, depth, appendValue)
	}
	return appendOther(dst, v, depth)
}

// within adds a member or an element in front of the pointer of err.
func within(err error, token string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Pointer = Pointer("", token) + e.Pointer
	}
	return err
}

func tooDeep() *Error {
	return &Error{Kind: KindDepth, Offset: -1, Msg: depthMsg(maxEncodeDepth)}
}

// appendArray appends an array whose elements one appends: appendValue or appendLiteral.
func appendArray(dst []byte, list []any, depth int, one func([]byte, any, int) ([]byte, error)) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	if depth > maxEncodeDepth {
		return nil, tooDeep()
	}
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = one(dst, v, depth+1); err != nil {
			return nil, within(err, strconv.Itoa(i))
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, members map[string]any, depth int, one func([]byte, any, int) ([]byte, error)) ([]byte, error) {
	if members == nil {
		return append(dst, "null"...), nil
	}
	if depth > maxEncodeDepth {
		return nil, tooDeep()
	}
	dst = append(dst, '{')
	var few [16]string // most objects need no allocation for their names
	names := few[:0]
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, Compare)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = one(dst, members[name], depth+1); err != nil {
			return nil, within(err, name)
		}
	}
	return append(dst, '}'), nil
}

// isNumber says whether the grammar allows n. It does not allow the empty json.Number,
// which encoding/json takes for 0.
func isNumber(n json.Number) bool {
	token := jsontext.Value(n)
	return len(n) > 0 && !isSpace(n[len(n)-1]) && !isSpace(n[0]) && token.Kind() == jsontext.KindNumber && token.IsValid()
}

func appendJSONNumber(dst []byte, n json.Number) ([]byte, error) {
	if !isNumber(n) {
		return nil, &Error{Kind: KindNumber, Offset: -1, Msg: quoteJSON(string(n)) + " is not a JSON number"}
	}
	return appendNumber(dst, string(n))
}

func appendInt(dst []byte, n int64) ([]byte, error) {
	if -MaxSafeInteger <= n && n <= MaxSafeInteger {
		return strconv.AppendInt(dst, n, 10), nil
	}
	return appendNumber(dst, strconv.FormatInt(n, 10))
}

// appendNumber appends a number that the grammar allows.
func appendNumber(dst []byte, text string) ([]byte, error) {
	token := []byte(text)
	if msg := checkNumber(token, true); msg != "" {
		return nil, &Error{Kind: KindNumber, Offset: -1, Msg: msg}
	}
	if isCanonicalInteger(token) {
		return append(dst, text...), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, &Error{Kind: KindNumber, Offset: -1, Msg: notFinite, err: err}
	}
	return appendValue(dst, f, 0)
}

// appendString appends s in quotes, with the escapes of RFC 8785, section 3.2.2.2.
func appendString(dst []byte, s string) ([]byte, error) {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf:
			i++
			continue
		case c >= utf8.RuneSelf:
			char, n := utf8.DecodeRuneInString(s[i:])
			if char == utf8.RuneError && n == 1 {
				return nil, &Error{Kind: KindEncoding, Offset: -1, Msg: notUTF8Msg}
			}
			if noncharacter(char) {
				return nil, &Error{Kind: KindCharacter, Offset: -1, Msg: noncharacterMsg(char)}
			}
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = appendEscape(dst, rune(c))
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"'), nil
}

const hexDigits = "0123456789abcdef"

// appendEscape appends the shortest JSON escape of c.
func appendEscape(dst []byte, c rune) []byte {
	if i := strings.IndexRune("\b\t\n\f\r", c); i >= 0 {
		return append(dst, '\\', "btnfr"[i])
	}
	for _, unit := range utf16.AppendRune(nil, c) {
		dst = append(dst, '\\', 'u', hexDigits[unit>>12], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
	}
	return dst
}
