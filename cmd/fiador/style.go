package main

import "fmt"

// The styles of a text on a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

// paint returns a text in a style. An empty style changes nothing.
func paint(style, s string) string {
	if style == "" || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// count returns how many things of a word there are, as in "1 file" and "2 files".
func count[N int | int64](n N, word string) string {
	return numberOf(n, word, word+"s")
}

// numberOf is count for a word with a plural of its own.
func numberOf[N int | int64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
