package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fiador/fiador/ledger"
)

// ErrNotEmpty says that Create cannot make a ledger in a folder.
var ErrNotEmpty = errors.New("the folder is not empty")

// Create makes a ledger with its first record. The folder must be missing or empty. The
// ledger appears at once, complete.
func Create(dir string, key *ledger.Signer, o Options) (ledger.Receipt, error) {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := checkFileSystem(parent); err != nil {
		return ledger.Receipt{}, err
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) > 0 {
		return ledger.Receipt{}, ErrNotEmpty
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ledger.Receipt{}, err
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return ledger.Receipt{}, errors.New("it is a link")
	}
	next, err := os.MkdirTemp(parent, ".ledger-*")
	if err != nil {
		return ledger.Receipt{}, err
	}
	r, err := fill(next, key, o)
	if err == nil {
		err = os.Chmod(next, 0o755)
	}
	if err == nil {
		err = os.Remove(dir) // an empty folder, because os.Rename replaces no folder
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(next, dir)
	}
	if err != nil {
		return ledger.Receipt{}, errors.Join(err, os.RemoveAll(next))
	}
	if err := syncFolder(parent); err != nil {
		r.Warnings = append(r.Warnings, "the ledger is there, and its name may be lost with the power: "+err.Error())
	}
	return r, nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func fill(dir string, key *ledger.Signer, o Options) (ledger.Receipt, error) {
	f, err := openFolder(dir)
	if err != nil {
		return ledger.Receipt{}, err
	}
	r, err := begin(f, key, o)
	return r, errors.Join(err, f.Close())
}

// begin writes the genesis and all other files of the ledger.
func begin(fsys files, key *ledger.Signer, o Options) (ledger.Receipt, error) {
	rec := ledger.Record{Kind: ledger.KindGenesis, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String()}
	rec.Stamp(o.Now(), "")
	entry, err := rec.Entry()
	if err != nil {
		return ledger.Receipt{}, err
	}
	var tree ledger.Range
	tree.Append(ledger.LeafHash(entry), nil)
	seal, err := key.Seal(1, tree.Root())
	if err != nil {
		return ledger.Receipt{}, err
	}
	c, err := key.Checkpoint(1, tree.Root())
	if err != nil {
		return ledger.Receipt{}, err
	}
	keys, err := ledger.Keys{{Size: 1, Key: key.Verifier()}}.Marshal()
	if err != nil {
		return ledger.Receipt{}, err
	}
	err = errors.Join(
		fsys.Mkdir(nameState),
		replaceFile(fsys, ledger.NameOrigin, keys, true),
		replaceFile(fsys, nameLedger, ledger.Line{Seal: seal, Entry: entry}.Append(nil), true),
		replaceFile(fsys, nameCheckpoint, c.Note, true),
		fsys.SyncDir("."),
	)
	return ledger.Receipt{Index: 0, Record: rec, Checkpoint: c}, err
}

// Rotate records that another key signs from the next entry on. The ledger was opened
// with the old key, which signs that record.
func (l *Log) Rotate(ctx context.Context, next *ledger.Signer) (ledger.Receipt, error) {
	if err := l.enter(ctx); err != nil {
		return ledger.Receipt{}, err
	}
	defer l.leave()
	if next.Origin() != l.Origin() {
		return ledger.Receipt{}, fmt.Errorf("the new key is one of %q, and the ledger is %q", next.Origin(), l.Origin())
	}
	for _, k := range l.origin {
		if k.Key.String() == next.Verifier().String() {
			return ledger.Receipt{}, errors.New("the new key has signed this ledger before")
		}
	}
	rec := ledger.Record{Kind: ledger.KindKeyRotation, Key: next.Verifier().String()}
	r, err := l.append(ctx, rec, func(*state, *ledger.Receipt) error { return nil })
	if err != nil {
		return ledger.Receipt{}, err
	}
	l.key = next
	return r, nil
}

// Repair verifies the whole ledger, removes the obstacles to appends, and makes the
// derived files again. It returns the list of its changes, for people. It never changes
// or removes a whole line, and refuses a ledger that does not verify.
func Repair(ctx context.Context, dir string, key *ledger.Signer, o Options) ([]string, error) {
	f, err := openWritable(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return repair(ctx, f, key, o)
}

func repair(ctx context.Context, fsys files, key *ledger.Signer, o Options) (did []string, err error) {
	l, err := open(unpoisoned{fsys}, key, o)
	if err != nil {
		return nil, err
	}
	truth, err := l.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, truth.Unlock(), truth.Close()) }()
	s, err := l.locked(truth)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := inTurn(func() error { return s.rebuild(ctx) }, s.checkKey, s.hold); err != nil {
		return nil, err
	}
	did = append(did, fmt.Sprintf("read %d entries; made the derived files again", s.tail.tree.Size))
	tiles, err := s.mendTiles()
	if err != nil {
		return nil, err
	}
	did = append(did, tiles...)
	if err := inTurn(s.unsynced, truth.Datasync); err != nil {
		return nil, err
	}
	if s.promise.Size < s.tail.tree.Size {
		s.needsRecord()
	}
	if s.tail.torn > 0 || len(s.repairs) > 0 {
		what := s.tail
		r, err := s.record(ledger.Record{})
		if err != nil {
			return nil, err
		}
		did = append(did, r.Warnings...)
		if what.torn > 0 && !what.closed {
			did = append(did, fmt.Sprintf("took %d torn bytes at byte %d to %s", what.torn, what.offset, nameQuarantine))
		}
		did = append(did, "recorded the repair")
	} else if s.promise.Size < s.tail.tree.Size {
		if _, warnings := s.sign(); len(warnings) > 0 {
			return nil, errors.New(warnings[0])
		}
		did = append(did, fmt.Sprintf("signed the checkpoint of %d entries", s.tail.tree.Size))
		if err := s.writeHead(); err != nil {
			return nil, err
		}
	}
	if err := fsys.Remove(namePoison); err != nil && !isNotExist(err) {
		return nil, err
	} else if err == nil {
		did = append(did, "appends are allowed again")
	}
	return did, nil
}

// unpoisoned hides the mark that stops appends, so that Repair can work.
type unpoisoned struct{ files }

func (u unpoisoned) Lstat(name string) (fs.FileInfo, error) {
	info, err := u.files.Lstat(name)
	if name == namePoison && err == nil && !info.IsDir() { // of a moved ledger it is a folder
		return nil, fs.ErrNotExist
	}
	return info, err
}

// ReadKey reads a private key from a file. Only the owner may be able to read the file.
func ReadKey(path string) (*ledger.Signer, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is no key; do not wait for one
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key %q is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key %q can be read by others (mode %04o); run: chmod 600 %s", path, mode, path)
	}
	text := make([]byte, maxKeyBytes+1)
	n, err := f.Read(text)
	if err != nil || n > maxKeyBytes {
		return nil, fmt.Errorf("key %q is not a private key of a ledger", path)
	}
	s, err := ledger.ParseSigner(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", path, err)
	}
	return s, nil
}

const maxKeyBytes = 1024
