package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/note"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
	"github.com/fiador/fiador/ledger"
)

// Documents that say what origin.json becomes when something has ended.
const (
	nameImport   = "import.json"   // an import; until then nothing else writes to the log
	nameRotation = "rotation.json" // a rotation whose record is perhaps in the log
)

// identity says which log a storage has, and which key signs it. It is written under the
// lock of the log.
type identity struct {
	signer    *ledger.Signer
	keys      ledger.Keys     // of origin.json; of a new log, those that it gets
	fresh     bool            // there is no origin.json yet
	importing bool            // this process imports
	checking  bool            // this process only looks, and says itself what is wrong
	cosign    *witness.Quorum // nil: nobody
}

func newIdentity(signer *ledger.Signer) identity { return identity{signer: signer} }

// looking returns the identity of a log at which somebody only looks, and says what is wrong.
func looking(signer *ledger.Signer) identity { return identity{signer: signer, checking: true} }

// imported returns the identity of a log into which a ledger with these keys is imported.
func imported(signer *ledger.Signer, keys ledger.Keys) identity {
	return identity{signer: signer, keys: keys, importing: true}
}

// read reads origin.json and checks that the log and its key are the signer's. The leader
// first ends a rotation that was interrupted; others accept both keys of it.
func (d *identity) read(store storage, leading bool) error {
	if leading {
		if err := contradicted(store); err != nil {
			return err
		}
	}
	planned, err := d.planned(store)
	if err != nil {
		return err
	}
	if planned != nil && leading {
		if err := settleRotation(store, planned); err != nil {
			return err
		}
		planned = nil
	}
	have, err := store.document(ledger.NameOrigin)
	if d.fresh = errors.Is(err, fs.ErrNotExist); d.fresh && !d.importing {
		d.keys, err = ledger.Keys{{Size: 1, Key: d.signer.Verifier()}}, nil
	}
	if err != nil && !d.fresh {
		return err
	}
	if !d.importing && !d.checking {
		_, err := store.document(nameImport)
		if err == nil {
			return errors.New("an import into this log has not ended: run the same import again")
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if d.fresh {
		return nil
	}
	keys, err := ledger.ParseKeys(have)
	if err != nil {
		return err
	}
	if d.checking {
		d.keys = keys
		return nil
	}
	if keys.Origin() != d.signer.Origin() {
		return fmt.Errorf("the storage has the log %q and not %q: name the storage of this log", keys.Origin(), d.signer.Origin())
	}
	if d.importing {
		return d.extends(keys)
	}
	d.keys = keys
	if now := keys.Now().String(); now != d.signer.Verifier().String() && (planned == nil || planned.Now().String() != d.signer.Verifier().String()) {
		return &otherKey{keys.Origin(), now}
	}
	return nil
}

// otherKey says that another key signs the log now.
type otherKey struct{ origin, now string }

func (o *otherKey) Error() string {
	return fmt.Sprintf("the log %q has another key now: %s; use the private key that belongs to it", o.origin, o.now)
}

// extends says whether the keys of an import begin with those that the log has.
func (d *identity) extends(has ledger.Keys) error {
	for i, k := range has {
		if i >= len(d.keys) || d.keys[i].Key.String() != k.Key.String() || d.keys[i].Size != k.Size {
			return fmt.Errorf("the log has the key %s from %d entries on, and the folder has not: if the folder moved here before, the log has gone on since, and nothing is to be done; else name a new log", k.Key, k.Size)
		}
	}
	return nil
}

// contradicted returns what a witness has said against the log, and nil if no witness has.
func contradicted(store storage) error {
	said, err := store.document(witness.Contradiction)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s. When that is done, remove %s: the file of the log's folder, or the row of FiadorDocuments", strings.TrimSpace(string(said)), witness.Contradiction)
}

// planned returns the keys after a rotation that was not ended, or nil.
func (d *identity) planned(store storage) (ledger.Keys, error) {
	text, err := store.document(nameRotation)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ledger.ParseKeys(text)
}

// settleRotation ends a rotation that was interrupted. If its record is in the log, the keys
// become those of origin.json. Otherwise nothing has happened.
func settleRotation(store storage, planned ledger.Keys) error {
	last := planned[len(planned)-1]
	size, err := store.size()
	if err != nil {
		return err
	}
	if index := last.Size - 2; index < size {
		entry, err := newView(store).entry(index, size)
		if err != nil {
			return err
		}
		rec, err := ledger.ParseRecord(entry)
		if err != nil {
			return err
		}
		if rec.Kind == ledger.KindKeyRotation && rec.Key == last.Key.String() {
			text, err := planned.Marshal()
			if err == nil {
				err = store.setDocument(ledger.NameOrigin, text)
			}
			if err != nil {
				return err
			}
		}
	}
	return store.setDocument(nameRotation, nil)
}

// finish marks a new log as complete: its genesis is durable. The end of an import does it
// for an imported log.
func (d *identity) finish(store storage) error {
	if !d.fresh || d.importing {
		return nil
	}
	return d.write(store)
}

// write writes origin.json.
func (d *identity) write(store storage) error {
	text, err := d.keys.Marshal()
	if err == nil {
		err = store.setDocument(ledger.NameOrigin, text)
	}
	d.fresh = err != nil
	return err
}

// noteSigner returns the key, which signs no checkpoint of an earlier key.
func (d *identity) noteSigner() note.Signer {
	return since{d.signer.NoteSigner(), d.keys[len(d.keys)-1].Size}
}

// since is a key that signs trees from a size on. The empty tree has no key.
type since struct {
	note.Signer
	size int64
}

func (s since) Sign(text []byte) ([]byte, error) {
	lines := strings.SplitN(string(text), "\n", 3)
	if len(lines) < 3 {
		return nil, errors.New("not the text of a checkpoint")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err == nil && size > 0 && size < s.size {
		err = fmt.Errorf("the key signs trees from %d entries on, and not of %d", s.size, size)
	}
	if err != nil {
		return nil, err
	}
	return s.Signer.Sign(text)
}

// covered waits for a checkpoint over a number of entries, and returns it.
func (d *identity) covered(store storage, size int64) (c ledger.Checkpoint, err error) {
	for end := time.Now().Add(2 * lastCheckpoint); ; time.Sleep(20 * time.Millisecond) {
		var text []byte
		if text, err = store.resource(layout.CheckpointPath); err == nil {
			c, err = ledger.ParseCheckpoint(text)
		}
		if err == nil && c.Size >= size {
			return d.keys.OpenCheckpoint(text)
		}
		if time.Now().After(end) {
			return c, errors.Join(fmt.Errorf("no checkpoint over %d entries came in time; the newest is over %d", size, c.Size), err)
		}
	}
}

// treeOf returns the tree of the first entries of a log that has size entries. It calls each,
// unless it is nil, with every one of them.
func treeOf(r *reading, first, size int64, each func(index int64, entry []byte) error) (tree ledger.Range, err error) {
	all := errors.New("all")
	err = r.entries(0, size, func(index int64, entry []byte) error {
		if index == first {
			return all
		}
		tree.Append(ledger.LeafHash(entry), nil)
		if each == nil {
			return nil
		}
		return each(index, entry)
	})
	if errors.Is(err, all) {
		err = nil
	}
	return tree, err
}

// newView returns a log as it is stored. Its reader needs no right to write.
func newView(store storage) *reading { return &reading{resources: stored{store}} }

// stored reads the files of a log from its storage.
type stored struct{ store storage }

func (s stored) ReadTile(_ context.Context, level, index uint64, p uint8) ([]byte, error) {
	return s.read(p, func(p uint8) string { return layout.TilePath(level, index, p) })
}

func (s stored) ReadEntryBundle(_ context.Context, index uint64, p uint8) ([]byte, error) {
	return s.read(p, func(p uint8) string { return layout.EntriesPath(index, p) })
}

// read reads a part, or the full file if the part is gone.
func (s stored) read(p uint8, name func(uint8) string) ([]byte, error) {
	b, err := s.store.resource(name(p))
	if p > 0 && errors.Is(err, fs.ErrNotExist) {
		b, err = s.store.resource(name(0))
	}
	return b, err
}
