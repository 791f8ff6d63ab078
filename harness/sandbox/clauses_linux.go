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
	return []evidence.Clause{
		byTier(tier, evidence.TimeoutNamespace, evidence.TimeoutSubreaper, evidence.TimeoutSubreaper),
		memoryClause(tier, g),
		processClause(h, s, g),
		forkClause(s),
		cpuClause(tier, g),
		h.filesClause(tier),
		diskClause(s),
		networkClause(s),
		h.processesClause(tier),
		byTier(tier, evidence.KernelFilter, evidence.KernelFilter, evidence.KernelCapabilities),
		evidence.StreamsKept.Clause(),
		evidence.EnvMade.Clause(),
		h.metadataClause(tier),
	}
}

// byTier returns the clause of the mechanism that a tier has.
func byTier(tier Isolation, full, confined, none evidence.Mechanism) evidence.Clause {
	switch tier {
	case Full:
		return full.Clause()
	case Confined:
		return confined.Clause()
	}
	return none.Clause()
}

func memoryClause(tier Isolation, g *cgroup.Group) evidence.Clause {
	if g != nil && g.Memory() {
		return evidence.MemoryCgroup.Clause()
	}
	return byTier(tier, evidence.MemoryFull, evidence.MemoryConfined, evidence.MemoryNone)
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
	return byTier(s.Isolation, evidence.ForkFilter, evidence.ForkFilter, evidence.ForkNone)
}

func cpuClause(tier Isolation, g *cgroup.Group) evidence.Clause {
	if g != nil && g.CPU() {
		return evidence.CPUCgroup.Clause()
	}
	return byTier(tier, evidence.CPUFilter, evidence.CPUFilter, evidence.CPUAffinity)
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

func networkClause(s *Sandbox) evidence.Clause {
	switch {
	case s.req.Network:
		return evidence.NetworkAllowed.Clause()
	case s.req.Listed:
		return evidence.NetworkProxy.Clause()
	}
	return byTier(s.Isolation, evidence.NetworkNamespace, evidence.NetworkFilter, evidence.NetworkNone)
}

func (h *Host) processesClause(tier Isolation) evidence.Clause {
	confined := evidence.ProcsSignals
	if h.landlock >= 6 || h.root {
		confined = evidence.ProcsLandlock
	}
	return byTier(tier, evidence.ProcsNamespace, confined, evidence.ProcsNone)
}

// metadataClause covers owners, modes, times and attributes of files that are not shown or
// may not be written.
func (h *Host) metadataClause(tier Isolation) evidence.Clause {
	confined := evidence.MetadataFilter
	if h.root {
		confined = evidence.MetadataOwnID
	}
	return byTier(tier, evidence.MetadataNamespace, confined, evidence.MetadataNone)
}
