package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ParseLiteral reads one JSON text of at most maxBytes bytes and maxValues values, member
// names not counted. It returns the types of Document.Value and refuses what Parse refuses,
// except numbers: it reads every number of the grammar, which keeps its spelling.
//
// The error is always an *Error, for the first fault in the text. It has KindValues at the
// first value over maxValues; no value is made before. ParseLiteral keeps no reference to src.
func ParseLiteral(src []byte, maxBytes, maxValues int) (any, error) {
	if len(src) <= min(maxBytes, maxValues) { // no value has less than a byte
		r := exact{spelt: true}
		if v, ok := r.all(bytes.TrimSuffix(src, []byte("\n"))); ok {
			return v, nil
		}
	}
	r := newReader(src, false)
	r.literal, r.maxValues = true, maxValues
	return r.readAll(maxBytes)
}

// crowded counts the value that begins with token, and says whether it is one too many.
func (r *reader) crowded(token []byte) bool {
	if c := token[0]; c != ']' && c != '}' && (c != '"' || !r.atName()) {
		r.values++
	}
	return r.values > r.maxValues
}

// Literal returns what Canonical returns for a decoded value, except that every number keeps
// its spelling. The types are map[string]any, []any, string, json.Number, bool, nil, int and
// int64. The error is an *Error with Offset -1. It has KindValue for another type and for a
// json.Number that the grammar does not allow.
func Literal(v any) ([]byte, error) {
	text, err := appendLiteral(nil, v, 1)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Pointer = Cut(e.Pointer)
	}
	return text, err
}

func appendLiteral(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return appendValue(dst, v, depth)
	case json.Number:
		if isNumber(v) {
			return append(dst, v...), nil
		}
		return nil, &Error{Kind: KindValue, Offset: -1, Msg: quoteJSON(string(v)) + " is not a JSON number"}
	case int, int64:
		return fmt.Appendf(dst, "%d", v), nil
	case []any:
		return appendArray(dst, v, depth, appendLiteral)
	case map[string]any:
		return appendObject(dst, v, depth, appendLiteral)
	}
	return nil, &Error{Kind: KindValue, Offset: -1, Msg: fmt.Sprintf("a %T is no value of decoded JSON", v)}
}
