package pack

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// Promise is a clause of the sandbox, and which statuses it can have by isolation_level.
type Promise struct {
	Clause                 string
	Strict, Standard, None []string
}

// Promises are the clauses that runner.json lists, in their order. Where the network is
// allowed, that clause is enforced at every level.
func Promises() []Promise {
	const enforced, partial, absent = "enforced", "partial", "absent"
	always, mostly, hardly := []string{enforced}, []string{enforced, partial}, []string{partial}
	never, either := []string{absent}, []string{enforced, absent}
	return []Promise{
		{"timeout", always, hardly, hardly},
		{"memory", mostly, mostly, mostly},
		{"processes", always, mostly, mostly},
		{"allow_fork", always, always, either},
		{"cpu_cores", always, always, mostly},
		{"files", mostly, hardly, never},
		{"disk", mostly, mostly, mostly},
		{"network", always, always, either},
		{"other processes", always, mostly, never},
		{"kernel", always, always, hardly},
		{"streams", always, always, always},
		{"environment", always, always, always},
	}
}

// Statuses are those that the clause can have at an isolation_level.
func (p Promise) Statuses(level string) []string {
	switch level {
	case "strict":
		return p.Strict
	case "standard":
		return p.Standard
	case "none":
		return p.None
	}
	return nil
}

// checkLayers holds the clauses of the sandbox against what one of this level can say.
func (s *strictLevel) checkLayers(sb RunnerSandbox, run *result.RunResult) {
	promises := Promises()
	if len(sb.Layers) != len(promises) {
		s.fault("ST9", at(RunnerFile, "sandbox", "layers"), "%d clauses, and a sandbox has %d", len(sb.Layers), len(promises))
		return
	}
	for i, p := range promises {
		here := func(name string) string { return at(RunnerFile, "sandbox", "layers", strconv.Itoa(i), name) }
		l := sb.Layers[i]
		can := p.Statuses(sb.IsolationLevel)
		if p.Clause == "network" && sb.IsolationLevel == "none" {
			can = []string{"absent"}
			if run.Policy.AllowNetwork {
				can = []string{"enforced"}
			}
		}
		switch {
		case l.Clause != p.Clause:
			s.fault("ST9", here("clause"), "not the clause that stands here, %s", p.Clause)
		case !slices.Contains(can, l.Status):
			s.fault("ST9", here("status"), "%s is not what isolation %s says of this clause: %s", l.Status, sb.IsolationLevel, listed(can))
		case l.Mechanism == "":
			s.fault("ST9", here("mechanism"), "empty")
		}
	}
}

// checkIsolation holds how far the execution was kept apart against the policy and the
// system.
func (s *strictLevel) checkIsolation(n *Runner, run *result.RunResult) {
	levels := map[string]struct {
		isolation kernel.Isolation
		backend   string
	}{
		"strict":   {kernel.IsolationFull, "container"},
		"standard": {kernel.IsolationConfined, "process"},
		"none":     {kernel.IsolationNone, "none"},
	}
	sb := n.Sandbox
	level := levels[sb.IsolationLevel]
	if sb.Backend != level.backend {
		s.fault("ST9", at(RunnerFile, "sandbox", "backend"), "not the one that isolates %s, %s", sb.IsolationLevel, level.backend)
	}
	if least := run.PolicyProvenance.Limits.Isolation; !level.isolation.AtLeast(least) {
		s.fault("ST9", at(RunnerFile, "sandbox", "isolation_level"), "%s is weaker than %s, which the policy demands", sb.IsolationLevel, least)
	}
	if sb.NetworkBlocked == run.Policy.AllowNetwork {
		s.fault("ST9", at(RunnerFile, "sandbox", "network_blocked"), "%t, and allow_network of the policy too", sb.NetworkBlocked)
	}
	if !sb.FilesystemReadonly {
		s.fault("ST9", at(RunnerFile, "sandbox", "filesystem_readonly"), "false, and what is packed was written apart from the folder")
	}
	if level.isolation != kernel.IsolationNone && n.Platform.OS != "linux" {
		s.fault("ST9", at(RunnerFile, "platform", "os"), "%s has no isolation %s", n.Platform.OS, sb.IsolationLevel)
	}
	if level.isolation == kernel.IsolationConfined && n.Platform.LandlockABI < 1 {
		s.fault("ST9", at(RunnerFile, "platform", "landlock_abi"), "isolation %s needs Landlock", sb.IsolationLevel)
	}
	if sb.Backend == level.backend {
		s.checkLayers(sb, run)
	}
}
