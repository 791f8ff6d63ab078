package prose_test

import (
	"flag"
	"testing"

	"github.com/fiador/fiador/kernel/prose"
	"github.com/fiador/fiador/specs/specstest"
)

var update = flag.Bool("update", false, "write the lists of the page")

// TestDetectorsPage: detectors.md prints the closed lists of this detector.
func TestDetectorsPage(t *testing.T) {
	tables := prose.Tables()
	specstest.Lists(t, "../../specs/detectors.md", tables, *update)
}
