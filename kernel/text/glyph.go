package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// PlainRune returns the character that a reader sees for r: -1 for a character that
// shows nothing, and a space for one that shows a gap. For a letter or digit of full
// width, or in a style of mathematics, it returns the ASCII one. Any other r, and all
// ASCII, stays as it is.
func PlainRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case r == 0xfeff:
		return -1
	case IsSpace(r), r == 0x115f, r == 0x1160, r == 0x2800, r == 0x3164, r == 0xffa0:
		return ' '
	case isInvisible(r):
		return -1
	case r == 0xff3f:
		return '_'
	case r >= 0xff10 && r <= 0xff5a, r >= 0x2100 && r <= 0x214f, r >= 0x24b6 && r <= 0x24e9, r >= 0x1d400 && r <= 0x1d7ff:
		if s := norm.NFKC.String(string(r)); len(s) == 1 && IsWord(rune(s[0])) {
			return rune(s[0])
		}
	}
	return r
}

// PlainText returns s as PlainRune reads it, and for each of its bytes the position in
// s. The list is nil if nothing changes.
func PlainText(s string) (string, []int) {
	if IsPrintable(s) || !strings.ContainsFunc(s, func(r rune) bool { return PlainRune(r) != r }) {
		return s, nil
	}
	text := make([]byte, 0, len(s))
	at := make([]int, 0, len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch p := PlainRune(r); {
		case p == r:
			for k := range size {
				text, at = append(text, s[i+k]), append(at, i+k)
			}
		case p >= 0:
			text, at = append(text, byte(p)), append(at, i)
		}
		i += size
	}
	return string(text), at
}

// IsHostile says whether r is an invisible, control or format character, a line or
// paragraph separator, or a noncharacter. It does not check for invalid UTF-8.
func IsHostile(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	nonCharacter := r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
	return nonCharacter || r == 0x2028 || r == 0x2029 || isInvisible(r) || unicode.In(r, unicode.Cc, unicode.Cf)
}

// IsPrintable says whether s has printable ASCII alone.
func IsPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// DropInvisible returns s without the characters that IsHostile finds.
func DropInvisible(s string) string {
	if IsPrintable(s) || !strings.ContainsFunc(s, IsHostile) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if IsHostile(r) {
			return -1
		}
		return r
	}, s)
}
