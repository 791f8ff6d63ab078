package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain shows every character that does not print as itself in its escaped form:
// control characters, line ends, direction marks, characters without width, bytes
// that are not UTF-8. What it returns is one line of valid UTF-8.
func Plain(s string) string {
	ok := utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !shows(r) }) < 0
	if ok {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shows(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shows says whether a character prints as itself. Fillers are letters to Unicode
// and show nothing.
func shows(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0:
		return false
	}
	return unicode.IsPrint(r)
}

// inert is Plain of a text that no command to a runner of workflows stands in: one
// that begins with ##[ is obeyed wherever it stands in a line.
func inert(s string) string { return strings.ReplaceAll(Plain(s), "##[", `#\u0023[`) }

// cut is s if it has at most n UTF-16 code units, and otherwise as many whole
// characters of it as fit into n units together with the "…" behind them.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	units, end := 0, 0
	for i, r := range s {
		if units < n {
			end = i
		}
		if units += width(r); units > n {
			return s[:end] + "…"
		}
	}
	return s
}

// units is how many UTF-16 code units a text takes.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += width(r)
	}
	return n
}

// width is how many UTF-16 code units a character takes.
func width(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
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

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
