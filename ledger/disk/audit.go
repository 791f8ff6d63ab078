package disk

import (
	"bytes"
	"context"
	"errors"

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
	if c.Promises, a.Pins, err = ledger.Promises(r, r.origin, o.Since); err != nil {
		return ledger.Audited{}, err
	}
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
