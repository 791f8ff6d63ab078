package canon

import "strings"

// Clean turns any file name into a string that canonical JSON can hold.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
