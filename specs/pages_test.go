package specs_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
)

var update = flag.Bool("update", false, "write the generated pages")

// TestDetectorsPage: detectors.md prints the kernel's closed lists.
func TestDetectorsPage(t *testing.T) {
	about := map[string]string{
		"control_paths":       "A path falls into one of these at any segment, whatever its case: they switch version control, CI, hooks or the gate itself.",
		"reserved_roots":      "Top folders of the bundle's own outputs.",
		"shells":              "A command of one of these names runs what its arguments or its input say.",
		"wrappers":            "These start another command.",
		"runners":             "These run what a package says; inline code is listed for them as well.",
		"interpreters":        "These run a program in their language.",
		"inline_code":         "What makes an argument code instead of a file.",
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
