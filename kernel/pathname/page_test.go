package pathname_test

import (
	"flag"
	"testing"

	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/specs/specstest"
)

var update = flag.Bool("update", false, "write the lists of the page")

// TestDetectorsPage: detectors.md prints the closed lists of this detector.
func TestDetectorsPage(t *testing.T) {
	tables := pathname.Tables()
	specstest.Lists(t, "../../specs/detectors.md", tables, *update)
	tables["control_paths"][0] = "changed"
	if pathname.Tables()["control_paths"][0] == "changed" {
		t.Error("the lists can be changed from outside")
	}
}
