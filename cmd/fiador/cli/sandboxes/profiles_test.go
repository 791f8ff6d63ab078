package sandboxes

import (
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
)

// TestJudged: a profile executes under the first isolation that can be had, is enough for it and
// enforces its network level. Otherwise the reason is that of the last one that would be enough.
func TestJudged(t *testing.T) {
	full, confined := sandbox.Probe{Isolation: sandbox.Full}, sandbox.Probe{Isolation: sandbox.Confined}
	broken := sandbox.Probe{Isolation: sandbox.Full, Err: &sandbox.Error{Isolation: sandbox.Full, Step: "namespaces"}}
	execute := []string{harness.ModeExecuteSandbox}
	strict := kernel.Profile{Isolation: "full", ExecutionModes: execute}
	loose := kernel.Profile{Isolation: "confined", ExecutionModes: execute}
	listing := loose
	listing.AllowNetwork, listing.NetworkHosts.Names = true, []string{"api.example.com:443"}
	for name, c := range map[string]struct {
		p      kernel.Profile
		probes []sandbox.Probe
		why    string // empty: it executes
	}{
		"full":                     {strict, []sandbox.Probe{full, confined}, ""},
		"less is enough":           {loose, []sandbox.Probe{broken, confined}, ""},
		"more is enough too":       {loose, []sandbox.Probe{full}, ""},
		"less is not enough":       {strict, []sandbox.Probe{broken, confined}, broken.Err.Error()},
		"listed hosts need full":   {listing, []sandbox.Probe{broken, confined}, "confined isolation cannot enforce its network level, api"},
		"plans alone":              {kernel.Profile{Isolation: "full"}, []sandbox.Probe{full}, "it does not allow execute-sandbox"},
		"a system without sandbox": {strict, nil, "commands are executed on Linux (amd64, arm64) alone"},
	} {
		if got := judged(c.p, c.probes); got.Executes != (c.why == "") || got.Why != c.why {
			t.Errorf("%s: %+v, want %q", name, got, c.why)
		}
	}
}
