//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/contract"
)

// TestHintOfAnEnd: on a terminal the hint is the contract's action for the exit code, of a
// command and of a request.
func TestHintOfAnEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(request, []byte(`{"execution_id":"e","tool_id":"t","inputs":{"command":"no-such-command"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--", "no-such-command"}, {"--request", request}} {
		cmd, _, _ := b.command(t, append([]string{"exec", "--policy", "dev"}, args...)...)
		slave, master := rehearsal.Terminal(t)
		cmd.Stderr, cmd.Env = slave, append(cmd.Env, "COLUMNS=500")
		screen, err := shown(t, cmd, slave, master)
		if got := status(t, err); got != contract.ExitNotFound || strings.Contains(screen, "{") ||
			!strings.Contains(screen, contract.ActionHint(contract.ActionCheckAllowlist)) {
			t.Errorf("%q: exit status %d, screen %q", args, got, screen)
		}
	}
}
