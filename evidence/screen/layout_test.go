package screen_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/screen"
)

const hash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestLayout: lines are broken at spaces and indented, a word that is too wide stands alone,
// and styles are closed at the end of a line and opened again in the next.
func TestLayout(t *testing.T) {
	for _, tc := range []struct {
		layout   screen.Layout
		in, want string
	}{
		{screen.Layout{}, "a " + hash + "\n", "a " + hash + "\n"},
		{screen.Layout{Columns: 10}, "short\n\nlines\n", "short\n\nlines\n"},
		{screen.Layout{Columns: 10}, "0123456789\n01234 6789 1\n", "0123456789\n01234 6789\n  1\n"},
		{screen.Layout{Columns: 20}, "ab  cdefg hijkl mnopqr stu", "ab  cdefg hijkl\n    mnopqr stu"},
		{screen.Layout{Columns: 20}, "ab  cde  fghijklmno pqrstu vw", "ab  cde  fghijklmno\n         pqrstu vw"},
		{screen.Layout{Columns: 20}, "long_first_word  and more", "long_first_word  and\n  more"},
		{screen.Layout{Columns: 10}, "a 012345678901234567 b\n", "a\n012345678901234567\n  b\n"},
		{screen.Layout{Columns: 10}, "hint: 012345678 b\n", "hint:\n 012345678\n  b\n"},
		{screen.Layout{Columns: 12}, "  | quoted text of another\n", "  | quoted\n  | text of\n  | another\n"},
		{screen.Layout{Columns: 10}, "\x1b[31mred words here\x1b[0m and none", "\x1b[31mred words\x1b[0m\n  \x1b[31mhere\x1b[0m and\n  none"},
		{screen.Layout{Columns: 10}, "one \x1b[1mbold\x1b[0m   \x1b[2mdim\x1b[0m", "one \x1b[1mbold\x1b[0m\n  \x1b[2mdim\x1b[0m"},
		{screen.Layout{Columns: 10}, "\x1b[1mexact word\x1b[0m", "\x1b[1mexact word\x1b[0m"},
		{screen.Layout{Columns: 10}, "\x1b[2mname    \x1b[0m  text of it", "\x1b[2mname\x1b[0m\n  text of\n  it"},
		{screen.Layout{Columns: 8}, "漢字 漢字 e\u0301e\u0301e\u0301", "漢字\n  漢字\n  e\u0301e\u0301e\u0301"},
		{screen.Layout{Columns: 8}, "e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301", "e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301"},

		{screen.Layout{Short: true}, "at " + hash + ", " + hash[7:] + "\n", "at sha256:0123456789ab…, 0123456789ab…\n"},
		{screen.Layout{Short: true}, "\x1b[1m" + hash + "\x1b[0m \"" + hash + "\" (" + hash + "): " + hash + ".", "\x1b[1msha256:0123456789ab…\x1b[0m \"sha256:0123456789ab…\" (sha256:0123456789ab…): sha256:0123456789ab…."},
		{screen.Layout{Short: true}, "a/" + hash[7:] + " " + hash[7:] + "/b " + hash[7:] + ".json " + hash + "0 x" + hash[7:], "a/" + hash[7:] + " " + hash[7:] + "/b " + hash[7:] + ".json " + hash + "0 x" + hash[7:]},
		{screen.Layout{Columns: 24, Short: true}, "at " + hash, "at sha256:0123456789ab…"},
	} {
		if got := tc.layout.Text(tc.in); got != tc.want {
			t.Errorf("%+v: %q\ngot  %q\nwant %q", tc.layout, tc.in, got, tc.want)
		}
	}
}

// TestLayoutIsLinear: an answer with many hashes is laid out in the time of its length.
func TestLayoutIsLinear(t *testing.T) {
	text := strings.Repeat(hash+"  entry\n", 30_000)
	var got string
	took := time.Minute
	for tries := 0; took > 10*time.Second && tries < 3; tries++ { // a machine may stall once
		began := time.Now()
		got = screen.Layout{Columns: 80, Short: true}.Text(text)
		took = time.Since(began)
	}
	if took > 10*time.Second || strings.Count(got, "…") != 30_000 {
		t.Errorf("%d hashes are shortened, in %s", strings.Count(got, "…"), took)
	}
}

var styles = regexp.MustCompile("\x1b\\[[0-9]*m")

// FuzzLayout: the words stay what they are and in their order, a line is wider than the
// screen only if it has one word, and no style goes on over the end of a line.
func FuzzLayout(f *testing.F) {
	f.Add("CMD_NOT_ALLOWED  /actions/1/argv/0  \"curl\" is not in allowed_commands (node, npm)", byte(40))
	f.Add("    漢字漢字  e\u0301 "+hash+" end", byte(20))
	f.Add("  | a b c d e f g h i j k l m n o p q r s t u v w x y z", byte(21))
	f.Fuzz(func(t *testing.T, s string, columns byte) {
		s = screen.Plain(s)
		bar := strings.HasPrefix(strings.TrimLeft(s, " "), "| ")
		l := screen.Layout{Columns: 20 + int(columns)}
		painted := ""
		for i, w := range strings.Split(s, " ") {
			if i > 0 {
				painted += " "
			}
			painted += screen.Paint([]string{screen.Red, "", screen.Bold}[i%3], w)
		}
		for _, in := range []string{s, painted, screen.Paint(screen.Dim, s)} {
			out := l.Text(in)
			for _, line := range strings.Split(out, "\n") {
				if n := strings.Count(line, "\x1b["); n%2 != 0 {
					t.Fatalf("%q: a style is open at the end of %q", in, line)
				}
				text := styles.ReplaceAllString(line, "")
				if utf8.RuneCountInString(strings.TrimRight(text, " ")) > l.Columns && len(strings.Fields(text)) > 1+strings.Count(text, "| ") {
					if onlyNarrow(text) {
						t.Fatalf("%q: %q is wider than %d", in, text, l.Columns)
					}
				}
			}
			if got, want := fields(out), fields(s); !bar && !slices.Equal(got, want) {
				t.Fatalf("%q: got the words %q, want %q", in, got, want)
			}
		}
	})
}

func fields(s string) []string { return strings.Fields(styles.ReplaceAllString(s, "")) }

// onlyNarrow reports whether each character takes one column.
func onlyNarrow(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x2ff }) < 0
}
