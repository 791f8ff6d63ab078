package kernel

import (
	"slices"
	"testing"
)

func TestDetectorTables(t *testing.T) {
	tables := DetectorTables()
	for _, name := range []string{"control_paths", "reserved_roots", "shells", "wrappers", "runners", "interpreters",
		"inline_code", "network_needed", "path_arguments", "placeholder_words", "contradiction_terms"} {
		list := tables[name]
		if len(list) == 0 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("table %q is empty, unsorted or has an entry twice", name)
		}
	}
	if len(tables) != 12 {
		t.Errorf("%d tables, want 12", len(tables))
	}
	for _, entry := range []string{"node -e", "node --import", "python -c", "npx -c", "npx STDIN", "npm config set", "node STDIN",
		"node --test-reporter", "awk PROGRAM"} {
		if !slices.Contains(tables["inline_code"], entry) {
			t.Errorf("inline_code lacks %q", entry)
		}
	}
	tables["shells"][0] = "changed"
	tables["control_paths"][0] = "changed"
	if DetectorTables()["control_paths"][0] == "changed" {
		t.Error("the tables can be changed from outside")
	}
}
