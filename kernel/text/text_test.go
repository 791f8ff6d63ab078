package text

import (
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func TestUnicodeVersionIsPinned(t *testing.T) {
	if norm.Version != UnicodeVersion {
		t.Errorf("the normalisation tables are Unicode %s; specs/intent.md and UnicodeVersion pin %s", norm.Version, UnicodeVersion)
	}
	if unicode.Version != UnicodeVersion {
		t.Errorf("the character classes are Unicode %s; UnicodeVersion pins %s", unicode.Version, UnicodeVersion)
	}
}

func TestSpaceIsAClosedList(t *testing.T) {
	var got []rune
	for r := rune(0); r <= 0x10ffff; r++ {
		if IsSpace(r) {
			got = append(got, r)
		}
	}
	want := []rune{0x9, 0xa, 0xb, 0xc, 0xd, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005,
		0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff}
	if string(got) != string(want) {
		t.Errorf("got %U", got)
	}
}

// TestWords: a word is found whole, and a prefix at the beginning of a word alone.
func TestWords(t *testing.T) {
	const list Words = "npm pnpm\n\tyarn-2 yarn"
	for word, want := range map[string]bool{
		"npm": true, "pnpm": true, "yarn": true, "yarn-2": true,
		"": false, "np": false, "pm": false, "arn": false, "yarn-": false, "npm pnpm": false, "NPM": false,
	} {
		if got := list.Has(word); got != want {
			t.Errorf("Has(%q) = %v", word, got)
		}
	}
	for prefix, want := range map[string]bool{"n": true, "pn": true, "yarn-": true, "": false, "pm": false, "2": false, "npm ": false} {
		if got := list.Starts(prefix); got != want {
			t.Errorf("Starts(%q) = %v", prefix, got)
		}
	}
}

// TestPlainText: what shows nothing goes, a look-alike becomes its letter, and each byte
// knows the place it came from.
func TestPlainText(t *testing.T) {
	if s, at := PlainText("TODO"); s != "TODO" || at != nil {
		t.Errorf("plain text became %q, %v", s, at)
	}
	s, at := PlainText("\uff34\u200bO\u3000x")
	if s != "TO x" {
		t.Errorf("got %q", s)
	}
	if want := []int{0, 6, 7, 10}; len(at) != len(want) || at[0] != want[0] || at[1] != want[1] || at[2] != want[2] || at[3] != want[3] {
		t.Errorf("places %v, want %v", at, want)
	}
}
