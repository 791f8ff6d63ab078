package remote

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// Audit verifies a log: its checkpoint and what the state folder remembers, as Read does, and
// every entry. Each entry is held against the tiles, and the tiles against the checkpoint.
func Audit(ctx context.Context, p Place, o ledger.AuditOptions) (ledger.Audited, error) {
	r, err := Read(ctx, p)
	if err != nil {
		return ledger.Audited{}, err
	}
	defer r.Close()
	a := ledger.Audited{Checkpoint: r.promise}
	promises, pins, err := ledger.Promises(r, r.all, o.Since)
	if err != nil {
		return a, err
	}
	a.Pins = pins
	promises = append(promises, ledger.Promise{Name: "the checkpoint", Checkpoint: r.promise})
	c := ledger.Check{Keys: r.all, Trusted: &p.Key, Promises: promises, Quick: o.Quick, Unsealed: true, Progress: o.Progress}
	if o.Tiles {
		c.Tile = func(tlog.Tile, []byte) error { a.Tiles++; return nil }
	}
	if o.Evidence {
		c.Entry = a.CheckEvidence(r)
	}
	text, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.CloseWithError(r.write(ctx, in))
	}()
	a.Verified, err = ledger.Verify(ctx, text, c)
	text.Close()
	<-done
	if err != nil {
		return a, err
	}
	// The keys that the records name sign the checkpoints, and no key that one of them ended.
	for _, p := range promises {
		if _, err := a.Verified.Keys.OpenCheckpoint(p.Note); err != nil {
			return a, fmt.Errorf("%w: %s is not signed by the key that the records name for its size", ledger.ErrTampered, p.Name)
		}
	}
	a.Pending = r.pending
	return a, nil
}

// write writes the entries, a line each.
func (r *Reader) write(ctx context.Context, to io.Writer) error {
	var page []byte
	for entry, err := range r.texts(ctx, 0) {
		if err != nil {
			return err
		}
		if page = append(append(page, entry...), '\n'); len(page) > 64<<10 {
			if _, err := to.Write(page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	_, err := to.Write(page)
	return err
}
