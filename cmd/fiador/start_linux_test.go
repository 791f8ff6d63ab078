package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStartMakesNoTables: before main, the packages of the kernel make next to nothing, for
// the compiler lays out their lists. The other packages of the program make little, beside
// those of tests. The numbers are allocations, and the limits have a margin.
func TestStartMakesNoTables(t *testing.T) {
	cmd := command(t, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, trace.Bytes())
	}
	seen := 0
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		pkg, rest, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "init "), " ")
		name, own := strings.CutPrefix(pkg, module+"/")
		if !own || name == "cmd/fiador" || strings.HasSuffix(name, "test") {
			continue
		}
		var at, took float64
		var size, made int
		if _, err := fmt.Sscanf(rest, "@%g ms, %g ms clock, %d bytes, %d allocs", &at, &took, &size, &made); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		seen++
		most := 40
		if name == "kernel" || strings.HasPrefix(name, "kernel/") {
			most = 4
		}
		if made > most {
			t.Errorf("%s makes %d allocations before main, and may make %d: a table is a literal of constants, or is made at first use", name, made, most)
		}
	}
	if seen == 0 {
		t.Error("the trace has no package of this module")
	}
}
