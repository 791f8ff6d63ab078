package policy

import (
	"slices"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// newProvenance identifies, by content alone, the policy of a verdict.
func newProvenance(p kernel.Profile, profile canon.ContentHash, layers []Layer) result.Provenance {
	pr := result.Provenance{
		ProfileSHA256:      profile,
		CapabilitiesSHA256: capabilitiesSum(),
		Modules:            []result.ModuleDigest{},
		Limits: result.Limits{
			CPUCores:            p.CPUCores,
			Isolation:           p.Isolation,
			MaxChildren:         p.MaxChildren,
			MaxOutputFiles:      p.MaxOutputFiles,
			MaxTotalOutputBytes: p.MaxTotalOutputBytes,
			MemoryMB:            p.MemoryMB,
			TimeoutMS:           p.TimeoutMS,
		},
	}
	for _, l := range layers {
		for _, m := range l.Modules {
			pr.Modules = append(pr.Modules, result.ModuleDigest{Name: m.Name, SHA256: canon.Sum(m.Source)})
		}
	}
	slices.SortFunc(pr.Modules, func(a, b result.ModuleDigest) int { return canon.Compare(a.Name, b.Name) })
	return pr
}
