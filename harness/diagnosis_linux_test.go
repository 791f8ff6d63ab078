//go:build linux && (amd64 || arm64)

package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
)

// diagnosed returns the diagnosis of a command in a work folder.
func diagnosed(t *testing.T, isolation sandbox.Isolation, work string, e harness.Exec) (string, *execute.Performed) {
	t.Helper()
	e.Work = work
	p := performed(t, harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), usualTime), e)
	msg, hint := p.Diagnosis()
	if (msg == "") != (hint == "") {
		t.Errorf("%q with the hint %q", msg, hint)
	}
	return msg, p
}

// TestForeignGroup: if a command failed, the diagnosis names a file that it could not
// change because of the file's group. If the command succeeded, the diagnosis names
// nothing.
func TestForeignGroup(t *testing.T) {
	work := t.TempDir()
	name := filepath.Join(work, "sub", "shared")
	treetest.Put(t, name, "a\n")
	treetest.Put(t, filepath.Join(work, "own"), "a\n")
	if err := os.Chown(name, -1, 27); err != nil {
		t.Skipf("a file cannot be given another group here: %v", err)
	}
	msg, p := diagnosed(t, sandbox.Full, work, harness.Exec{Argv: script("echo b >>sub/shared")})
	if !p.Observed.Command.Failed() || !strings.Contains(msg, `"sub/shared"`) || !strings.Contains(msg, "group 27") {
		t.Errorf("%+v: %q", p.Observed.Command, msg)
	}
	if msg, _ := diagnosed(t, sandbox.Full, work, harness.Exec{Argv: script("cat sub/shared; echo b >>own")}); msg != "" {
		t.Errorf("a command that went well: %q", msg)
	}
	if msg, _ := diagnosed(t, sandbox.Confined, work, harness.Exec{Argv: script("echo b >>sub/shared && exit 3")}); msg != "" {
		t.Errorf("a copy has no group of another: %q", msg)
	}
}

// TestReservedExecutable: the diagnosis names a file that others may not execute, whether
// the command gives its name or a path.
func TestReservedExecutable(t *testing.T) {
	work := t.TempDir()
	name := filepath.Join(work, "sub", "program")
	treetest.Put(t, name, "#!/bin/sh\n")
	if err := os.Chmod(name, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 12345, 12345); err != nil {
		t.Skipf("a file cannot be given away here: %v", err)
	}
	for dir, command := range map[string]string{"": "sub/program", "sub": "./program"} {
		msg, p := diagnosed(t, sandbox.Full, work, harness.Exec{Argv: []string{command}, Dir: dir})
		if !p.Observed.Command.NotExecutable || !strings.Contains(msg, "sub/program") || !strings.Contains(msg, "owner or group alone") {
			t.Errorf("%s: %+v: %q", command, p.Observed.Command, msg)
		}
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if msg, p := diagnosed(t, sandbox.Full, work, harness.Exec{Argv: []string{"sub/program"}}); msg != "" || !p.Observed.Command.NotExecutable {
		t.Errorf("a file that nobody may execute: %q", msg)
	}
}

// TestMemoryOfAFailure: the diagnosis says that a failed command had taken all the memory
// that it may have. It says so where no cgroup knows for sure, because a limit of each
// process may have ended the command there too.
func TestMemoryOfAFailure(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	least := 64
	msg, p := diagnosed(t, sandbox.Full, t.TempDir(), harness.Exec{Argv: script("head -c 200000000 /dev/zero | tail"), Limits: harness.ExecLimits{MemoryMB: &least}})
	if !p.Observed.Command.OutOfMemory && !strings.Contains(msg, "of 64 MiB") {
		t.Errorf("%+v, %d bytes: %q", p.Observed.Command, p.PeakMemory, msg)
	}
	if msg, _ := diagnosed(t, sandbox.Full, t.TempDir(), harness.Exec{Argv: script("exit 3"), Limits: harness.ExecLimits{MemoryMB: &least}}); msg != "" {
		t.Errorf("a failure with little memory: %q", msg)
	}
}
