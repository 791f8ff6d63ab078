package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestNothingBeforeMain: no package of this program has work before main, because every command
// would pay for it: in time, and in memory for the code that ran. Package initproc is the
// exception, for a process that is an init never comes to main.
func TestNothingBeforeMain(t *testing.T) {
	cmd := command(t, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, trace.Bytes())
	}
	seen := 0
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		pkg, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "init "), " ")
		name, own := strings.CutPrefix(pkg, module+"/")
		switch {
		case !own || name == "cmd/fiador" || strings.HasSuffix(name, "test"): // the tests themselves
		case name == "harness/sandbox/initproc":
			seen++
		default:
			t.Errorf("%s has work before main: a table is a literal of constants, or a lazy.Value", name)
		}
	}
	if seen != 1 {
		t.Error("the trace does not have package initproc")
	}
}
