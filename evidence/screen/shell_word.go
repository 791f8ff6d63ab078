package screen

import (
	"fmt"
	"strings"
)

// ShellWord quotes a word for a shell. A word with invisible characters, or with a command
// of a workflow runner, needs a shell that supports $'…'.
func ShellWord(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+:,./-_", r)
	}
	switch {
	case Plain(s) != s, strings.Contains(s, "##["):
		var b strings.Builder
		for _, c := range []byte(s) {
			if c >= ' ' && c <= '~' && !strings.ContainsRune(`'\#`, rune(c)) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		return "$'" + b.String() + "'"
	case s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0:
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
