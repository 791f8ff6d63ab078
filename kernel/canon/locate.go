package canon

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a range of bytes in a text. Start is the first byte, and End is the byte
// after the last one.
type Span struct{ Start, End int }

// Position is a place between two characters of a text. Lines count from 1 and end with
// LF; columns count from 1, in UTF-16 code units.
type Position struct{ Line, Column int }

// Positions returns the positions of byte offsets, in the order of the offsets. Offsets
// outside of the text count as its nearer end. One pass over the text finds them all.
func Positions(src []byte, offsets []int) []Position {
	sorted := slices.Compact(slices.Sorted(slices.Values(offsets)))
	found := make(map[int]Position, len(sorted))
	at, p := Position{1, 1}, 0
	for _, offset := range sorted {
		for p < min(offset, len(src)) {
			r, size := utf8.DecodeRune(src[p:])
			if p += size; r == '\n' {
				at = Position{at.Line + 1, 1}
			} else {
				at.Column += utf16.RuneLen(r)
			}
		}
		found[offset] = at
	}
	list := make([]Position, len(offsets))
	for i, offset := range offsets {
		list[i] = found[offset]
	}
	return list
}

// Place returns the line and the column of one offset, as Positions does.
func Place(src []byte, offset int) (line, column int) {
	at := Positions(src, []int{offset})[0]
	return at.Line, at.Column
}

// Places returns where the values begin that JSON Pointers name, as Locate finds them.
func Places(src []byte, pointers []string) []Position {
	starts := make([]int, len(pointers))
	for i, span := range Locate(src, pointers) {
		starts[i] = span.Start
	}
	return Positions(src, starts)
}

// Locate finds the values that JSON Pointers (RFC 6901) name, in one pass over a
// text that Parse accepts. A span covers the value's own bytes, without the white
// space around them. A pointer that names no value, or that is malformed, gets the
// span of its deepest existing ancestor; at worst that is the whole text's value.
//
// For any other text, the spans lie within the text or are zero.
func Locate(src []byte, pointers []string) []Span {
	root := &place{}
	ends := make([]*place, len(pointers))
	for i, p := range pointers {
		ends[i] = root.insert(p)
	}
	spans := make([]Span, len(pointers))
	if err := root.find(jsontext.NewDecoder(bytes.NewBuffer(src))); err != nil {
		return spans
	}
	for i, p := range ends {
		for !p.found {
			p = p.parent
		}
		spans[i] = p.span
	}
	return spans
}

// place is a value that a pointer names or passes through.
type place struct {
	parent *place
	below  map[string]*place // by member name or index
	found  bool
	span   Span
}

// insert adds the places along a pointer and returns the last one. It stops where
// the pointer breaks its grammar.
func (p *place) insert(pointer string) *place {
	for pointer != "" && pointer[0] == '/' {
		token := pointer[1:]
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token = token[:i]
		}
		pointer = pointer[1+len(token):]
		name, ok := unescape(token)
		if !ok {
			return p
		}
		next := p.below[name]
		if next == nil {
			if p.below == nil {
				p.below = map[string]*place{}
			}
			next = &place{parent: p}
			p.below[name] = next
		}
		p = next
	}
	return p
}

// unescape returns the name or index that a token of a pointer encodes.
func unescape(token string) (string, bool) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", false
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"), true
}

// find reads the next value, which belongs to p, and the places below p.
func (p *place) find(dec *jsontext.Decoder) error {
	kind := dec.PeekKind()
	inside := len(p.below) > 0 && (kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray)
	if !inside {
		value, err := dec.ReadValue()
		end := int(dec.InputOffset())
		p.found, p.span = err == nil, Span{end - len(value), end}
		return err
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	start := int(dec.InputOffset()) - 1
	for i := 0; dec.PeekKind() != jsontext.KindEndObject && dec.PeekKind() != jsontext.KindEndArray; i++ {
		name := strconv.Itoa(i)
		if kind == jsontext.KindBeginObject {
			token, err := dec.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		if err := p.step(dec, name); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	p.found, p.span = true, Span{start, int(dec.InputOffset())}
	return nil
}

// step reads the value with this name below p.
func (p *place) step(dec *jsontext.Decoder, name string) error {
	if next := p.below[name]; next != nil {
		return next.find(dec)
	}
	return dec.SkipValue()
}

// Lookup returns the value that a JSON Pointer (RFC 6901) names in a decoded value.
// It returns false if the pointer is malformed or names nothing. An index with
// leading zeros, "-", and any ~ but ~0 and ~1 are malformed here.
func Lookup(doc any, pointer string) (any, bool) {
	if pointer == "" {
		return doc, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch v := doc.(type) {
		case map[string]any:
			name, ok := unescape(token)
			if !ok {
				return nil, false
			}
			if doc, ok = v[name]; !ok {
				return nil, false
			}
		case []any:
			i, ok := arrayIndex(token)
			if !ok || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// arrayIndex reads 0 or a decimal number without leading zeros.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
