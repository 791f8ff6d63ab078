package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// refuse explains the tokenizer's error in our own words. It uses only the place and
// the sentinel of that error, and reads the rest from the text.
func (r *reader) refuse(err error) *Error {
	place := &jsontext.SyntacticError{ByteOffset: int64(len(r.src))}
	errors.As(err, &place)
	at, pointer := min(int(place.ByteOffset), len(r.src)), string(place.JSONPointer)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		name := place.JSONPointer.LastToken()
		return r.fail(KindDuplicate, at, pointer, "member "+quoteJSON(name)+" stands twice in one object; keep one of them")
	}
	if err := r.notUTF8(at, pointer); err != nil {
		return err
	}
	start, delim := r.next()
	switch {
	case start == len(r.src):
		return r.fail(KindSyntax, start, pointer, "the text ends where "+r.expected(delim)+" must stand")
	case r.src[start] == '"' && errors.Is(err, io.ErrUnexpectedEOF):
		return r.fail(KindSyntax, start, pointer, "the string that begins here has no closing quote")
	case r.src[start] == '"' && at > start:
		return r.refuseString(at, pointer)
	}
	if at < start { // a comma or colon that does not belong
		if after := r.src[start]; r.src[at] == ',' && (after == ']' || after == '}') && !r.empty() {
			return r.fail(KindSyntax, at, pointer, "found a comma before "+string(after)+"; remove it")
		}
		delim, start = 0, at
	}
	if err := r.glued(start); err != nil {
		return err
	}
	want := r.expected(delim)
	if word := r.word(start); word != "" && (want == wantValue || want == wantFirstValue) {
		return r.notValue(start, word, pointer)
	}
	return r.fail(KindSyntax, start, pointer, "found "+r.found(start)+" where "+want+" must stand"+remedy(r.src[start:]))
}

// next returns where the next token begins, and the comma or colon before it, or 0.
func (r *reader) next() (start int, delim byte) {
	start = skipSpace(r.src, r.end)
	if start < len(r.src) && (r.src[start] == ',' || r.src[start] == ':') {
		delim = r.src[start]
		start = skipSpace(r.src, start+1)
	}
	return start, delim
}

// empty says whether the innermost array or object has no content yet.
func (r *reader) empty() bool {
	_, n := r.dec.StackIndex(r.dec.StackDepth())
	return n == 0
}

const (
	wantValue      = "a value"
	wantFirstValue = "a value or ]"
)

// expected returns what the grammar asks for after the last token and delim.
func (r *reader) expected(delim byte) string {
	depth := r.dec.StackDepth()
	kind, n := r.dec.StackIndex(depth)
	switch {
	case depth == 0:
		return wantValue
	case kind == jsontext.KindBeginArray && n == 0:
		return wantFirstValue
	case kind == jsontext.KindBeginArray && delim == 0:
		return "a comma or ]"
	case kind == jsontext.KindBeginArray:
		return wantValue
	case n%2 == 1 && delim == 0:
		return "a colon"
	case n%2 == 1:
		return wantValue
	case n == 0:
		return "a member name in double quotes or }"
	case delim == 0:
		return "a comma or }"
	}
	return "a member name in double quotes"
}

// refuseString says what is wrong at the byte at, which lies in a string.
func (r *reader) refuseString(at int, pointer string) *Error {
	rest := r.src[at:]
	if rest[0] != '\\' {
		return r.fail(KindSyntax, at, pointer, fmt.Sprintf("found %s in a string; write it as \\u%04x", r.found(at), rest[0]))
	}
	if unit, ok := hex4(rest); ok {
		return r.fail(KindCharacter, at, pointer, fmt.Sprintf("escape \\u%04x is half of a surrogate pair; write both halves, or the character itself", unit))
	}
	if err := r.notUTF8(at+1, pointer); err != nil {
		return err
	}
	return r.fail(KindSyntax, at, pointer, "found "+escapeAt(rest)+" in a string, which is no JSON escape; a backslash is written \\\\")
}

// escapeAt returns the escape at the beginning of b, quoted, as far as it goes.
func escapeAt(b []byte) string {
	_, n := utf8.DecodeRune(b[1:])
	n++
	if b[1] == 'u' {
		for n < len(b) && n < 6 && strings.IndexByte(hexDigits+"ABCDEF", b[n]) >= 0 {
			n++
		}
	}
	return `"\` + quoteJSON(string(b[1:n]))[1:]
}

// glued refuses a number or literal that runs into other characters at p, as in 01,
// 0x1f, 1_000 or nullx.
func (r *reader) glued(p int) *Error {
	if p != r.end || r.end == 0 || !isWord(r.src[p]) || !isWord(r.src[r.end-1]) {
		return nil
	}
	return r.notValue(r.start, r.word(r.start), r.pointer())
}

func (r *reader) notValue(start int, word, pointer string) *Error {
	if c := word[0]; c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9') {
		return r.fail(KindSyntax, start, pointer, quoteJSON(word)+" is not a JSON number")
	}
	return r.fail(KindSyntax, start, pointer, quoteJSON(word)+" is not a JSON value; use true, false, null, a number, or a string in double quotes")
}

// notUTF8 refuses the byte at at, which belongs to no character.
func (r *reader) notUTF8(at int, pointer string) *Error {
	if at >= len(r.src) {
		return nil
	}
	if c, n := utf8.DecodeRune(r.src[at:]); c != utf8.RuneError || n > 1 {
		return nil
	}
	return r.fail(KindEncoding, at, pointer, fmt.Sprintf("byte 0x%02x does not belong to UTF-8 text; save the text as UTF-8", r.src[at]))
}

// word returns the longest run of letters, digits and number signs at p.
func (r *reader) word(p int) string {
	end := p
	for end < len(r.src) && isWord(r.src[end]) {
		end++
	}
	return Cut(string(r.src[p:min(end, p+2*cutBytes)]))
}

// found describes the text at p.
func (r *reader) found(p int) string {
	if word := r.word(p); word != "" {
		return quoteJSON(word)
	}
	switch c, n := utf8.DecodeRune(r.src[p:]); {
	case c == 0:
		return "a NUL byte"
	case c < ' ':
		return fmt.Sprintf("the control byte 0x%02x", c)
	case c == '"':
		return "a string"
	default:
		return quoteJSON(string(r.src[p : p+n]))
	}
}

// remedy returns advice for the habits of other notations.
func remedy(b []byte) string {
	switch {
	case b[0] == '\'':
		return "; strings stand in double quotes"
	case b[0] == '#' || bytes.HasPrefix(b, []byte("//")) || bytes.HasPrefix(b, []byte("/*")):
		return "; JSON has no comments"
	case b[0] == 0:
		return "; save the text as UTF-8"
	}
	return ""
}

func skipSpace(b []byte, p int) int {
	for p < len(b) && isSpace(b[p]) {
		p++
	}
	return p
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		c == '_' || c == '+' || c == '-' || c == '.'
}
