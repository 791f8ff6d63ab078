package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// checkLayers compares the clauses of the sandbox with the clauses that its level can
// have. For runs of this kernel version it compares each status with its mechanism.
func (s *strictLevel) checkLayers(sb pack.RunnerSandbox, level kernel.Isolation, run *result.RunResult) {
	clauses := evidence.Clauses()
	if len(sb.Layers) != len(clauses) {
		s.fault("ST9", pack.At(pack.RunnerFile, "sandbox", "layers"), "%d clauses, and a sandbox has %d", len(sb.Layers), len(clauses))
		return
	}
	for i, clause := range clauses {
		here := func(name string) string { return pack.At(pack.RunnerFile, "sandbox", "layers", strconv.Itoa(i), name) }
		l := sb.Layers[i]
		can := evidence.Statuses(clause, level)
		if clause == evidence.ClauseNetwork && level == kernel.IsolationNone {
			can = []evidence.Status{evidence.Absent}
			if run.Policy.AllowNetwork {
				can = []evidence.Status{evidence.Enforced}
			}
		}
		switch {
		case l.Clause != clause:
			s.fault("ST9", here("clause"), "not the clause that stands here, %s", clause)
		case !slices.Contains(can, l.Status):
			s.fault("ST9", here("status"), "%s is not what isolation %s says of this clause: %s", l.Status, sb.IsolationLevel, listed(can))
		case l.Mechanism == "":
			s.fault("ST9", here("mechanism"), "empty")
		case run.KernelVersion == kernel.Version && !l.Holds():
			s.fault("ST9", here("mechanism"), "%s is not by what this clause is %s", pack.Quoted(l.Mechanism), l.Status)
		}
	}
}

// checkIsolation compares the isolation of the execution with the policy and the system.
func (s *strictLevel) checkIsolation(n *pack.Runner, run *result.RunResult) {
	sb := n.Sandbox
	level := evidence.TierNamed(sb.IsolationLevel)
	s.must(sb.Backend == level.Backend, "ST9", pack.RunnerFile+"#/sandbox/backend", "not the one that isolates %s, %s", sb.IsolationLevel, level.Backend)
	const here = pack.RunnerFile + "#/sandbox/"
	least := run.PolicyProvenance.Limits.Isolation
	s.must(level.Isolation.AtLeast(least), "ST9", here+"isolation_level", "%s is weaker than %s, which the policy demands", sb.IsolationLevel, least)
	s.must(sb.NetworkBlocked || run.Policy.AllowNetwork, "ST9", here+"network_blocked", "false, and allow_network of the policy too")
	s.must(sb.FilesystemReadonly, "ST9", here+"filesystem_readonly", "false, and what is packed was written apart from the folder")
	s.must(level.Isolation == kernel.IsolationNone || n.Platform.OS == "linux", "ST9", pack.RunnerFile+"#/platform/os", "%s has no isolation %s", n.Platform.OS, sb.IsolationLevel)
	s.must(level.Isolation != kernel.IsolationConfined || n.Platform.LandlockABI >= 1, "ST9", pack.RunnerFile+"#/platform/landlock_abi", "isolation %s needs Landlock", sb.IsolationLevel)
	if sb.Backend == level.Backend {
		s.checkLayers(sb, level.Isolation, run)
	}
	s.checkConnections(n, run)
}

// checkConnections checks that hosts are listed where the policy allows a network, and that
// connections were made there alone. Only those that were passed on have bytes, and they
// went to hosts of the profile, where the verifier has it (ST5).
func (s *strictLevel) checkConnections(n *pack.Runner, run *result.RunResult) {
	listed := slices.Contains(n.Sandbox.Layers, evidence.NetworkProxy.Clause())
	s.must(!listed || run.Policy.AllowNetwork, "ST9", pack.RunnerFile+"#/sandbox/layers", "hosts were listed, and allow_network of the policy is false")
	s.must(listed || len(n.Connections) == 0, "ST9", pack.RunnerFile+"#/connections", "there, and no hosts were listed")
	for i, c := range n.Connections {
		here := pack.At(pack.RunnerFile, "connections", strconv.Itoa(i))
		name, named := contract.HostName(c.Name)
		passed := c.Verdict == evidence.Passed
		s.must(passed || c.Sent == 0 && c.Received == 0, "ST9", here, "bytes of a connection that was not passed on")
		s.must(named && name == c.Name && c.Port > 0 || c.Name == "" && c.Port == 0 && !passed, "ST9", here, "not a host and a port")
		if p := s.whole(); passed && p != nil && !p.Hosts().All {
			allow, _, _ := contract.ParseHosts(p.Hosts().Names)
			_, ok := contract.Hosts{Allow: allow}.Allows(c.Name, c.Port)
			s.must(ok, "ST9", here, "passed on, and the profile does not list the host")
		}
	}
}
