package canon

import "strings"

// Clean replaces everything in s that canonical JSON cannot hold.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if noncharacter(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
