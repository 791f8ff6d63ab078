package canon

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// string reads the string whose opening quote stands at the cursor. It is a part
// of the text unless it has escapes.
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

// escapedString reads a string of which the bytes from start to at, the first
// escape, are known to be well.
func (r *exact) escapedString(start, at int) (string, bool) {
	text, out := r.text, append(r.plain[:0], r.text[start:at]...)
	for {
		// Where escapes are many, moving a word and keeping what is plain of it
		// is faster than to move the plain bytes alone.
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
					return "", false
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

// shortEscapes has the character of each escape of two bytes at the index of its
// second byte, and NUL elsewhere.
const (
	shortEscapes = nul32 + "\x00\x00\"" + nul16 + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		nul16 + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\\\x00\x00\x00" +
		"\x00\x00\b\x00\x00\x00\f\x00\x00\x00\x00\x00\x00\x00\n\x00\x00\x00\r\x00\t" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		nul32 + nul32 + nul32 + nul32
	nul16 = padding + padding
	nul32 = nul16 + nul16
)

// longEscape is the control byte that the escape \u00XX at the beginning of s
// stands for, and the length of the escape, 0 if there is none or it has a shorter
// one.
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

// wideRun is the length of the characters beyond ASCII at the beginning of s, 0 if
// there is none, or one of them is not UTF-8 or a noncharacter.
func wideRun(s string) int {
	n := 0
	for s[n] >= utf8.RuneSelf {
		// Characters of two bytes, and those of three from U+1000 to U+CFFF and
		// from U+E000 to U+EFFF, need a look at their continuation bytes only.
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

// plainRun is the number of bytes at the beginning of s, which ends in padding,
// that are ASCII and stand for themselves in a string: no quote, backslash or
// control byte.
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

// notPlain has the top bit set of the lowest byte of w that plainRun must stop at,
// and no bit below it.
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

// word is the first 8 bytes of s, the first one lowest.
func word(s string) uint64 {
	s = s[:8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
