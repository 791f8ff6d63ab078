package screen

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a line of JSON with the same value, in which invisible characters are
// escaped.
func JSON(line []byte) []byte {
	var b []byte
	for _, r := range string(line) {
		if r == '\n' || Plain(string(r)) == string(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}
