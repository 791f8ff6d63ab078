package specs_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
)

var update = flag.Bool("update", false, "write the generated pages")

// TestDetectorsPage: detectors.md prints the kernel's closed lists.
func TestDetectorsPage(t *testing.T) {
	about := map[string]string{
		"control_paths":       "A path falls into one of these at any segment, whatever its case: they switch version control, CI, hooks or the gate itself, or something runs them without being asked.",
		"agent_paths":         "What coding agents read as instructions, at any segment, whatever its case: a write of it is a finding of its own.",
		"reserved_roots":      "Top folders of the bundle's own outputs.",
		"shells":              "A command of one of these names runs what its arguments or its input say.",
		"wrappers":            "These start another command.",
		"runners":             "These run what a package says; inline code is listed for them as well.",
		"interpreters":        "These run a program in their language.",
		"inline_code":         "What makes an argument code instead of a file.",
		"network_needed":      "What a package manager cannot do without a network. URL stands for a package that is named by a URL or a git address (`acme/x`, `github:acme/x`), behind `name@` or not.",
		"path_arguments":      "Arguments that are looked at as paths: options whose value is one, and the script.",
		"placeholder_words":   "What counts as a placeholder in a goal or a constraint.",
		"contradiction_terms": "Opposites: two constraints that say both of one thing contradict each other.",
	}
	var b strings.Builder
	b.WriteString("# Detectors\n\nThe closed lists behind the kernel's findings, generated from the kernel (`go test ./specs -run DetectorsPage -update`).\n" +
		"Lines that must and must not trigger are in `vectors/detect/`.\n")
	tables := kernel.DetectorTables()
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if about[name] == "" {
			t.Errorf("the list %s is not described", name)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", name, about[name])
		for _, entry := range tables[name] {
			fmt.Fprintf(&b, "- `%s`\n", entry)
		}
	}
	if *update {
		if err := os.WriteFile("detectors.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("detectors.md")
	if err != nil || string(got) != b.String() {
		t.Errorf("detectors.md is stale (%v): run go test ./specs -run DetectorsPage -update", err)
	}
}

// TestPagesNameRealTests: every test that a page of this folder names exists.
func TestPagesNameRealTests(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 8 {
		t.Fatalf("%d pages (%v)", len(pages), err)
	}
	named := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`").FindAllStringSubmatch(string(b), -1) {
			named++
			if !have[name[1]] {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d tests are named", named)
	}
}
