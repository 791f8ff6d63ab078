package transcript

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns argv as a line of text that bash can read: eval of "set -- " and the
// line sets the positional parameters to argv, byte for byte (TestQuoteBash). The line
// is valid UTF-8 and has no control characters, whatever argv has (FuzzQuote).
//
// Words are joined by one blank. A word that has only A-Z a-z 0-9 _ @ % + = : , . / - is
// unchanged. A first word with "=" is the exception, because it would be an assignment.
// Any other word is made of these parts:
//
//	'it'\''s so'     text, a quote in it as shown
//	$'\n\t\r\x1b'   control characters, U+2028, U+2029 and bytes that are not UTF-8
//	''              nothing at all
//
// A NUL becomes \x00, which bash cannot read; no system has a NUL in an argv.
func Quote(argv []string) string {
	var b strings.Builder
	for i, word := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if bare(word) && (i > 0 || !strings.Contains(word, "=")) {
			b.WriteString(word)
		} else {
			quoteWord(&b, word)
		}
	}
	return b.String()
}

// bare says whether a word has no character that is special to a shell.
func bare(word string) bool {
	for i := range len(word) {
		c := word[i]
		if !('A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0) {
			return false
		}
	}
	return word != ""
}

func quoteWord(b *strings.Builder, word string) {
	if word == "" {
		b.WriteString("''")
	}
	for word != "" {
		open := "'"
		n := textLen(word)
		if n == 0 {
			open, n = "$'", oddLen(word)
		}
		b.WriteString(open)
		if open == "'" {
			b.WriteString(strings.ReplaceAll(word[:n], "'", `'\''`))
		} else {
			writeEscaped(b, word[:n])
		}
		b.WriteByte('\'')
		word = word[n:]
	}
}

// oddAt says whether the beginning of s must be escaped in a line of text, and returns
// the length of that beginning. s is not empty.
func oddAt(s string) (odd bool, size int) {
	r, size := utf8.DecodeRuneInString(s)
	return r == utf8.RuneError && size == 1 || unicode.IsControl(r) || r == '\u2028' || r == '\u2029', size
}

// textLen returns the number of bytes at the beginning of s that need no escape in a
// line of text; oddLen that of bytes that need one.
func textLen(s string) int { return runLen(s, false) }
func oddLen(s string) int  { return runLen(s, true) }

func runLen(s string, odd bool) (n int) {
	for n < len(s) {
		is, size := oddAt(s[n:])
		if is != odd {
			break
		}
		n += size
	}
	return n
}

func writeEscaped(b *strings.Builder, s string) {
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		case '\r':
			b.WriteString(`\r`)
		default:
			fmt.Fprintf(b, `\x%02x`, c)
		}
	}
}

// escape returns a text for a META line. It writes control characters, U+2028, U+2029
// and bytes that are not UTF-8 as Quote does, without the quotes. Backslashes are
// unchanged, so a second escape changes nothing.
func escape(s string) string {
	if textLen(s) == len(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		n := textLen(s)
		b.WriteString(s[:n])
		s = s[n:]
		n = oddLen(s)
		writeEscaped(&b, s[:n])
		s = s[n:]
	}
	return b.String()
}
