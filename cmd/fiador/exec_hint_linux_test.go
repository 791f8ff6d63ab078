//go:build linux && (amd64 || arm64)

package main

import (
	"io"
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
	b := newBench(t)
	request := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(request, []byte(`{"execution_id":"e","tool_id":"t","inputs":{"command":"no-such-command"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		line string
	}{{[]string{"--", "no-such-command"}, `{"code":"RUN_E006",`}, {[]string{"--request", request}, ""}} {
		args := tc.args
		cmd, _, _ := b.command(t, append([]string{"exec", "--policy", "dev"}, args...)...)
		slave, master := rehearsal.Terminal(t)
		cmd.Stderr = slave
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		screen, _ := io.ReadAll(master)
		if got := status(t, cmd.Wait()); got != contract.ExitNotFound || !strings.Contains(string(screen), "\n"+tc.line) ||
			!strings.Contains(string(screen), contract.ActionHint(contract.ActionCheckAllowlist)) {
			t.Errorf("%q: exit status %d, screen %q", args, got, screen)
		}
	}
}
