package canon

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxEncodeDepth is the depth at which Canonical stops, so that a Go value that
// contains itself ends in an error.
const maxEncodeDepth = 1000

// reader walks through a JSON text once, and checks what the tokenizer does not.
type reader struct {
	src []byte
	dec *jsontext.Decoder

	// encoded is set for a text that encoding/json wrote. Numbers may then have any
	// size, but must keep their value exactly, and \ufffd marks a byte that was not
	// UTF-8.
	encoded bool

	// literal is set for ParseLiteral: numbers keep their spelling, and values are counted.
	literal           bool
	values, maxValues int

	start, end int // of the last token
}

func newReader(src []byte, encoded bool) *reader {
	return &reader{src: src, dec: jsontext.NewDecoder(bytes.NewBuffer(src)), encoded: encoded}
}

// readAll checks the whole text and returns its value. The error is an *Error.
func (r *reader) readAll(maxBytes int) (any, error) {
	if err := precheck(r.src, maxBytes); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	builder := exact{spelt: r.literal, checked: true}
	value, ok := builder.all(r.src)
	if !ok {
		return nil, &Error{Kind: KindSyntax, Msg: "the text cannot be decoded"}
	}
	return value, nil
}

// check reads the whole text. The error is an *Error.
func (r *reader) check() error {
	limit := MaxDepth
	if r.encoded {
		limit = maxEncodeDepth
	}
	for {
		token, err := r.read()
		if err != nil {
			return r.refuse(err)
		}
		if r.literal && r.crowded(token) {
			return r.fail(KindValues, r.start, r.pointer(), "the text has more than "+strconv.Itoa(r.maxValues)+" values")
		}
		if err := r.checkScalar(token); err != nil {
			return err
		}
		switch depth := r.dec.StackDepth(); {
		case depth > limit:
			return r.fail(KindDepth, r.start, r.pointer(), depthMsg(limit))
		case depth == 0:
			return r.checkEnd()
		}
	}
}

// read reads the next token: a scalar, a member name, a bracket or a brace.
func (r *reader) read() ([]byte, error) {
	var scalar jsontext.Value
	var err error
	switch r.dec.PeekKind() {
	case jsontext.KindBeginArray, jsontext.KindBeginObject, jsontext.KindEndArray, jsontext.KindEndObject:
		_, err = r.dec.ReadToken()
	default:
		scalar, err = r.dec.ReadValue()
	}
	if err != nil {
		return nil, err
	}
	r.end = int(r.dec.InputOffset())
	r.start = r.end - max(len(scalar), 1)
	return r.src[r.start:r.end], nil
}

// checkScalar checks a string, a member name or a number that the grammar allows.
// The decoder stands at the end of token.
func (r *reader) checkScalar(token []byte) error {
	switch token[0] {
	case 'n', 't', 'f', '[', ']', '{', '}':
		return nil
	case '"':
		at, kind, msg := checkString(token, r.encoded)
		if msg == "" {
			return nil
		}
		ptr := r.dec.StackPointer()
		if r.atName() {
			ptr = ptr.Parent() // a name is part of its object
		}
		return r.fail(kind, r.start+at, string(ptr), msg)
	}
	if r.literal {
		return nil
	}
	if msg := checkNumber(token, r.encoded); msg != "" {
		return r.fail(KindNumber, r.start, r.pointer(), msg)
	}
	return nil
}

// atName says whether the last token is a member name.
func (r *reader) atName() bool {
	kind, n := r.dec.StackIndex(r.dec.StackDepth())
	return kind == jsontext.KindBeginObject && n%2 == 1
}

// checkEnd refuses text after the value.
func (r *reader) checkEnd() error {
	p := skipSpace(r.src, r.end)
	if p == len(r.src) {
		return nil
	}
	if err := r.glued(p); err != nil {
		return err
	}
	if err := r.notUTF8(p, ""); err != nil {
		return err
	}
	return r.fail(KindTrailing, p, "", "found "+r.found(p)+" after the end of the JSON value; a text holds one value")
}

func depthMsg(limit int) string {
	return "arrays and objects nest deeper than " + strconv.Itoa(limit) + " levels"
}

func (r *reader) pointer() string { return string(r.dec.StackPointer()) }

func (r *reader) fail(kind Kind, offset int, pointer, msg string) *Error {
	return &Error{Kind: kind, Offset: int64(offset), Pointer: Cut(pointer), Msg: msg}
}
