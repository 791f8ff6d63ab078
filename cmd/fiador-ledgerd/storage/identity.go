package storage

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
	NameImport   = "import.json"   // an import; until then nothing else writes to the log
	NameRotation = "rotation.json" // a rotation whose record is perhaps in the log
)

// Identity says which log a storage has, and which key signs it. It is written under the
// lock of the log.
type Identity struct {
	Signer    *ledger.Signer  // of this process
	Keys      ledger.Keys     // of origin.json; of a new log, those that it gets
	Fresh     bool            // there is no origin.json yet
	Importing bool            // this process imports
	checking  bool            // this process only looks, and says itself what is wrong
	Cosign    *witness.Quorum // nil: nobody
}

// NewIdentity returns the identity of a log that a key signs.
func NewIdentity(signer *ledger.Signer) Identity { return Identity{Signer: signer} }

// Looking returns the identity of a log at which somebody only looks, and says what is wrong.
func Looking(signer *ledger.Signer) Identity { return Identity{Signer: signer, checking: true} }

// Imported returns the identity of a log into which a ledger with these keys is imported.
func Imported(signer *ledger.Signer, keys ledger.Keys) Identity {
	return Identity{Signer: signer, Keys: keys, Importing: true}
}

// read reads origin.json and checks that the log and its key are the signer's. The leader
// first ends a rotation that was interrupted; others accept both keys of it.
func (d *Identity) read(store Storage, leading bool) error {
	if leading {
		if err := Contradicted(store); err != nil {
			return err
		}
	}
	planned, err := d.Planned(store)
	if err != nil {
		return err
	}
	if planned != nil && leading {
		if err := settleRotation(store, planned); err != nil {
			return err
		}
		planned = nil
	}
	have, err := store.Document(ledger.NameOrigin)
	if d.Fresh = errors.Is(err, fs.ErrNotExist); d.Fresh && !d.Importing {
		d.Keys, err = ledger.Keys{{Size: 1, Key: d.Signer.Verifier()}}, nil
	}
	if err != nil && !d.Fresh {
		return err
	}
	if !d.Importing && !d.checking {
		_, err := store.Document(NameImport)
		if err == nil {
			return errors.New("an import into this log has not ended: run the same import again")
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if d.Fresh {
		return nil
	}
	keys, err := ledger.ParseKeys(have)
	if err != nil {
		return err
	}
	if d.checking {
		d.Keys = keys
		return nil
	}
	if keys.Origin() != d.Signer.Origin() {
		return fmt.Errorf("the storage has the log %q and not %q: name the storage of this log", keys.Origin(), d.Signer.Origin())
	}
	if d.Importing {
		return d.extends(keys)
	}
	d.Keys = keys
	if now := keys.Now().String(); now != d.Signer.Verifier().String() && (planned == nil || planned.Now().String() != d.Signer.Verifier().String()) {
		return &OtherKey{keys.Origin(), now}
	}
	return nil
}

// OtherKey says that another key signs the log now.
type OtherKey struct {
	Origin string // of the log
	Now    string // the verifier key of the key that signs now
}

// Error names the key of now.
func (o *OtherKey) Error() string {
	return fmt.Sprintf("the log %q has another key now: %s; use the private key that belongs to it", o.Origin, o.Now)
}

// extends says whether the keys of an import begin with those that the log has.
func (d *Identity) extends(has ledger.Keys) error {
	for i, k := range has {
		if i >= len(d.Keys) || d.Keys[i].Key.String() != k.Key.String() || d.Keys[i].Size != k.Size {
			return fmt.Errorf("the log has the key %s from %d entries on, and the folder has not: if the folder moved here before, the log has gone on since, and nothing is to be done; else name a new log", k.Key, k.Size)
		}
	}
	return nil
}

// Contradicted returns what a witness has said against the log, and nil if no witness has.
func Contradicted(store Storage) error {
	said, err := store.Document(witness.Contradiction)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s. When that is done, remove %s: the file of the log's folder, or the row of FiadorDocuments", strings.TrimSpace(string(said)), witness.Contradiction)
}

// Planned returns the keys after a rotation that was not ended, or nil.
func (d *Identity) Planned(store Storage) (ledger.Keys, error) {
	text, err := store.Document(NameRotation)
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
func settleRotation(store Storage, planned ledger.Keys) error {
	last := planned[len(planned)-1]
	size, err := store.Size()
	if err != nil {
		return err
	}
	if index := last.Size - 2; index < size {
		entry, err := NewView(store).Entry(index, size)
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
				err = store.SetDocument(ledger.NameOrigin, text)
			}
			if err != nil {
				return err
			}
		}
	}
	return store.SetDocument(NameRotation, nil)
}

// finish marks a new log as complete: its genesis is durable. The end of an import does it
// for an imported log.
func (d *Identity) finish(store Storage) error {
	if !d.Fresh || d.Importing {
		return nil
	}
	return d.Write(store)
}

// Write writes origin.json.
func (d *Identity) Write(store Storage) error {
	text, err := d.Keys.Marshal()
	if err == nil {
		err = store.SetDocument(ledger.NameOrigin, text)
	}
	d.Fresh = err != nil
	return err
}

// noteSigner returns the key, which signs no checkpoint of an earlier key.
func (d *Identity) noteSigner() note.Signer {
	return since{d.Signer.NoteSigner(), d.Keys[len(d.Keys)-1].Size}
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

// Covered waits for a checkpoint over a number of entries, and returns it.
func (d *Identity) Covered(store Storage, size int64) (c ledger.Checkpoint, err error) {
	for end := time.Now().Add(2 * LastCheckpoint); ; time.Sleep(20 * time.Millisecond) {
		var text []byte
		if text, err = store.Resource(layout.CheckpointPath); err == nil {
			c, err = ledger.ParseCheckpoint(text)
		}
		if err == nil && c.Size >= size {
			return d.Keys.OpenCheckpoint(text)
		}
		if time.Now().After(end) {
			return c, errors.Join(fmt.Errorf("no checkpoint over %d entries came in time; the newest is over %d", size, c.Size), err)
		}
	}
}

// TreeOf returns the tree of the first entries of a log that has size entries. It calls each,
// unless it is nil, with every one of them.
func TreeOf(r *Reading, first, size int64, each func(index int64, entry []byte) error) (tree ledger.Range, err error) {
	all := errors.New("all")
	err = r.Entries(0, size, func(index int64, entry []byte) error {
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

// NewView returns a log as it is stored. Its reader needs no right to write.
func NewView(store Storage) *Reading { return &Reading{resources: stored{store}} }

// stored reads the files of a log from its storage.
type stored struct{ store Storage }

func (s stored) ReadTile(_ context.Context, level, index uint64, p uint8) ([]byte, error) {
	return s.read(p, func(p uint8) string { return layout.TilePath(level, index, p) })
}

func (s stored) ReadEntryBundle(_ context.Context, index uint64, p uint8) ([]byte, error) {
	return s.read(p, func(p uint8) string { return layout.EntriesPath(index, p) })
}

// read reads a part, or the full file if the part is gone.
func (s stored) read(p uint8, name func(uint8) string) ([]byte, error) {
	b, err := s.store.Resource(name(p))
	if p > 0 && errors.Is(err, fs.ErrNotExist) {
		b, err = s.store.Resource(name(0))
	}
	return b, err
}
