package argv_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/argv"
	"github.com/fiador/fiador/specs/specstest"
)

var update = flag.Bool("update", false, "write the lists of the page")

// TestDetectorsPage: detectors.md prints the closed lists of this detector.
func TestDetectorsPage(t *testing.T) {
	tables := argv.Tables()
	specstest.Lists(t, "../../specs/detectors.md", tables, *update)
	for _, entry := range []string{"node -e", "node --import", "python -c", "npx -c", "npx STDIN", "npm config set", "node STDIN",
		"node --test-reporter", "awk PROGRAM"} {
		if !slices.Contains(tables["inline_code"], entry) {
			t.Errorf("inline_code lacks %q", entry)
		}
	}
}
