package ledger

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/fiador/fiador/kernel/canon"
)

// Drift finds decisions that should be equal but differ. The zero value has seen none.
//
// A decision is determined by its intent, its input, the policy, both modes and the
// kernel. Two decisions with the same six have the same canonical hash; otherwise they
// are a Difference.
//
// Another revision of a profile or kernel may decide an intent differently. This is no
// fault; it is a Flip.
//
// Memory grows with the number of distinct decisions, by about 150 bytes for each.
type Drift struct {
	Decisions int64 `json:"decisions"`

	equals      map[driftKey]firstOf
	last        map[driftKey]lastOf
	revisions   []revision
	numbers     map[revision]uint32 // by revision
	differences map[driftKey]int    // indexes in Differences
	flips       map[driftKey]int

	Differences []Difference `json:"differences"` // sorted by Other
	Flips       []Flip       `json:"flips"`       // in the order of their first time
}

// Difference describes decisions with the same inputs and different results.
type Difference struct {
	Intent        canon.ContentHash `json:"intent_sha256"`
	Input         canon.ContentHash `json:"input_sha256"`
	Policy        canon.ContentHash `json:"policy_sha256"`
	Profile       string            `json:"profile"`
	Mode          string            `json:"mode"`
	ExecutionMode string            `json:"execution_mode"`
	Kernel        string            `json:"kernel"`
	Count         int64             `json:"count"` // how many decisions differ from the first
	First         Decided           `json:"first"` // the first decision with these inputs
	Other         Decided           `json:"other"` // the first one that differs
}

// Decided is the entry of a decision, and its canonical hash.
type Decided struct {
	Index int64             `json:"index"`
	Canon canon.ContentHash `json:"canonical_sha256"`
}

// Flip is an intent that two revisions decide otherwise, under one profile.
type Flip struct {
	Intent  canon.ContentHash `json:"intent_sha256"`
	Profile string            `json:"profile"`
	From    Verdict           `json:"from"`
	To      Verdict           `json:"to"`
	Count   int64             `json:"count"` // number of flips; From and To describe the latest one
}

// Verdict says how an intent was decided, and by which policy and kernel.
type Verdict struct {
	Index   int64             `json:"index"`
	Outcome string            `json:"outcome"`
	Policy  canon.ContentHash `json:"policy_sha256"`
	Kernel  string            `json:"kernel"`
}

// driftKey is a hash of texts.
type driftKey [16]byte

type firstOf struct {
	index int64
	canon [sha256.Size]byte
}

type lastOf struct {
	index    int64
	revision uint32
	outcome  byte // first letter
}

type revision struct {
	policy canon.ContentHash
	kernel string
}

// digest returns the bytes of a valid hash; hashOf does the reverse.
func digest(h canon.ContentHash) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(h.Hex()))
	return sum
}

func hashOf(sum [sha256.Size]byte) canon.ContentHash {
	return canon.ContentHash("sha256:" + hex.EncodeToString(sum[:]))
}

func keyOf(texts ...string) driftKey {
	var b []byte
	for _, t := range texts {
		b = append(append(b, t...), 0)
	}
	sum := sha256.Sum256(b)
	return driftKey(sum[:16])
}

// Add adds a record. Records come in their order; only decisions count.
func (d *Drift) Add(index int64, r Record) {
	if r.Kind != KindDecision {
		return
	}
	if d.equals == nil {
		d.equals, d.last = map[driftKey]firstOf{}, map[driftKey]lastOf{}
		d.numbers = map[revision]uint32{}
		d.differences, d.flips = map[driftKey]int{}, map[driftKey]int{}
	}
	d.Decisions++
	d.compare(index, r)
	d.follow(index, r)
}

// compare compares a decision with the first decision of the same inputs.
func (d *Drift) compare(index int64, r Record) {
	key := keyOf(string(r.IntentSHA256), string(r.InputSHA256), string(r.PolicySHA256), r.Mode, r.ExecutionMode, r.Kernel)
	sum := digest(r.CanonicalSHA256)
	first, again := d.equals[key]
	if !again {
		d.equals[key] = firstOf{index, sum}
		return
	}
	if first.canon == sum {
		return
	}
	at, known := d.differences[key]
	if !known {
		at = len(d.Differences)
		d.differences[key] = at
		d.Differences = append(d.Differences, Difference{
			r.IntentSHA256, r.InputSHA256, r.PolicySHA256, r.Policy, r.Mode, r.ExecutionMode, r.Kernel, 0,
			Decided{first.index, hashOf(first.canon)}, Decided{index, r.CanonicalSHA256},
		})
	}
	d.Differences[at].Count++
}

// follow compares a decision with the last decision of the same intent under the same
// profile.
func (d *Drift) follow(index int64, r Record) {
	key := keyOf(string(r.IntentSHA256), r.Policy)
	rev := revision{r.PolicySHA256, r.Kernel}
	number, known := d.numbers[rev]
	if !known {
		number = uint32(len(d.revisions))
		d.numbers[rev] = number
		d.revisions = append(d.revisions, rev)
	}
	before, again := d.last[key]
	d.last[key] = lastOf{index, number, r.ResultKind[0]}
	if !again || before.revision == number || before.outcome == r.ResultKind[0] {
		return
	}
	was := d.revisions[before.revision]
	at, known := d.flips[key]
	if !known {
		at = len(d.Flips)
		d.flips[key] = at
		d.Flips = append(d.Flips, Flip{Intent: r.IntentSHA256, Profile: r.Policy})
	}
	f := &d.Flips[at]
	outcome := map[byte]string{'B': "BUNDLE", 'C': "CLARIFY", 'R': "REFUSE"}[before.outcome]
	f.From = Verdict{before.index, outcome, was.policy, was.kernel}
	f.To = Verdict{index, r.ResultKind, rev.policy, rev.kernel}
	f.Count++
}
