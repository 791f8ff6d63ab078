//go:build linux && (amd64 || arm64)

package sandbox

import (
	"strconv"

	"github.com/fiador/fiador/harness/sandbox/cgroup"
)

// clauses are what a sandbox of this tier promises here, each with its mechanism and
// how far that reaches.
func (h *Host) clauses(s *Sandbox) []Clause {
	tier, g := s.Isolation, s.group
	list := []Clause{
		h.timeoutClause(tier),
		memoryClause(tier, g),
		processClause(h, s, g),
		forkClause(s),
		cpuClause(tier, g),
		h.filesClause(tier),
		diskClause(s),
		h.networkClause(s),
		h.processesClause(tier),
		kernelClause(tier),
		{ClauseStreams, "the first bytes are kept, the rest is read and counted", Enforced},
		{ClauseEnv, "made from nothing", Enforced},
		h.metadataClause(tier),
	}
	return list
}

func (h *Host) timeoutClause(tier Isolation) Clause {
	if tier == Full {
		return Clause{ClauseTimeout, "pid namespace: SIGTERM, then SIGKILL to process 1", Enforced}
	}
	return Clause{ClauseTimeout, "subreaper that kills what descends from it", Partial}
}

func memoryClause(tier Isolation, g *cgroup.Group) Clause {
	if g != nil && g.Memory() {
		return Clause{ClauseMemory, "cgroup for the total, RLIMIT_DATA for each process", Enforced}
	}
	switch tier {
	case Full:
		return Clause{ClauseMemory, watchedMemory + ", sizes of the file systems in memory, " + noShared, Partial}
	case Confined:
		return Clause{ClauseMemory, watchedMemory + ", the same for the temporary folder where it is in memory, " + noShared, Partial}
	}
	return Clause{ClauseMemory, watchedMemory + "; not bounded: shared memory of every kind, the temporary folder where it is in memory", Partial}
}

// What holds memory where no cgroup counts it.
const (
	watchedMemory = "RLIMIT_DATA for each process, a look ten times a second at what all of them have together, page tables and buffers of sockets included"
	noShared      = "no memory that is shared without a file; not bounded: what is taken between two looks, other memory of the kernel"
)

// byFilter is what keeps a command from starting any process.
const byFilter = "seccomp: fork, vfork and clone of a process"

// processClause is partial where some processes are allowed: the kernel counts threads
// alike, so that a bound has to leave room for them.
func processClause(h *Host, s *Sandbox, g *cgroup.Group) Clause {
	tasks := " of " + strconv.Itoa(s.req.Limits.Tasks()) + " processes and threads, which count alike"
	switch {
	case !s.req.Limits.Forks() && s.Isolation != None:
		return Clause{ClauseProcesses, byFilter, Enforced}
	case g != nil && g.PIDs():
		return Clause{ClauseProcesses, "pids cgroup" + tasks, Partial}
	case s.Isolation == Full:
		return Clause{ClauseProcesses, "RLIMIT_NPROC in the user namespace" + tasks, Partial}
	case h.root:
		return Clause{ClauseProcesses, "RLIMIT_NPROC of an id of its own" + tasks, Partial}
	}
	return Clause{ClauseProcesses, "RLIMIT_NPROC" + tasks + ", above what the user ran at the start", Partial}
}

func forkClause(s *Sandbox) Clause {
	if s.req.Limits.Forks() {
		return Clause{ClauseFork, "forking is allowed", Enforced}
	}
	if s.Isolation == None {
		return Clause{ClauseFork, "none", Absent}
	}
	return Clause{ClauseFork, byFilter, Enforced}
}

func cpuClause(tier Isolation, g *cgroup.Group) Clause {
	if g != nil && g.CPU() {
		return Clause{ClauseCPU, "affinity and cgroup quota", Enforced}
	}
	if tier == None {
		return Clause{ClauseCPU, "affinity, which a command can widen", Partial}
	}
	return Clause{ClauseCPU, "affinity, which seccomp keeps as it is", Enforced}
}

func (h *Host) filesClause(tier Isolation) Clause {
	switch {
	case tier == Full && h.landlock > 0:
		return Clause{ClauseFiles, "mount namespace that shows what is allowed, and Landlock", Enforced}
	case tier == Full:
		return Clause{ClauseFiles, "mount namespace that shows what is allowed; no Landlock", Partial}
	case tier == Confined && h.landlock >= 3:
		return Clause{ClauseFiles, "Landlock " + strconv.Itoa(h.landlock) + ": not the mode and times of files", Partial}
	case tier == Confined:
		return Clause{ClauseFiles, "Landlock " + strconv.Itoa(h.landlock) + ", truncate by seccomp: not the mode and times of files", Partial}
	}
	return Clause{ClauseFiles, "none", Absent}
}

func diskClause(s *Sandbox) Clause {
	switch s.staging {
	case stageOverlay:
		return Clause{ClauseDisk, "overlay in a tmpfs of limited size and inodes", Enforced}
	case stageCopy:
		return Clause{ClauseDisk, "RLIMIT_FSIZE for each file of a copy; the total is judged afterwards", Partial}
	}
	return Clause{ClauseDisk, "RLIMIT_FSIZE for each file; direct writes are not judged", Partial}
}

func (h *Host) networkClause(s *Sandbox) Clause {
	switch {
	case s.req.Network:
		return Clause{ClauseNetwork, "the host's network, as asked for", Enforced}
	case s.Isolation == Full:
		return Clause{ClauseNetwork, "network namespace with loopback alone; socket families by seccomp", Enforced}
	case s.Isolation == Confined:
		return Clause{ClauseNetwork, "seccomp: no sockets", Enforced}
	}
	return Clause{ClauseNetwork, "none", Absent}
}

func (h *Host) processesClause(tier Isolation) Clause {
	switch {
	case tier == Full:
		return Clause{ClauseProcs, "pid namespace, no ptrace", Enforced}
	case tier == Confined && (h.landlock >= 6 || h.root):
		return Clause{ClauseProcs, "Landlock and seccomp: no ptrace, no signals to outside", Enforced}
	case tier == Confined:
		return Clause{ClauseProcs, "Landlock and seccomp: no ptrace; signals to the user's processes are possible", Partial}
	}
	return Clause{ClauseProcs, "none", Absent}
}

// metadataClause is about owners, modes, times and attributes of files that are not
// shown or may not be written.
func (h *Host) metadataClause(tier Isolation) Clause {
	switch {
	case tier == Full:
		return Clause{ClauseMetadata, "mount namespace: what may not be written is read-only", Enforced}
	case tier == Confined && h.root:
		return Clause{ClauseMetadata, "an id of its own, which owns no file outside; seccomp: no change of owners and extended attributes", Partial}
	case tier == Confined:
		return Clause{ClauseMetadata, "none for modes and times of the user's files, wherever they are; seccomp: no change of owners and extended attributes", Absent}
	}
	return Clause{ClauseMetadata, "none", Absent}
}

func kernelClause(tier Isolation) Clause {
	if tier == None {
		return Clause{ClauseKernel, "no capabilities, no_new_privs", Partial}
	}
	return Clause{ClauseKernel, "no capabilities, no_new_privs, seccomp", Enforced}
}
