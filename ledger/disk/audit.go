package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Audit verifies a ledger. It returns the errors of ledger.Verify. A promise that was
// not signed by origin.json's keys gives ErrBadSignature or ErrUnknownKey.
func Audit(ctx context.Context, dir string, trusted *ledger.Verifier, o ledger.AuditOptions) (ledger.Audited, error) {
	r, err := read(dir, nil)
	if err != nil {
		return ledger.Audited{}, err
	}
	defer r.Close()
	a := ledger.Audited{Checkpoint: r.promise}
	var failed error // a tile that could not be read
	c := ledger.Check{Keys: r.origin, Trusted: trusted, Quick: o.Quick, Seals: o.Seals, Progress: o.Progress}
	if c.Promises, err = r.promises(o.Since); err != nil {
		return ledger.Audited{}, err
	}
	a.Pins = len(c.Promises) - len(o.Since)
	if !r.lost {
		c.Promises = append(c.Promises, ledger.Promise{Name: "the checkpoint", Checkpoint: r.promise})
	}
	if o.Tiles {
		c.Tile = r.checkTile(&a, &failed)
	}
	if o.Evidence {
		c.Quick, c.Entry = false, a.CheckEvidence(r)
	}
	a.Unsigned = len(c.Promises) == 0
	text, err := r.text()
	if err != nil {
		return ledger.Audited{}, err
	}
	a.Verified, err = ledger.Verify(ctx, text, c)
	if err == nil {
		err = failed
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
		c, err := r.origin.OpenCheckpoint(p.Note)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Size > 0 && p.Size != c.Size {
			return nil, fmt.Errorf("%w: %s is a checkpoint of %d entries", ledger.ErrTampered, p.Name, c.Size)
		}
		out[i].Checkpoint = c
	}
	return out, nil
}

// checkTile returns a function that compares a full tile with its file. It notes the result
// in a, and the error of a file that cannot be read in failed.
func (r *Reader) checkTile(a *ledger.Audited, failed *error) func(tlog.Tile, []byte) error {
	return func(t tlog.Tile, content []byte) error {
		path := ledger.TilePath(t)
		has, err := readFile(r.files, path, int64(len(content)))
		switch {
		case isNotExist(err):
			a.Missing = append(a.Missing, path)
		case err != nil && !errors.Is(err, errTooLong):
			*failed = err
		case !bytes.Equal(has, content):
			a.Wrong = append(a.Wrong, path)
		default:
			a.Tiles++
		}
		return nil
	}
}
