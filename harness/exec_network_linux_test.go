//go:build linux && (amd64 || arm64)

package harness_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
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

// asking returns bash, a server of this machine, and a script that asks the proxy for the
// server and prints the status. The script ends when the proxy has closed the connection,
// which has no TLS. The test is skipped where there is no bash.
func asking(t *testing.T) (bash string, server *rehearsal.Server, script string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash, which can connect, is not installed here")
	}
	server = rehearsal.Serve(t)
	return bash, server, fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/3128; printf "CONNECT localhost:%d HTTP/1.1\r\n\r\n" >&3; read -r line <&3; echo ${line:9:3}; if [ ${line:9:3} = 200 ]; then echo no TLS >&3; cat <&3 >/dev/null; fi`, server.Port)
}

// TestListedHosts: under a profile that lists hosts, a command of an intent and of a request
// reaches them alone. A request can only take hosts away. runner.json has each connection,
// and its pack is valid.
func TestListedHosts(t *testing.T) {
	bash, server, ask := asking(t)
	entry := fmt.Sprintf("private:localhost:%d", server.Port)
	h := harnesstest.NewTier(t, kernel.IsolationFull)
	x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) {
		usualTime(p)
		p.AllowNetwork, p.NetworkHosts, p.Registries = true, kernel.AllowList{Names: []string{entry, "*.example.org"}}, []string{"packages.example"}
	})
	rep := x.Run(t, fmt.Sprintf(`"actions":[{"kind":"run","argv":[%q,"-c",%q]},{"kind":"run","argv":[%[1]q,"-c",%[3]q]}]`, bash, ask, strings.Replace(ask, "localhost", "example.org", 1)), harness.Folders{})
	r, err := rep.Execution.Runner(rand.Reader)
	if err != nil || r.Sandbox.NetworkBlocked || len(r.Connections) != 2 || !slices.Contains(r.Sandbox.Layers, evidence.NetworkProxy.Clause()) {
		t.Fatalf("runner %+v, error %v", r, err)
	}
	for i, want := range []evidence.Connection{
		{Action: 0, Name: "localhost", Port: server.Port, Verdict: evidence.RefusedNotTLS},
		{Action: 1, Name: "example.org", Port: server.Port, Verdict: evidence.RefusedUnlisted},
	} {
		if r.Connections[i] != want {
			t.Errorf("%+v, want %+v", r.Connections[i], want)
		}
	}
	inputs := fmt.Sprintf("inputs: {command: %q, arguments: [-c, %q]}\nsandbox: {network: {enabled: true", bash, ask)
	for members, want := range map[string]string{
		"}}":                                  "200\n",
		fmt.Sprintf(", allow: [%q]}}", entry): "200\n",
		", allow: [packages.example, a.example.org]}}": "403\n",
		", deny: [localhost]}}":                        "403\n",
		fmt.Sprintf(", deny: [%q]}}", entry[8:]):       "403\n",
		", deny: [packages.example]}}":                 "200\n",
		", allow: [packages.example, example.org]}}":   "/sandbox/network/allow/1",
		", allow: [\"*.com.example\"]}}":               "/sandbox/network/allow/0",
		", allow: [\"private:localhost:1\"]}}":         "/sandbox/network/allow/0",
		", allow: [\"private:a.example.org:443\"]}}":   "/sandbox/network/allow/0",
	} {
		_, p, err := answered(t, x, inputs+members, t.TempDir())
		if re, ok := errors.AsType[*result.RunError](err); ok && re.Code == result.CodeProfile && re.Details["pointer"] == want && re.Hint != "" {
			continue
		}
		if err != nil || string(p.Stdout.Bytes) != want {
			t.Errorf("%s: %v, want %s", members, err, want)
		}
	}
	x.Gate.Profile.NetworkHosts, x.Gate.Profile.Registries = kernel.AllowList{All: true}, nil
	for members, want := range map[string]string{
		", allow: [packages.example]}}":       "403\n",
		fmt.Sprintf(", allow: [%q]}}", entry): "200\n",
		", deny: [packages.example]}}":        "/sandbox/network/deny",
	} {
		_, p, err := answered(t, x, inputs+members, t.TempDir())
		if re, ok := errors.AsType[*result.RunError](err); ok && re.Code == result.CodeProfile && re.Details["pointer"] == want {
			continue
		}
		if err != nil || string(p.Stdout.Bytes) != want {
			t.Errorf("open, %s: %v, want %s", members, err, want)
		}
	}
	x.Gate.Profile.NetworkHosts = kernel.AllowList{}
	if got := string(performed(t, x, harness.Exec{Argv: []string{bash, "-c", ask}, Work: t.TempDir()}).Stdout.Bytes); got == "200\n" {
		t.Error("allow_network without a list reaches a host")
	}
}

// TestListedHostsNeedFull: a profile that lists hosts runs nothing in a weaker isolation.
func TestListedHostsNeedFull(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, kernel.IsolationConfined), func(p *kernel.Profile) {
		p.AllowNetwork, p.Registries = true, []string{"packages.example"}
	})
	if re := x.Fails(t, `"actions":[{"kind":"run","argv":["true"]}]`, harness.Folders{}); re.Code != result.CodeSandbox || !strings.Contains(re.Message, "Landlock knows ports and not hosts") || re.Hint == "" {
		t.Errorf("%+v", re)
	}
}
