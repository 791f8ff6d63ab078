package canon

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const cutBytes = 256

// Compare orders strings by their UTF-16 code units, as RFC 8785, section 3.2.3,
// orders member names. It returns -1, 0 or +1, and allocates nothing. For strings
// that are not UTF-8, the order is total but has no meaning.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		// The order of UTF-8 bytes is that of code points. It differs from
		// UTF-16 in one place: surrogates, the units of code points from
		// U+10000 (lead byte 0xf0 and up), sort before U+E000 to U+FFFF
		// (lead bytes 0xee and 0xef).
		if x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}

// Names returns the keys of all the maps, each once, sorted by Compare.
func Names[V any](of ...map[string]V) []string {
	list := []string{}
	for _, m := range of {
		list = slices.Grow(list, len(m))
		for name := range m {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, Compare)
	return slices.Compact(list)
}

// Pointer returns the JSON Pointer (RFC 6901) of the member or element named token
// below parent. In the token, "~" becomes "~0" and "/" becomes "~1".
func Pointer(parent, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(token, "~", "~0")
		token = strings.ReplaceAll(token, "/", "~1")
	}
	return parent + "/" + token
}

// Cut returns s if it has at most 256 bytes. Otherwise it returns as many whole
// characters as fit into 256 bytes, followed by "…".
func Cut(s string) string {
	if len(s) <= cutBytes {
		return s
	}
	end := cutBytes
	for end > cutBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Quote returns s, cut as by Cut, as a string literal of Go: for a message about a text of
// somebody else.
func Quote(s string) string { return strconv.Quote(Cut(s)) }

// List returns texts as the elements of a decoded array.
func List(texts []string) []any {
	list := make([]any, len(texts))
	for i, s := range texts {
		list[i] = s
	}
	return list
}

// quoteJSON returns s, cut and in double quotes. Everything that does not print is
// written as a JSON escape.
func quoteJSON(s string) string {
	out := []byte{'"'}
	for _, c := range Cut(s) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case strconv.IsPrint(c):
			out = utf8.AppendRune(out, c)
		default:
			out = appendEscape(out, c)
		}
	}
	return string(append(out, '"'))
}

// Shows says whether a character prints as itself. Unicode counts fillers as letters,
// marks or symbols, but they print nothing.
func Shows(r rune) bool {
	if r < utf8.RuneSelf {
		return unicode.IsPrint(r)
	}
	switch r {
	case 0x2800, 0x16fe4, 0x1d159:
		return false
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Clean replaces everything in s that canonical JSON cannot hold.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if noncharacter(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Crowded says whether a JSON text may have more than most values. It counts what
// separates values outside of strings, so the text may be malformed.
func Crowded(text []byte, most int) bool {
	n, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			if n++; n > most {
				return true
			}
		}
	}
	return false
}
