package canon

import "strings"

// Clean turns any text into a string that canonical JSON can hold.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if noncharacter(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
