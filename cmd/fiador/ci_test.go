package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRaceSkipsExist: every test that CI leaves out of the race detector exists under that
// name, so that a renamed test does not come back unseen, and no name is listed twice.
func TestRaceSkipsExist(t *testing.T) {
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^go test -race -skip '\^\(([^']+)\)\$' \./\.\.\.$`).FindSubmatch(ci)
	if list == nil {
		t.Fatal(".ci/run has no such line")
	}
	tests := declaredTests(t)
	seen := map[string]bool{}
	for _, name := range strings.Split(string(list[1]), "|") {
		if seen[name] {
			t.Errorf("%s: listed twice", name)
		}
		seen[name] = true
		if !regexp.MustCompile(`(?m)^` + name + `$`).MatchString(tests) {
			t.Errorf("%s: no test has this name", name)
		}
	}
}

// declaredTests lists the name of every test of the module, one a line.
func declaredTests(t *testing.T) string {
	var names strings.Builder
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(src, -1) {
			names.Write(m[1])
			names.WriteByte('\n')
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names.String()
}
