package policy

import (
	"bytes"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Frozen is all that a policy decides by, as a value that reads no folder. An engine
// that [New] makes of it answers as the one that it was taken from.
type Frozen struct {
	Profile      kernel.Profile
	Layers       []Layer // in the order in which they answer
	Capabilities canon.ContentHash
}

// Freeze is the policy that New makes an engine of, under the capabilities of this
// program.
func Freeze(p kernel.Profile, layers []Layer) Frozen {
	return Frozen{Profile: p, Layers: layers, Capabilities: canon.Sum(capabilitiesJSON)}
}

// Provenance are the digests of what f decides by. The error says that the profile has
// no canonical form.
func (f Frozen) Provenance() (result.Provenance, error) {
	_, profile, err := canon.Artifact(f.Profile)
	if err != nil {
		return result.Provenance{}, err
	}
	p := newProvenance(f.Profile, profile, f.Layers)
	p.CapabilitiesSHA256 = f.Capabilities
	return p, nil
}

// maxFrozenProfile is the most that the artifact of a resolved profile can have: what
// its own file gives, and what the profile beneath it adds.
const maxFrozenProfile = 2 * MaxProfileBytes

// ReadFrozenProfile reads a resolved profile in the bytes that its digest covers. What
// it reads gives these bytes again. The error is an *Error of KindProfile.
func ReadFrozenProfile(artifact []byte) (kernel.Profile, error) {
	doc, err := canon.Parse(artifact, maxFrozenProfile)
	if err != nil {
		return kernel.Profile{}, profileErrorf("%v", err)
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return kernel.Profile{}, profileErrorf("profile is not an object")
	}
	p := profileOf(m)
	if again, _, err := canon.Artifact(p); err != nil || !bytes.Equal(again, artifact) {
		return kernel.Profile{}, profileErrorf("not a resolved profile in canonical form")
	}
	return p, nil
}
