//go:build linux && (amd64 || arm64)

package sandbox

import (
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox/cgroup"
)

// clauses lists the promises of a sandbox of this tier on this machine. Each clause names
// its mechanism and how far it reaches.
func (h *Host) clauses(s *Sandbox) []evidence.Clause {
	tier, g := s.Isolation, s.group
	list := []evidence.Clause{
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
		evidence.StreamsKept.Clause(),
		evidence.EnvMade.Clause(),
		h.metadataClause(tier),
	}
	return list
}

func (h *Host) timeoutClause(tier Isolation) evidence.Clause {
	if tier == Full {
		return evidence.TimeoutNamespace.Clause()
	}
	return evidence.TimeoutSubreaper.Clause()
}

func memoryClause(tier Isolation, g *cgroup.Group) evidence.Clause {
	if g != nil && g.Memory() {
		return evidence.MemoryCgroup.Clause()
	}
	switch tier {
	case Full:
		return evidence.MemoryFull.Clause()
	case Confined:
		return evidence.MemoryConfined.Clause()
	}
	return evidence.MemoryNone.Clause()
}

// processClause is partial where some processes are allowed. The kernel counts threads as
// processes, so a bound must leave room for threads.
func processClause(h *Host, s *Sandbox, g *cgroup.Group) evidence.Clause {
	tasks := s.req.Limits.Tasks()
	switch {
	case !s.req.Limits.Forks() && s.Isolation != None:
		return evidence.ProcessesFilter.Clause()
	case g != nil && g.PIDs():
		return evidence.ProcessesCgroup.With(tasks)
	case s.Isolation == Full:
		return evidence.ProcessesNamespace.With(tasks)
	case h.root:
		return evidence.ProcessesOwnID.With(tasks)
	}
	return evidence.ProcessesUser.With(tasks)
}

func forkClause(s *Sandbox) evidence.Clause {
	if s.req.Limits.Forks() {
		return evidence.ForkAllowed.Clause()
	}
	if s.Isolation == None {
		return evidence.ForkNone.Clause()
	}
	return evidence.ForkFilter.Clause()
}

func cpuClause(tier Isolation, g *cgroup.Group) evidence.Clause {
	if g != nil && g.CPU() {
		return evidence.CPUCgroup.Clause()
	}
	if tier == None {
		return evidence.CPUAffinity.Clause()
	}
	return evidence.CPUFilter.Clause()
}

func (h *Host) filesClause(tier Isolation) evidence.Clause {
	switch {
	case tier == Full && h.landlock > 0:
		return evidence.FilesNamespace.Clause()
	case tier == Full:
		return evidence.FilesNoLandlock.Clause()
	case tier == Confined && h.landlock >= 3:
		return evidence.FilesLandlock.With(h.landlock)
	case tier == Confined:
		return evidence.FilesLandlockTruncate.With(h.landlock)
	}
	return evidence.FilesNone.Clause()
}

func diskClause(s *Sandbox) evidence.Clause {
	switch s.staging {
	case stageOverlay:
		return evidence.DiskOverlay.Clause()
	case stageCopy:
		return evidence.DiskCopy.Clause()
	}
	return evidence.DiskDirect.Clause()
}

func (h *Host) networkClause(s *Sandbox) evidence.Clause {
	switch {
	case s.req.Network:
		return evidence.NetworkAllowed.Clause()
	case s.Isolation == Full:
		return evidence.NetworkNamespace.Clause()
	case s.Isolation == Confined:
		return evidence.NetworkFilter.Clause()
	}
	return evidence.NetworkNone.Clause()
}

func (h *Host) processesClause(tier Isolation) evidence.Clause {
	switch {
	case tier == Full:
		return evidence.ProcsNamespace.Clause()
	case tier == Confined && (h.landlock >= 6 || h.root):
		return evidence.ProcsLandlock.Clause()
	case tier == Confined:
		return evidence.ProcsSignals.Clause()
	}
	return evidence.ProcsNone.Clause()
}

// metadataClause covers owners, modes, times and attributes of files that are not shown or
// may not be written.
func (h *Host) metadataClause(tier Isolation) evidence.Clause {
	switch {
	case tier == Full:
		return evidence.MetadataNamespace.Clause()
	case tier == Confined && h.root:
		return evidence.MetadataOwnID.Clause()
	case tier == Confined:
		return evidence.MetadataFilter.Clause()
	}
	return evidence.MetadataNone.Clause()
}

func kernelClause(tier Isolation) evidence.Clause {
	if tier == None {
		return evidence.KernelCapabilities.Clause()
	}
	return evidence.KernelFilter.Clause()
}
