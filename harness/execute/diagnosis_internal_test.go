//go:build linux && (amd64 || arm64)

package execute

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox"
)

// TestMemoryOfOneProcess: also where a cgroup counts memory, a process can end at its own
// limit, RLIMIT_DATA.
func TestMemoryOfOneProcess(t *testing.T) {
	p := Performed{
		Observed: evidence.Observed{Command: &evidence.End{Code: 1}}, resident: 60 << 20, PeakMemory: 64 << 20,
		Clauses: []evidence.Clause{{Clause: evidence.ClauseMemory, Status: evidence.Enforced}},
		task:    Task{Sandbox: sandbox.Request{Limits: sandbox.Limits{MemoryMB: 64}}},
	}
	if msg, hint := p.Diagnosis(); !strings.Contains(msg, "60 of 64 MiB") || hint == "" {
		t.Errorf("%q, %q", msg, hint)
	}
}
