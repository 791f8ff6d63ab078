package work_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/work"
)

// naiveRegions counts edit regions as specs/work.md says it, with the whole table of lengths.
func naiveRegions(before, after string) int {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	common := make([][]int, len(a)+1)
	for i := len(a); i >= 0; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0 && i < len(a); j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	script := "" // k: a line is kept, x: one is deleted or inserted
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i == len(a):
			script, j = script+"x", j+1
		case j == len(b):
			script, i = script+"x", i+1
		case a[i] == b[j]:
			script, i, j = script+"k", i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			script, i = script+"x", i+1
		default:
			script, j = script+"x", j+1
		}
	}
	return len(strings.FieldsFunc(script, func(r rune) bool { return r == 'k' }))
}

func regions(before, after string) int {
	return work.Regions(work.Side{Mode: "100644", Text: []byte(before)}, work.Side{Mode: "100644", Text: []byte(after)})
}

// TestRegionsAll: every pair of short texts of three lines' letters, and longer random ones,
// have as many regions as the whole table gives.
func TestRegionsAll(t *testing.T) {
	texts := []string{""}
	for from := 0; len(texts) < 364; from++ { // up to 5 lines of 3 letters
		for _, line := range []string{"a\n", "b\n", "c\n"} {
			texts = append(texts, texts[from]+line)
		}
	}
	for _, a := range texts {
		for _, b := range texts {
			if got, want := regions(a, b), naiveRegions(a, b); got != want {
				t.Fatalf("%q to %q: %d regions, want %d", a, b, got, want)
			}
		}
	}
	pick := rand.New(rand.NewPCG(1, 2))
	text := func(most, letters int) string {
		var b strings.Builder
		for range pick.IntN(most) {
			fmt.Fprintf(&b, "%d\n", pick.IntN(letters))
		}
		return b.String()
	}
	for range 300 {
		letters := 2 + pick.IntN(200)
		a, b := text(300, letters), text(300, letters)
		if got, want := regions(a, b), naiveRegions(a, b); got != want {
			t.Fatalf("%q to %q: %d regions, want %d", a, b, got, want)
		}
	}
}

// FuzzRegions: no text has more regions than the lines of both and one, equal texts alone have
// none, and short ones have as many as the whole table gives.
func FuzzRegions(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("b\na\n"))
	f.Add([]byte("a\x00"), []byte("\xff\n"))
	f.Add([]byte(strings.Repeat("a\nb\n", 100)), []byte(strings.Repeat("b\nc\n", 100)))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		n := regions(string(a), string(b))
		lines := bytes.Count(a, []byte("\n")) + bytes.Count(b, []byte("\n"))
		if (n == 0) != bytes.Equal(a, b) || n < 0 || n > lines+1 {
			t.Fatalf("%q to %q: %d regions", a, b, n)
		}
		text := utf8.Valid(a) && utf8.Valid(b) && !bytes.Contains(slices.Concat(a, b), []byte{0})
		if want := naiveRegions(string(a), string(b)); text && lines < 200 && n != want {
			t.Fatalf("%q to %q: %d regions, want %d", a, b, n, want)
		}
	})
}

// naiveGlob matches as specs/work.md says it, and tries everything.
func naiveGlob(pattern, path string) bool {
	return naive(strings.Split(pattern, "/"), strings.Split(path, "/"))
}

func naive(p, s []string) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] != "**":
		return len(s) > 0 && naiveSegment([]rune(p[0]), []rune(s[0])) && naive(p[1:], s[1:])
	case len(p) == 1:
		return len(s) > 0
	}
	for i := range len(s) + 1 {
		if naive(p[1:], s[i:]) {
			return true
		}
	}
	return false
}

func naiveSegment(p, s []rune) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '*':
		return naiveSegment(p[1:], s) || len(s) > 0 && naiveSegment(p, s[1:])
	}
	return len(s) > 0 && (p[0] == '?' || p[0] == s[0]) && naiveSegment(p[1:], s[1:])
}

// FuzzGlob: a pattern matches what the matcher that tries everything matches.
func FuzzGlob(f *testing.F) {
	f.Add("a/**/b*?.go", "a/x/y/bcd.go")
	f.Add("**", "a")
	f.Add("é?", "éé")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 12 || len(path) > 24 {
			work.Glob(pattern, path)
			return
		}
		if got, want := work.Glob(pattern, path), naiveGlob(pattern, path); got != want {
			t.Errorf("Glob(%q, %q) is %t", pattern, path, got)
		}
	})
}

// TestGlob: what patterns match.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, yes, no string // paths, parted by blanks
	}{
		{"a", "a", "b aa a/a A"},
		{"*", "a ab .a", "a/b"},
		{"*.go", "a.go .go", "a.gox a/b.go"},
		{"a*b*c", "abc aXbXc abcbc", "ab acb abcd"},
		{"?", "a é", "ab a/b"},
		{"a?c", "abc a?c aéc", "ac a/c abbc"},
		{"**", "a a/b a/b/c", ""},
		{"**/a", "a b/a b/c/a", "ab a/b b/ab"},
		{"a/**", "a/b a/b/c", "a b/a ab"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a b a/b/c ab"},
		{"a/*/b", "a/x/b", "a/b a/x/y/b"},
		{"**/a/**", "a/b x/a/b x/y/a/b/c", "a x/a"},
		{"**/**/a", "a b/a b/c/a", "b"},
		{"a/**/**", "a/b a/b/c", "a"},
		{"**/x*/**/b", "x/b xa/b 1/xa/2/3/b", "b a/b x"},
		{"a**b", "ab axb", "a/b ax/b"},
		{"***", "a", "a/b"},
		{"node_modules/**", "node_modules/a node_modules/.bin/x", "node_modules a/node_modules/b"},
		{"app/[id]/{a,b}!", "app/[id]/{a,b}!", "app/i/a"},
	} {
		for want, paths := range map[bool]string{true: c.yes, false: c.no} {
			for path := range strings.FieldsSeq(paths) {
				if work.Glob(c.pattern, path) != want || naiveGlob(c.pattern, path) != want {
					t.Errorf("%s matches %s: %t", c.pattern, path, !want)
				}
			}
		}
	}
	letters := []string{"a", "b", "*", "?", "**", "/", "/"}
	pick := rand.New(rand.NewPCG(3, 4))
	some := func(n, from int) (s string) {
		for range pick.IntN(n) {
			s += letters[pick.IntN(from)]
		}
		return s
	}
	hits := 0
	for range 20_000 {
		pattern, path := some(10, 7), strings.NewReplacer("*", "/", "?", "/").Replace(some(8, 3))
		got := work.Glob(pattern, path)
		if want := naiveGlob(pattern, path); got != want {
			t.Fatalf("Glob(%q, %q) is %t", pattern, path, got)
		}
		if got {
			hits++
		}
	}
	if hits < 100 {
		t.Errorf("only %d patterns match", hits)
	}
	if work.Glob(strings.Repeat("a*", 400)+"b", strings.Repeat("a", 4000)) || work.Glob(strings.Repeat("**/a/", 200)+"b", strings.Repeat("a/", 2000)+"c") {
		t.Error("matches")
	}
}
