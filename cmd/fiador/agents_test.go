package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestAgentExample: the rules of examples/agent pass their tests, and its intents are decided
// as its README says.
func TestAgentExample(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	policy, err := filepath.Abs(filepath.Join(root, "examples", "agent"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command("fiador", args...)
		cmd.Dir = t.TempDir()
		cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
		out, _ := cmd.CombinedOutput() // the output says what the exit status does
		return string(out)
	}
	if out := run("policy", "test", policy, "--coverage"); !strings.HasPrefix(out, "ok  3 tests, 0 failed  coverage 100.0 %") {
		t.Errorf("policy test: %s", out)
	}
	out := run("check", filepath.Join(policy, "intents"), "--policy", policy, "--format", "human")
	if !strings.Contains(out, "3 intents  1 BUNDLE  2 CLARIFY  0 REFUSE  0 ERROR") {
		t.Errorf("check: %s", out)
	}
}
