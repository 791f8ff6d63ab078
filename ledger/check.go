package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// Check says what Verify checks besides the form of every line, its place in the tree,
// and the root of every seal.
type Check struct {
	Keys     Keys        // of the ledger, from origin.json: the first key, and the later ones that the file has
	Trusted  *Verifier   // must be among the keys that the records vouch for, and must have signed; nil: any key is trusted
	Promises []Promise   // checkpoints of one or more entries that the ledger must keep, the newest included
	Quick    bool        // compare few roots, the last included, and read only records about keys and beginnings
	Seals    bool        // check the signature of every seal, not only of the last
	Unsealed bool        // the lines are entries of a server: without seals, and the caller has checked the keys
	Progress func(int64) // is called with the number of checked entries; or nil

	// Entry is called with every record that is read, in order. Verify stops at its
	// error and returns the error.
	Entry func(index int64, r Record) error
	// Tile is called with every full tile, in order. Its error is a fault of the entry
	// that fills the tile.
	Tile func(t tlog.Tile, content []byte) error
}

// Promise is a checkpoint and its name in messages.
type Promise struct {
	Name string
	Checkpoint
}

// PinFolder is the folder of pinned checkpoints, whose names are their sizes.
const PinFolder = "checkpoints"

// Promises returns the pinned checkpoints of a ledger and the given ones. Their signatures are
// right. It returns the number of the pinned ones too.
func Promises(src Source, keys Keys, since []Promise) (list []Promise, pins int, err error) {
	pinned, err := src.Pins()
	if err != nil {
		return nil, 0, err
	}
	for _, size := range slices.Sorted(maps.Keys(pinned)) {
		list = append(list, Promise{Name: fmt.Sprintf("the pin %s/%d", PinFolder, size), Checkpoint: Checkpoint{Size: size, Note: pinned[size]}})
	}
	list = append(list, since...)
	for i, p := range list {
		c, err := keys.OpenCheckpoint(p.Note)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Size > 0 && p.Size != c.Size {
			return nil, 0, fmt.Errorf("%w: %s is a checkpoint of %d entries", ErrTampered, p.Name, c.Size)
		}
		list[i].Checkpoint = c
	}
	return list, len(pinned), nil
}

// Fault says what is wrong with a ledger. Index is the index of an entry, or -1.
type Fault struct {
	Index int64  `json:"index"`
	What  string `json:"what"`
}

// Error returns the text of the fault, with its place.
func (f *Fault) Error() string {
	if f.Index < 0 {
		return f.What
	}
	return fmt.Sprintf("entry %d: %s", f.Index, f.What)
}

// Verified is a ledger that was read to its end.
type Verified struct {
	Size int64     // entries
	Root tlog.Hash // of the tree of the entries
	Torn int64     // bytes after the last line, left by an interrupted append
	Keys Keys      // the keys that the records vouch for
	Open []OpenRun // runs that have begun and not ended

	Repeats []int64 // of a server: entries that repeat an earlier one byte for byte
}

// OpenRun is a run that has begun and not ended: it was killed, or is running.
type OpenRun struct {
	RunID string `json:"run_id"`
	Index int64  `json:"index"`
}

// AuditOptions say how thorough an audit is.
type AuditOptions struct {
	Quick    bool      // only the last root and signature
	Seals    bool      // the signature of every seal
	Tiles    bool      // the full tiles
	Evidence bool      // the evidence of every decision
	Since    []Promise // older checkpoints that the ledger must keep
	Progress func(entries int64)
}

// Audited is the result of an audit that found no fault in the entries.
type Audited struct {
	Verified
	Checkpoint Checkpoint // zero if it was lost
	Unsigned   bool       // no checkpoint, no pin and no given checkpoint: entries may be missing
	Pins       int        // number of pinned checkpoints that the ledger keeps
	Pending    int        // of a server: entries that it has acknowledged here, and that the checkpoint does not cover
	Tiles      int        // number of right full tiles
	Missing    []string   // missing full tiles
	Wrong      []string   // wrong full tiles
	Evidence   int        // number of right blobs
	Absent     []int64    // decisions with missing evidence
	Altered    []int64    // decisions whose evidence differs from the record
}

// Unsynced returns the number of entries that the newest checkpoint does not cover.
func (a Audited) Unsynced() int64 { return a.Size - a.Checkpoint.Size }

// Sound says whether the audit found no fault.
func (a Audited) Sound() bool { return !a.Unsigned && len(a.Wrong)+len(a.Absent)+len(a.Altered) == 0 }

// CheckEvidence returns a function that checks the evidence of each decision, and the policy
// set that the evidence names. It counts in a. Many decisions share a policy set.
func (a *Audited) CheckEvidence(src Source) func(int64, Record) error {
	sets := map[Blob]error{}
	return func(index int64, rec Record) error {
		if rec.Kind != KindDecision {
			return nil
		}
		content, err := src.Blob(rec.Evidence)
		if err == nil {
			set, known := PolicySet(content), false
			if err, known = sets[set]; !known {
				_, err = src.Blob(set)
				sets[set] = err
			}
		}
		switch {
		case err == nil:
			a.Evidence++
		case errors.Is(err, ErrNoBlob):
			a.Absent = append(a.Absent, index)
		case errors.Is(err, ErrBadBlob):
			a.Altered = append(a.Altered, index)
		default:
			return err
		}
		return nil
	}
}

// PolicySet returns the blob of the policy that a decision's evidence names.
func PolicySet(content []byte) Blob {
	var e struct {
		Policy Blob `json:"policy"`
	}
	_ = json.Unmarshal(content, &e) // without a policy, the result names a blob that does not exist
	return e.Policy
}
