package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestColumn: a small checkout is counted as it is, without the files that do not belong
// to it.
func TestColumn(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n", "a/a.go": "// Package a is small.\npackage a\n\nimport \"regexp\"\n\nvar re, f = regexp.MustCompile(`x`), func() {}\n\nvar late = sync.OnceValue(func() int { return g() })\n",
		"a/b.go":      "package a\n\ntype T[X any] struct{}\n\nfunc (t *T[X]) M() any {\n\treturn map[string]any{\"e\": &result.RunError{}}\n}\n",
		"a/a_test.go": "package a\n\nfunc TestA() {}\n", "a/testdata/x/x.go": "package x\n", "bench/b.go": "package b\n", "in/go.mod": "module in\n", "in/in.go": "package in\n",
		"cmd/c/c.go": "package main\n\nimport _ \"m/a\"\n", "cmd/c/ca.go": "package main\n", "fix/fix.go": "package fix\n\nvar list = map[string]any{}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse()
	if err := h.measure(root); err != nil {
		t.Fatal(err)
	}
	want := []string{"2", "15", "15 a", "2", "2 a", "3", "3", "7.7 %", "2", "19", "10", "6", "1", "1 a.T", "1"}
	if got := h.column(); !slices.Equal(got, want) || len(want) != len(rows) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
