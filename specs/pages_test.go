package specs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDetectorsPageSections: detectors.md has one section for each closed list of the
// kernel's detectors, in order. Each says what it lists. The detectors check the lists.
func TestDetectorsPageSections(t *testing.T) {
	page, err := os.ReadFile("detectors.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^## (.+)\n\n([A-Z].+\.)\n\n- `).FindAllStringSubmatch(string(page), -1) {
		names = append(names, m[1])
	}
	want := []string{"agent_paths", "contradiction_terms", "control_paths", "inline_code", "interpreters", "network_needed",
		"path_arguments", "placeholder_words", "reserved_roots", "runners", "shells", "wrappers"}
	if !slices.Equal(names, want) || strings.Count(string(page), "\n## ") != len(want) {
		t.Errorf("detectors.md describes %q", names)
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
