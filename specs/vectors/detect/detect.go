// Package detect reads the vectors of the detectors, for the tests of the packages that
// they hold. It owns the shape of a vector and what holds for every file of them.
package detect

import (
	"embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:embed *.json
var files embed.FS

// Vector is one line of a file. Which members it has depends on the detector.
type Vector struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`
	A      string   `json:"a"`
	B      string   `json:"b"`
	Path   string   `json:"path"`
	Argv   []string `json:"argv"`
	Stdin  bool     `json:"stdin"`
	Expect []string `json:"expect"`
}

// Read reads one file and checks it: plain ASCII, unique names, and at least as many
// vectors that fire, and that do not, as wanted.
func Read(t testing.TB, name string, fire, quiet int) []Vector {
	t.Helper()
	src, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", name, i)
	}
	var list []Vector
	if err := json.Unmarshal(src, &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	fires := 0
	for _, v := range list {
		if seen[v.Name] {
			t.Errorf("%s: two vectors are called %q", name, v.Name)
		}
		seen[v.Name] = true
		if v.Expect == nil {
			t.Errorf("%s: %s expects nothing, not even []", name, v.Name)
		}
		if len(v.Expect) > 0 {
			fires++
		}
	}
	if fires < fire || len(list)-fires < quiet {
		t.Errorf("%s: %d vectors fire and %d do not, want %d and %d", name, fires, len(list)-fires, fire, quiet)
	}
	return list
}

// Check compares the report of a detector with a vector.
func (v Vector) Check(t *testing.T, got []string) {
	t.Helper()
	if !slices.Equal(got, v.Expect) {
		t.Errorf("%s: got %q, want %q", v.Name, got, v.Expect)
	}
}

// Slowly gives a detector long texts that are made to be slow. The bound is far above the
// needs of a linear detector, and far below those of a quadratic one.
func Slowly(t *testing.T, detector func(text string)) {
	t.Helper()
	const size = 256 << 10
	units := []string{"a", " ", "<", "<a", "</a", "<a>", "`", "`` ` ", "?", "? ", "{{", "{{a", "[", "[insert ", "to be ", "TBD ", "TODO and ",
		"\n", ".", "stateless ", "not ", "a.b ", "x, ", "\"", "\x00", "\xff", "\u202e", "é", "/", "../", ".git/", "~1", "-", "-e", ": ", "lorem ", "fill in "}
	for _, unit := range units {
		text := strings.Repeat(unit, size/len(unit))
		for tries := 1; ; tries++ { // a machine may stall in one run, and not in three
			start := time.Now()
			detector(text)
			took := time.Since(start)
			if took <= 10*time.Second {
				break
			}
			if tries == 3 {
				t.Errorf("%q repeated took %v", unit, took)
				break
			}
		}
	}
}
