// Package screen owns how text of others is shown to people: a text that it returns moves
// no cursor, hides nothing, and is no command to a shell or to the runner of a workflow.
package screen

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Plain escapes every character that does not print as itself: control characters, line
// ends, direction marks, characters without width, variation selectors, bytes that are
// not UTF-8. The result is one line of valid UTF-8. It contains no command that the
// runner of a workflow obeys anywhere in a line: in ##[error], ##vso[task] and the like,
// the second # is escaped too.
func Plain(s string) string {
	ok := utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !canon.Shows(r) }) < 0
	if ok {
		return Inert(s)
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case canon.Shows(r):
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
	return Inert(b.String())
}

// Inert returns a text without ##[command] and ##name[command], which a runner obeys
// anywhere in a line. In a JSON string the escapes mean the same characters.
func Inert(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "##")
		if i < 0 {
			break
		}
		b.WriteString(s[:i+1])
		if s = s[i+1:]; strings.HasPrefix(strings.TrimLeftFunc(s[1:], isLetter), "[") {
			b.WriteString(`\u0023`)
			s = s[1:]
		}
	}
	b.WriteString(s)
	return b.String()
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
