package canon

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// string reads the string whose opening quote is the next byte. The string is a
// part of the text unless it has escapes.
func (r *exact) string() (string, bool) {
	start := r.at + 1
	for at := start; ; {
		at += plainRun(r.text[at:])
		switch c := r.text[at]; {
		case c == '"':
			r.at = at + 1
			return r.text[start:at], true
		case c == '\\':
			return r.escapedString(start, at)
		}
		n := wideRun(r.text[at:])
		if n == 0 {
			return "", false
		}
		at += n
	}
}

// escapedString reads a string with escapes. The bytes from start to at, the first
// escape, are already checked.
func (r *exact) escapedString(start, at int) (string, bool) {
	text, out := r.text, append(r.plain[:0], r.text[start:at]...)
	for {
		// Where escapes are many, it is faster to copy a whole word and keep its plain
		// bytes than to copy the plain bytes alone.
		w := word(text[at:])
		n := bits.TrailingZeros64(notPlain(w)) / 8
		if n < len(padding) {
			out = append(out, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
			out = out[:len(out)-len(padding)+n]
		} else {
			n += plainRun(text[at+n:])
			out = append(out, text[at:at+n]...)
		}
		at += n
		switch c := text[at]; {
		case c == '\\':
			if c, n = shortEscapes[text[at+1]], 2; c == 0 {
				if c, n = longEscape(text[at:]); n == 0 {
					return r.anyEscapes(start, at)
				}
			}
			out = append(out, c)
		case c == '"':
			r.plain, r.at = out, at+1
			return string(out), true
		default:
			if n = wideRun(text[at:]); n == 0 {
				return "", false
			}
			out = append(out, text[at:at+n]...)
		}
		at += n
	}
}

// anyEscapes reads a string with other escapes than canonical text has. at is the first
// of these.
func (r *exact) anyEscapes(start, at int) (string, bool) {
	if !r.checked {
		return "", false
	}
	for ; r.text[at] != '"'; at++ {
		if r.text[at] == '\\' {
			at++
		}
	}
	r.at = at + 1
	return unquoted(r.text[start-1 : r.at]), true
}

// shortEscapes holds the character of each escape of two bytes, at the index of the
// escape's second byte. It holds NUL elsewhere.
const (
	shortEscapes = nul32 + "\x00\x00\"" + nul16 + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		nul16 + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\\\x00\x00\x00" +
		"\x00\x00\b\x00\x00\x00\f\x00\x00\x00\x00\x00\x00\x00\n\x00\x00\x00\r\x00\t" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		nul32 + nul32 + nul32 + nul32
	nul16 = padding + padding
	nul32 = nul16 + nul16
)

// longEscape returns the control byte of the escape \u00XX at the beginning of s,
// and the length of the escape. The length is 0 if s begins with no such escape, or
// with one that has a shorter form.
func longEscape(s string) (c byte, n int) {
	low := strings.IndexByte(hexDigits, s[5])
	if s[1:4] != "u00" || s[4] != '0' && s[4] != '1' || low < 0 {
		return 0, 0
	}
	c = (s[4]-'0')<<4 | byte(low)
	if c >= '\b' && c <= '\r' && c != '\v' {
		return 0, 0
	}
	return c, 6
}

// wideRun returns the length of the characters beyond ASCII at the beginning of s.
// It returns 0 if there are none, or if one of them is not UTF-8 or is a
// noncharacter.
func wideRun(s string) int {
	n := 0
	for s[n] >= utf8.RuneSelf {
		// For characters of two bytes, and those of three from U+1000 to U+CFFF and from
		// U+E000 to U+EFFF, only the continuation bytes need a check.
		switch c := s[n]; {
		case c >= 0xc2 && c <= 0xdf && s[n+1]&0xc0 == 0x80:
			n += 2
		case (c >= 0xe1 && c <= 0xec || c == 0xee) && s[n+1]&0xc0 == 0x80 && s[n+2]&0xc0 == 0x80:
			n += 3
		default:
			char, size := utf8.DecodeRuneInString(s[n:])
			if char == utf8.RuneError && size == 1 || noncharacter(char) {
				return 0
			}
			n += size
		}
	}
	return n
}

// plainRun returns the number of ASCII bytes at the beginning of s that need no
// escape in a string: no quote, backslash or control byte. s ends in padding.
func plainRun(s string) int {
	n := bits.TrailingZeros64(notPlain(word(s))) / 8
	if n < len(padding) {
		return n // names are short
	}
	rest := s[n:]
	for len(rest) >= 32 && notPlain(word(rest))|notPlain(word(rest[8:]))|
		notPlain(word(rest[16:]))|notPlain(word(rest[24:])) == 0 {
		rest = rest[32:]
	}
	for {
		if stop := notPlain(word(rest)); stop != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(stop)/8
		}
		rest = rest[8:]
	}
}

// notPlain returns a word in which the top bit of a byte is set where plainRun must
// stop. Only the lowest set bit counts.
func notPlain(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	// A byte from 0 to 0x7f less n borrows from its top bit exactly if it is
	// below n. Flipping the second bit puts the quote, 0x22, at 0x20 next to the
	// control bytes, which stay among themselves, and the space at 0x22. A byte
	// beyond 0x7f keeps its top bit in slash, or if it is 0xdc in low.
	low := (w ^ ones*0x02) - ones*0x21
	slash := (w ^ ones*'\\') - ones
	return (low | slash) & tops
}

// word returns the first 8 bytes of s, with the first byte lowest.
func word(s string) uint64 {
	s = s[:8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
