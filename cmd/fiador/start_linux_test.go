package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingBeforeMain: no package of this program has work before main, because every command
// would pay for it: in time, and in memory for the code that ran. Package initproc is the
// exception, for a process that is an init never comes to main. The same holds for the shim,
// which starts twice for each task of a worker.
func TestNothingBeforeMain(t *testing.T) {
	t.Parallel()
	t.Run("fiador", func(t *testing.T) { nothingBeforeMain(t, command(t, "version"), 0) })
	t.Run("fiador-shim", func(t *testing.T) {
		shim := filepath.Join(t.TempDir(), "shim")
		if out, err := exec.Command("go", "build", "-o", shim, root+"/cmd/fiador-shim").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		nothingBeforeMain(t, exec.Command(shim, "it takes no argument"), 1)
	})
}

// nothingBeforeMain holds the packages of a program, which ends with this status, against
// TestNothingBeforeMain.
func nothingBeforeMain(t *testing.T, cmd *exec.Cmd, status int) {
	t.Helper()
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != status {
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
