// Package specstest has the fixtures of tests about documents and their schemas. Tests alone
// import it.
package specstest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// Repeated describes a long text.
type Repeated struct {
	Before string `json:"before"`
	Unit   string `json:"unit"`
	Times  int    `json:"times"`
	After  string `json:"after"`
}

// Source returns the bytes that a vector gives as a text, as base64 or as a repeated text.
// It returns nil if the vector gives none of them.
func Source(t testing.TB, text, encoded *string, repeated *Repeated) []byte {
	t.Helper()
	switch {
	case text != nil:
		return []byte(*text)
	case encoded != nil:
		raw, err := base64.StdEncoding.Strict().DecodeString(*encoded)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	case repeated != nil:
		return []byte(repeated.Before + strings.Repeat(repeated.Unit, repeated.Times) + repeated.After)
	}
	return nil
}

// Valid checks a document by its schema and returns its value.
func Valid(t *testing.T, set *specs.Set, kind specs.Kind, raw []byte) any {
	t.Helper()
	doc, err := canon.Parse(raw, result.MaxBytes)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	if list, err := set.Validate(kind, doc.Value()); err != nil || len(list) > 0 {
		t.Errorf("%s: %v %v", kind, list, err)
	}
	return doc.Value()
}

// Encode returns v as JSON on one line in plain ASCII.
func Encode(t testing.TB, v any) string {
	t.Helper()
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range strings.TrimSuffix(raw.String(), "\n") {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b.WriteString(`\u` + strconv.FormatUint(0x10000|uint64(unit), 16)[1:])
		}
	}
	return b.String()
}

// NewSpecs returns the embedded schemas.
func NewSpecs(t testing.TB) *specs.Set {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// PlacesOf returns the path to every value in v.
func PlacesOf(v any, way []string) [][]string {
	out := [][]string{slices.Clone(way)}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, PlacesOf(v[name], append(way, name))...)
		}
	case []any:
		for i := range v {
			out = append(out, PlacesOf(v[i], append(way, strconv.Itoa(i)))...)
		}
	}
	return out
}

// Replaced returns v with another value at the end of a path.
func Replaced(v any, way []string, to any) any {
	if len(way) == 0 {
		return to
	}
	switch v := v.(type) {
	case map[string]any:
		c := maps.Clone(v)
		c[way[0]] = Replaced(v[way[0]], way[1:], to)
		return c
	case []any:
		c := slices.Clone(v)
		i, _ := strconv.Atoi(way[0])
		c[i] = Replaced(v[i], way[1:], to)
		return c
	}
	return v
}

// Lists compares a page of lists with those of a detector. Each list has a section of its
// name, and each entry is a line. With update, Lists writes the lines.
func Lists(t *testing.T, page string, lists map[string][]string, update bool) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, list := range lists {
		slices.Sort(list)
		if len(list) == 0 || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("list %q is empty or has an entry twice", name)
		}
		lines := regexp.MustCompile(`(?m)^## ` + name + `\n\n.+\n\n((?:- .+\n)*)`).FindStringSubmatchIndex(text)
		if lines == nil {
			t.Errorf("%s has no section %s", page, name)
			continue
		}
		var want strings.Builder
		for _, entry := range list {
			want.WriteString("- `" + entry + "`\n")
		}
		text = text[:lines[2]] + want.String() + text[lines[3]:]
	}
	if update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(raw) {
		t.Errorf("%s is stale: run this test with -update", page)
	}
}
