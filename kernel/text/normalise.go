package text

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// UnicodeVersion is the version of the normalisation tables that define the hashes of
// this kernel version. The tables come with the library and change with the Go release.
// A test fails when the tables have another version.
const UnicodeVersion = "15.0.0"

// Normalise drops one leading byte order mark, replaces CRLF and CR by LF, and composes
// characters (NFC).
func Normalise(s string) string {
	s = strings.TrimPrefix(s, "\ufeff")
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	return norm.NFC.String(s)
}

// NormaliseGoal applies Normalise to a goal, and trims white space at both ends.
func NormaliseGoal(s string) string {
	return strings.TrimFunc(Normalise(s), IsSpace)
}

// NormaliseConstraint trims a constraint, and replaces each inner run of spaces and
// tabs by one space.
func NormaliseConstraint(s string) string {
	s = strings.TrimFunc(Normalise(s), IsSpace)
	if !strings.Contains(s, "\t") && !strings.Contains(s, "  ") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for i := range len(s) {
		c := s[i]
		if c == ' ' || c == '\t' {
			gap = true
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// IsSpace says whether trimming removes r. The closed list holds the characters with
// the property White_Space, and U+FEFF. Programming languages disagree about some
// characters, so the list is written out (specs/intent.md, "Normalisation").
func IsSpace(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0d, r >= 0x2000 && r <= 0x200a:
		return true
	}
	switch r {
	case 0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return false
}

// isInvisible says whether r shows nothing of its own. The closed list holds format
// characters, fillers, variation selectors and tags.
func isInvisible(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f,
		r >= 0x200b && r <= 0x200f,
		r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f,
		r >= 0xfe00 && r <= 0xfe0f,
		r >= 0xfff0 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	switch r {
	case 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180c, 0x180d, 0x180e, 0x180f,
		0x2800, 0x3164, 0xfeff, 0xffa0:
		return true
	}
	return false
}

// IsBlank says whether s has no visible character.
func IsBlank(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size > 1 {
				return false
			}
			continue
		}
		if !IsSpace(r) && !isInvisible(r) {
			return false
		}
	}
	return true
}
