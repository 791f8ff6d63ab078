package screen

import "fmt"

// Styles of a text on a terminal.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Dim    = "2"
	Bold   = "1"
)

// Paint returns a text in a style. An empty style changes nothing.
func Paint(style, s string) string {
	if style == "" || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// Count returns how many things of a word there are, as in "1 file" and "2 files".
func Count[N int | int64](n N, word string) string {
	return Number(n, word, word+"s")
}

// Number is Count for a word with a plural of its own.
func Number[N int | int64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
