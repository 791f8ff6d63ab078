package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// parseLiteral and literal stand here until canon has ParseLiteral and Literal.
func parseLiteral(src []byte, maxBytes, maxValues int) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) || len(src) > maxBytes {
		return nil, errors.New("more than one value, or too many bytes")
	}
	values := 0
	if !countLiteral(v, canon.MaxDepth, &values) || values > maxValues {
		return nil, errors.New("too deep, or too many values")
	}
	_, err := literal(v) // which refuses characters
	return v, err
}

func countLiteral(v any, depth int, values *int) bool {
	*values++
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if !countLiteral(member, depth-1, values) {
				return false
			}
		}
		return depth > 0
	case []any:
		for _, element := range v {
			if !countLiteral(element, depth-1, values) {
				return false
			}
		}
		return depth > 0
	}
	return true
}

func literal(v any) ([]byte, error) { return appendLiteral(nil, v) }

func appendLiteral(dst []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range canon.Names(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendLiteral(dst, name); err != nil {
				return nil, err
			}
			if dst, err = appendLiteral(append(dst, ':'), v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendLiteral(dst, element); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case json.Number:
		if _, err := json.Marshal(v); err != nil || v == "" || slices.Contains([]byte(" \t\r\n"), v[0]) {
			return nil, errors.New("not a number")
		}
		return append(dst, v...), nil
	}
	text, err := canon.Canonical(v)
	return append(dst, text...), err
}
