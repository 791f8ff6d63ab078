package policy

import (
	"slices"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Frozen is everything that a policy decides by, as a value that reads no folder. [New]
// makes an engine from it that answers as the original engine does.
type Frozen struct {
	Profile      kernel.Profile
	Layers       []Layer // in the order in which they answer
	Capabilities canon.ContentHash
}

// Freeze returns the policy from which New makes an engine, under the capabilities of
// this program.
func Freeze(p kernel.Profile, layers []Layer) Frozen {
	return Frozen{Profile: p, Layers: layers, Capabilities: capabilitiesSum.Get()}
}

// Provenance returns the digests of everything that f decides by. An error means that
// the profile has no canonical form.
func (f Frozen) Provenance() (result.Provenance, error) {
	_, profile, err := canon.Artifact(f.Profile)
	if err != nil {
		return result.Provenance{}, err
	}
	p := newProvenance(f.Profile, profile, f.Layers)
	p.CapabilitiesSHA256 = f.Capabilities
	return p, nil
}

// newProvenance identifies, by content alone, the policy of a verdict.
func newProvenance(p kernel.Profile, profile canon.ContentHash, layers []Layer) result.Provenance {
	pr := result.Provenance{
		ProfileSHA256:      profile,
		CapabilitiesSHA256: capabilitiesSum.Get(),
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
