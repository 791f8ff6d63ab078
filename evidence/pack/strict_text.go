package pack

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fiador/fiador/ledger"
)

// The forms of texts, as functions. None takes more than one pass.

// upTo is any string of at most n characters.
func upTo(n int) func(string) bool {
	return func(s string) bool { return len(s) <= n || utf8.RuneCountInString(s) <= n }
}

func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool    { return c >= 'A' && c <= 'Z' }
func isAlnum(c byte) bool    { return asciiDigit(c) || isLower(c) || isUpper(c) }
func isHexDigit(c byte) bool { return asciiDigit(c) || c >= 'a' && c <= 'f' }

// isHex says whether s is n lower-case hexadecimal digits.
func isHex(s string, n int) bool { return len(s) == n && onlyOf(s, isHexDigit) }

func isSum(s string) bool { return isHex(s, 64) }

// identifier accepts a prefix and 16 hexadecimal digits.
func identifier(prefix string) func(string) bool {
	return func(s string) bool {
		digits, ok := strings.CutPrefix(s, prefix)
		return ok && isHex(digits, 16)
	}
}

// isVersion accepts three numbers and perhaps a hyphen and a suffix, 64 characters at
// most.
func isVersion(s string) bool {
	if len(s) > 64 {
		return false
	}
	numbers, suffix, suffixed := strings.Cut(s, "-")
	if suffixed && (suffix == "" || !onlyOf(suffix, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' })) {
		return false
	}
	n := 0
	for part := range strings.SplitSeq(numbers, ".") {
		n++
		if part == "" || !onlyOf(part, asciiDigit) {
			return false
		}
	}
	return n == 3
}

func isRunID(s string) bool { return ledger.RunID(s) }

// looksLikeTime accepts the layout of a time in UTC with milliseconds, whatever its
// digits are.
func looksLikeTime(s string) bool {
	const layout = "0000-00-00T00:00:00.000Z"
	if len(s) != len(layout) {
		return false
	}
	for i := range len(s) {
		if layout[i] == '0' && !asciiDigit(s[i]) || layout[i] != '0' && s[i] != layout[i] {
			return false
		}
	}
	return true
}

// moment is the time that a text in this layout is, if it is one of the calendar.
func moment(s string) (time.Time, bool) {
	if !looksLikeTime(s) {
		return time.Time{}, false
	}
	t, err := time.Parse(ledger.TimeFormat, s)
	return t, err == nil
}

func isMoment(s string) bool { _, ok := moment(s); return ok }

// isProfileName accepts the names of profiles.
func isProfileName(s string) bool {
	return s != "" && len(s) <= 64 && isLower(s[0]) &&
		onlyOf(s, func(c byte) bool { return isLower(c) || asciiDigit(c) || c == '_' || c == '-' })
}

// isCommandName accepts a bare name of a command.
func isCommandName(s string) bool {
	return s != "" && len(s) <= 128 && onlyOf(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '/' && c != '*' })
}

// isFolder accepts a clean relative folder.
func isFolder(s string) bool {
	if s == "" || len(s) > 1024 && utf8.RuneCountInString(s) > 1024 {
		return false
	}
	if !onlyOf(s, func(c byte) bool { return c >= ' ' && c != 0x7f && c != '\\' && c != '*' }) {
		return false
	}
	for seg := range strings.SplitSeq(s, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}
