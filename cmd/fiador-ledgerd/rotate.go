package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
)

// rotation gives a log another key. It has these steps, in this order:
//
//  1. take the lock of the log with the old key, and wait for a checkpoint over all entries;
//  2. make the record of the rotation, and sign the seal of the tree that ends with it; keep
//     what origin.json becomes in rotation.json;
//  3. add the record to the log, and wait for its checkpoint by the old key;
//  4. give back the lock, and take it with the new key. Whoever takes the lock finds
//     rotation.json: if the record is in the log, it becomes origin.json;
//  5. add a record that the new key signs, and wait for its checkpoint.
//
// After a kill before the record is durable the old key is the key of the log, and later the
// new one. Steps 4 and 5 are those of every start of a server with the new key.
type rotation struct {
	where
	old, next *ledger.Signer
	log       *printer
	step      func(name string) // in tests, kills
}

// rotateKey gives a log another key. No server may run.
func rotateKey(args []string, stdout io.Writer, log *printer, step func(string)) error {
	flags := flag.NewFlagSet("rotate-key", flag.ContinueOnError)
	r := &rotation{log: log, step: step}
	r.where.flags(flags)
	file := flags.String("next", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	var err error
	if r.old, err = r.signer(r.key); err != nil {
		return err
	}
	if r.next, err = r.signer(*file); err != nil {
		return err
	}
	if r.old.Verifier().String() == r.next.Verifier().String() {
		return errors.New("--key and --next are the same key; make another with: fiador-ledgerd key")
	}
	other := (*storage.OtherKey)(nil)
	if err := r.record(); errors.As(err, &other) && other.Now == r.next.Verifier().String() {
		// An earlier rotation was interrupted, and the record is in the log.
	} else if err != nil {
		return err
	}
	r.step("recorded")
	size, err := r.begin()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "the key signs from %d entries on: %s\nstart the server with --key and the file of --next, and keep the old key until it runs\n", size, r.next.Verifier())
	return err
}

// record does steps 1 to 3.
func (r *rotation) record() (err error) {
	store, err := r.look(storage.NewIdentity(r.old), r.log)
	if err != nil {
		return err
	}
	if store.Who().Fresh {
		return storage.ErrNoLog
	}
	w := server.NewWriter(store, r.old, time.Now, r.log, nil)
	if err := w.TakeLead(); err != nil {
		return errors.Join(stopFirst(err), w.GiveUp())
	}
	defer func() { err = errors.Join(err, w.GiveUp()) }()
	keys := store.Who().Keys
	for _, k := range keys {
		if k.Key.String() == r.next.Verifier().String() {
			return errors.New("the new key has signed this log before; make another with: fiador-ledgerd key")
		}
	}
	size := w.Lead.Claims.Count()
	c, err := store.Who().Covered(store, size)
	if err != nil {
		return err
	}
	if c.Size != size {
		return fmt.Errorf("the checkpoint is over %d entries, and the log has %d: another server has written; try again", c.Size, size)
	}
	r.step("covered")
	rec := ledger.Record{Kind: ledger.KindKeyRotation, Key: r.next.Verifier().String()}
	rec.Stamp(time.Now(), w.Lead.Claims.Last())
	it, err := claims.NewItem(rec)
	if err != nil {
		return err
	}
	if err := r.plan(store, w.Lead.Tree, c, it); err != nil {
		return err
	}
	r.step("planned")
	if err := w.Lead.Claims.Write([]claims.Item{it}); err != nil {
		return err
	}
	r.step("claimed")
	if err := w.Lead.Tree.Add(size, []claims.Item{it}); err != nil {
		return err
	}
	r.step("added")
	if err := w.Lead.Claims.Settled([]claims.Item{it}); err != nil {
		return err
	}
	_, err = store.Who().Covered(store, size+1)
	return err
}

// plan keeps what origin.json becomes when the record is in the log.
func (r *rotation) plan(store storage.Storage, t *storage.Tree, c ledger.Checkpoint, it claims.Item) error {
	tree, err := storage.TreeOf(&t.Reading, c.Size, c.Size, nil)
	if err != nil {
		return err
	}
	if tree.Root() != c.Root {
		return fmt.Errorf("the entries of the log do not lead to its checkpoint over %d entries; put the log back from a copy", c.Size)
	}
	tree.Append(ledger.LeafHash(it.Entry), nil)
	seal, err := r.old.Seal(tree.Size, tree.Root())
	if err != nil {
		return err
	}
	keys := store.Who().Keys
	text, err := append(keys[:len(keys):len(keys)], ledger.KeyFrom{Size: ledger.FirstSize(c.Size), Key: r.next.Verifier(), Note: seal.Note(r.old.Origin())}).Marshal()
	if err != nil {
		return err
	}
	return store.SetDocument(storage.NameRotation, text)
}

// begin does steps 4 and 5. It returns the size of the first tree that the new key signs.
func (r *rotation) begin() (int64, error) {
	store, err := r.look(storage.NewIdentity(r.next), r.log)
	if err != nil {
		return 0, err
	}
	w := server.NewWriter(store, r.next, time.Now, r.log, nil)
	// A server that waits with the old key takes the lock for a moment.
	for end := time.Now().Add(5 * server.TryAgain); ; time.Sleep(server.TryAgain / 10) {
		if err = w.TakeLead(); !errors.Is(err, storage.ErrBusy) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return 0, errors.Join(stopFirst(err), w.GiveUp())
	}
	r.step("begun")
	_, err = store.Who().Covered(store, w.Lead.Claims.Count())
	keys := store.Who().Keys
	return keys[len(keys)-1].Size, errors.Join(err, w.GiveUp())
}

// stopFirst adds to errBusy what to do.
func stopFirst(err error) error {
	if errors.Is(err, storage.ErrBusy) {
		return fmt.Errorf("a server writes to the log: %w; stop it first", err)
	}
	return err
}
