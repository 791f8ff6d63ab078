package policy

import (
	"bytes"

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
	return Frozen{Profile: p, Layers: layers, Capabilities: capabilitiesSum()}
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

// maxFrozenProfile is the greatest size of the artifact of a resolved profile: the
// content of its own file, and the additions of the profile that it extends.
const maxFrozenProfile = 2 * MaxProfileBytes

// ReadFrozenProfile reads a resolved profile from the bytes that its digest covers. The
// profile encodes to the same bytes. The error is an *Error of KindProfile.
func ReadFrozenProfile(artifact []byte) (kernel.Profile, error) {
	doc, err := canon.Parse(artifact, maxFrozenProfile)
	if err != nil {
		return kernel.Profile{}, profileErrorf("%v", err)
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return kernel.Profile{}, profileErrorf("profile is not an object")
	}
	p, err := profileOf(m, absent())
	again, _, unwritten := canon.Artifact(p)
	if err != nil || unwritten != nil || !bytes.Equal(again, artifact) {
		return kernel.Profile{}, profileErrorf("not a resolved profile in canonical form")
	}
	return p, nil
}
