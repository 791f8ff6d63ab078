package screen

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// JSON returns a line of JSON with the same value, in which invisible characters are
// escaped. A line without any is returned as it is.
func JSON(line []byte) []byte {
	shown := func(r rune) bool { return r == '\n' || canon.Shows(r) }
	if bytes.IndexFunc(line, func(r rune) bool { return !shown(r) || r == utf8.RuneError }) < 0 {
		return line
	}
	var b []byte
	for _, r := range string(line) {
		if shown(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}
