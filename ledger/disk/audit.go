package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// AuditOptions say how thorough an audit is.
type AuditOptions struct {
	Quick    bool             // only the last root and signature
	Seals    bool             // the signature of every seal
	Tiles    bool             // the full tiles
	Evidence bool             // the evidence of every decision
	Since    []ledger.Promise // older checkpoints that the ledger must keep
	Progress func(entries int64)
}

// Audited is the result of an audit that found no fault in the entries.
type Audited struct {
	ledger.Verified
	Checkpoint ledger.Checkpoint // zero if it was lost
	Unsigned   bool              // no checkpoint, no pin and no given checkpoint: entries may be missing
	Pins       int               // number of pinned checkpoints that the ledger keeps
	Tiles      int               // number of right full tiles
	Missing    []string          // missing full tiles
	Wrong      []string          // wrong full tiles
	Evidence   int               // number of right blobs
	Absent     []int64           // decisions with missing evidence
	Altered    []int64           // decisions whose evidence differs from the record

	failed error // a tile that could not be read
}

// Unsynced returns the number of entries that the newest checkpoint does not cover.
func (a Audited) Unsynced() int64 { return a.Size - a.Checkpoint.Size }

// Sound says whether the audit found no fault.
func (a Audited) Sound() bool { return !a.Unsigned && len(a.Wrong)+len(a.Absent)+len(a.Altered) == 0 }

// Audit verifies a ledger. It returns the errors of ledger.Verify. A promise that was
// not signed by origin.json's keys gives ErrBadSignature or ErrUnknownKey.
func Audit(ctx context.Context, dir string, trusted *ledger.Verifier, o AuditOptions) (Audited, error) {
	r, err := read(dir, nil)
	if err != nil {
		return Audited{}, err
	}
	defer r.Close()
	a := Audited{Checkpoint: r.promise}
	c := ledger.Check{Keys: r.origin.keys, Trusted: trusted, Quick: o.Quick, Seals: o.Seals, Progress: o.Progress}
	if c.Promises, err = r.promises(o.Since); err != nil {
		return Audited{}, err
	}
	a.Pins = len(c.Promises) - len(o.Since)
	if !r.lost {
		c.Promises = append(c.Promises, ledger.Promise{Name: "the checkpoint", Checkpoint: r.promise})
	}
	if o.Tiles {
		c.Tile = r.checkTile(&a)
	}
	if o.Evidence {
		c.Quick, c.Entry = false, r.checkEvidence(&a)
	}
	a.Unsigned = len(c.Promises) == 0
	text, err := r.Text()
	if err != nil {
		return Audited{}, err
	}
	a.Verified, err = ledger.Verify(ctx, text, c)
	if err == nil {
		err = a.failed
	}
	return a, err
}

// promises returns the pinned and the given checkpoints whose signatures are right.
func (r *Reader) promises(since []ledger.Promise) ([]ledger.Promise, error) {
	pins, err := r.Pins()
	if err != nil {
		return nil, err
	}
	var out []ledger.Promise
	for _, size := range slices.Sorted(maps.Keys(pins)) {
		out = append(out, ledger.Promise{Name: fmt.Sprintf("the pin %s/%d", namePins, size), Checkpoint: ledger.Checkpoint{Size: size, Note: pins[size]}})
	}
	out = append(out, since...)
	for i, p := range out {
		c, err := r.origin.keys.OpenCheckpoint(p.Note)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Size > 0 && p.Size != c.Size {
			return nil, fmt.Errorf("%w: %s is a checkpoint of %d entries", ErrTampered, p.Name, c.Size)
		}
		out[i].Checkpoint = c
	}
	return out, nil
}

// checkTile returns a function that compares a full tile with its file, and notes the result
// in a.
func (r *Reader) checkTile(a *Audited) func(tlog.Tile, []byte) error {
	return func(t tlog.Tile, content []byte) error {
		path := ledger.TilePath(t)
		has, err := readFile(r.files, path, int64(len(content)))
		switch {
		case isNotExist(err):
			a.Missing = append(a.Missing, path)
		case err != nil && !errors.Is(err, errTooLong):
			a.failed = err
		case !bytes.Equal(has, content):
			a.Wrong = append(a.Wrong, path)
		default:
			a.Tiles++
		}
		return nil
	}
}

// checkEvidence checks the evidence of every decision, and the policy set that the
// evidence names. Many decisions share a policy set.
func (r *Reader) checkEvidence(a *Audited) func(int64, ledger.Record) error {
	sets := map[ledger.Blob]error{}
	return func(index int64, rec ledger.Record) error {
		if rec.Kind != ledger.KindDecision {
			return nil
		}
		content, err := r.Blob(rec.Evidence)
		if err == nil {
			set, known := policySet(content), false
			if err, known = sets[set]; !known {
				_, err = r.Blob(set)
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

// policySet returns the blob of the policy that a decision's evidence names.
func policySet(content []byte) ledger.Blob {
	var e struct {
		Policy ledger.Blob `json:"policy"`
	}
	_ = json.Unmarshal(content, &e) // without a policy, the result names a blob that does not exist
	return e.Policy
}
