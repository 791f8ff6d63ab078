package pack

import (
	"slices"
	"strconv"
	"strings"

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
		{"processes", mostly, mostly, hardly},
		{"allow_fork", always, always, either},
		{"cpu_cores", always, always, mostly},
		{"files", mostly, hardly, never},
		{"disk", mostly, mostly, mostly},
		{"network", always, always, either},
		{"other processes", always, mostly, never},
		{"kernel", always, always, hardly},
		{"streams", always, always, always},
		{"environment", always, always, always},
		{"metadata", always, []string{partial, absent}, never},
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

// byFilter is what keeps a command from starting any process.
const byFilter = "seccomp: fork, vfork and clone of a process"

// Mechanisms are what enforces a clause, each number as N, and the status that it gives.
func (p Promise) Mechanisms() map[string]string {
	const enforced, partial, absent = "enforced", "partial", "absent"
	switch p.Clause {
	case "timeout":
		return map[string]string{"pid namespace: SIGTERM, then SIGKILL to process N": enforced, "subreaper that kills what descends from it": partial}
	case "memory":
		const (
			watched  = "RLIMIT_DATA for each process, a look ten times a second at what all of them have together, page tables and buffers of sockets included"
			noShared = "no memory that is shared without a file; not bounded: what is taken between two looks, other memory of the kernel"
		)
		return map[string]string{"cgroup for the total, RLIMIT_DATA for each process": enforced,
			watched + ", sizes of the file systems in memory, " + noShared:                                     partial,
			watched + ", the same for the temporary folder where it is in memory, " + noShared:                 partial,
			watched + "; not bounded: shared memory of every kind, the temporary folder where it is in memory": partial,
		}
	case "processes":
		const tasks = " of N processes and threads, which count alike"
		return map[string]string{
			byFilter: enforced, "pids cgroup" + tasks: partial, "RLIMIT_NPROC in the user namespace" + tasks: partial,
			"RLIMIT_NPROC of an id of its own" + tasks: partial, "RLIMIT_NPROC" + tasks + ", above what the user ran at the start": partial,
		}
	case "allow_fork":
		return map[string]string{"forking is allowed": enforced, byFilter: enforced, "none": absent}
	case "cpu_cores":
		return map[string]string{
			"affinity and cgroup quota": enforced, "affinity, which seccomp keeps as it is": enforced, "affinity, which a command can widen": partial,
		}
	case "files":
		return map[string]string{
			"mount namespace that shows what is allowed, and Landlock":         enforced,
			"mount namespace that shows what is allowed; no Landlock":          partial,
			"Landlock N: not the mode and times of files":                      partial,
			"Landlock N, truncate by seccomp: not the mode and times of files": partial,
			"none": absent,
		}
	case "disk":
		return map[string]string{
			"overlay in a tmpfs of limited size and inodes":                        enforced,
			"RLIMIT_FSIZE for each file of a copy; the total is judged afterwards": partial,
			"RLIMIT_FSIZE for each file; direct writes are not judged":             partial,
		}
	case "network":
		return map[string]string{
			"the host's network, as asked for": enforced, "seccomp: no sockets": enforced, "none": absent,
			"network namespace with loopback alone; socket families by seccomp": enforced,
		}
	case "other processes":
		return map[string]string{
			"pid namespace, no ptrace": enforced, "Landlock and seccomp: no ptrace, no signals to outside": enforced,
			"Landlock and seccomp: no ptrace; signals to the user's processes are possible": partial, "none": absent,
		}
	case "kernel":
		return map[string]string{"no capabilities, no_new_privs, seccomp": enforced, "no capabilities, no_new_privs": partial}
	case "streams":
		return map[string]string{"the first bytes are kept, the rest is read and counted": enforced}
	case "environment":
		return map[string]string{"made from nothing": enforced}
	case "metadata":
		return map[string]string{
			"mount namespace: what may not be written is read-only": enforced, "none": absent,
			"an id of its own, which owns no file outside; seccomp: no change of owners and extended attributes":                    partial,
			"none for modes and times of the user's files, wherever they are; seccomp: no change of owners and extended attributes": absent,
		}
	}
	return nil
}

// numberless is a text with N for each number in it.
func numberless(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !asciiDigit(text[i]):
			b.WriteByte(text[i])
		case i == 0 || !asciiDigit(text[i-1]):
			b.WriteByte('N')
		}
	}
	return b.String()
}

// checkLayers holds the clauses of the sandbox against what one of this level can say, and
// for runs of this kernel version each status against its mechanism.
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
		case run.KernelVersion == kernel.Version && p.Mechanisms()[numberless(l.Mechanism)] != l.Status:
			s.fault("ST9", here("mechanism"), "%s is not by what this clause is %s", quoted(l.Mechanism), l.Status)
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
	if !sb.NetworkBlocked && !run.Policy.AllowNetwork {
		s.fault("ST9", at(RunnerFile, "sandbox", "network_blocked"), "false, and allow_network of the policy too")
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
