package kernel

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// plainRune is what a reader takes r for: -1 for a character that shows nothing,
// a space for one that shows a gap, the ASCII letter or digit for one of full
// width or in a style of mathematics, and otherwise r itself. ASCII stays as it
// is.
func plainRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case r == 0xfeff:
		return -1
	case isSpace(r), r == 0x115f, r == 0x1160, r == 0x2800, r == 0x3164, r == 0xffa0:
		return ' '
	case isInvisible(r):
		return -1
	case r == 0xff3f:
		return '_'
	case r >= 0xff10 && r <= 0xff5a, r >= 0x2100 && r <= 0x214f, r >= 0x24b6 && r <= 0x24e9, r >= 0x1d400 && r <= 0x1d7ff:
		if s := norm.NFKC.String(string(r)); len(s) == 1 && isWordRune(rune(s[0])) {
			return rune(s[0])
		}
	}
	return r
}

// plainText is s as plainRune reads it, and where in s each of its bytes comes
// from. The list is nil where nothing changes.
func plainText(s string) (string, []int) {
	if !strings.ContainsFunc(s, func(r rune) bool { return plainRune(r) != r }) {
		return s, nil
	}
	text := make([]byte, 0, len(s))
	at := make([]int, 0, len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch p := plainRune(r); {
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
