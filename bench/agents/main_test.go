package agents

import (
	"flag"
	"os"
	"testing"
)

// scratch is a folder for what the tests make once.
var scratch string

// TestMain runs the tests, or what the tests start this program for.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "probe" {
		serveProbe(os.Args[2])
		return
	}
	if status, done := alone(); done {
		os.Exit(status)
	}
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "agents")
	if err != nil {
		panic(err)
	}
	scratch = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}
