//go:build linux && (amd64 || arm64)

package harness_test

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// TestNetworkOfACommand: a command reaches the host's network under a profile that allows
// it, and not under another profile. A request also has to ask for the network.
func TestNetworkOfACommand(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash, which can connect, is not installed here")
	}
	connect := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo connected", rehearsal.Serve(t).Port)
	const asks = "\nsandbox: {network: {enabled: %t}}"
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, allowed := range []bool{false, true} {
				x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) { usualTime(p); p.AllowNetwork, p.NetworkHosts.All = allowed, allowed })
				p := performed(t, x, harness.Exec{Argv: []string{bash, "-c", connect}, Work: t.TempDir()})
				if got := string(p.Stdout.Bytes) == "connected\n"; got != allowed {
					t.Errorf("exec, allow_network %t: connected %t (%s)", allowed, got, p.Stderr.Bytes)
				}
				inputs := fmt.Sprintf("inputs: {command: %q, arguments: [-c, %q]}", bash, connect)
				for members, want := range map[string]bool{inputs: false, inputs + fmt.Sprintf(asks, false): false, inputs + fmt.Sprintf(asks, true): true} {
					_, p, err := answered(t, x, members, t.TempDir())
					if want && !allowed {
						var re *result.RunError
						if !errors.As(err, &re) || re.Code != result.CodeProfile || re.Details["pointer"] != "/sandbox/network/enabled" {
							t.Errorf("a network that the profile does not allow: %v", err)
						}
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := string(p.Stdout.Bytes) == "connected\n"; got != want {
						t.Errorf("allow_network %t: %s: connected %t (%s)", allowed, members, got, p.Stderr.Bytes)
					}
				}
			}
		})
	}
}
