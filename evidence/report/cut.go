package report

import (
	"strings"
	"unicode/utf16"
)

// cut returns s if it has at most n UTF-16 code units. Otherwise it returns as many
// whole characters as fit into n units together with a final "…".
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	units, end := 0, 0
	for i, r := range s {
		if units < n {
			end = i
		}
		if units += utf16.RuneLen(r); units > n {
			return s[:end] + "…"
		}
	}
	return s
}

// units returns the number of UTF-16 code units of a text.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// squeeze joins the parts that are not empty.
func squeeze(sep string, parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, sep)
}
