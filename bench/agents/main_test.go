package agents

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs the tests, or what the tests start this program for.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "probe" {
		serveProbe(os.Args[2])
		return
	}
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
