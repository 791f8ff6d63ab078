// Package storage keeps a log of Tessera and its evidence: in a folder, or in a database and a
// bucket. It owns the lock of a log, the documents that say which log it is, and how the log is
// opened, added to and read.
package storage

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Storage is where a log and its evidence are kept.
type Storage interface {
	// Resource reads the checkpoint or a tile by its path.
	Resource(name string) ([]byte, error)
	// Blob opens evidence. A missing blob is fs.ErrNotExist.
	Blob(h canon.ContentHash) (content io.ReadCloser, size int64, err error)
	// HasBlob says whether evidence of this size is there and durable.
	HasBlob(b ledger.Blob) (bool, error)
	// PutBlob stores evidence. It is durable when PutBlob returns.
	PutBlob(h canon.ContentHash, content io.Reader) error
	// Lead takes the right to write, or returns ErrBusy.
	Lead(decorate Decorator) (*Lead, error)
	// Document reads a small file of the log, as origin.json. A missing one is fs.ErrNotExist.
	Document(name string) ([]byte, error)
	// SetDocument replaces a document, durably. Without text it removes it.
	SetDocument(name string, text []byte) error
	// Size returns the number of durable entries, without the right to write.
	Size() (int64, error)
	// state returns the tree of the tiles, as Tessera has it. The next checkpoint is of it, or of
	// a larger one.
	state() (tlog.Tree, error)
	// Who says which log this is.
	Who() *Identity
	// Inspect says what is known of the place, and whether a server writes.
	Inspect(say Findings)
	// Claimed returns how many leading entries of a log of a size have a claim that fits.
	Claimed(size int64, log claims.Log) (int64, error)
}

// Findings take what is found at a place. What is wrong has a remedy.
type Findings interface {
	// OK says what is right.
	OK(what, format string, args ...any)
	// Note says what a person should know.
	Note(what, format string, args ...any)
	// Fault says what is wrong.
	Fault(what, format string, args ...any)
}

// Lead is the right to write to a log, and what is written.
type Lead struct {
	Tree   *Tree        // the log
	Claims claims.Store // of the entries
	Fresh  bool         // the log is new, and may have no genesis yet
	Finish func() error // marks a new log as complete
	unlock func() error
	Lost   <-chan struct{} // closed when the right is lost; nil if that cannot happen
}

// IsLost says whether another server may write now.
func (l *Lead) IsLost() bool {
	select {
	case <-l.Lost:
		return true
	default:
		return false
	}
}

// Close gives the right back when a checkpoint covers all entries, if it has not been lost.
func (l *Lead) Close() error {
	return errors.Join(l.Tree.close(l.IsLost()), l.Claims.Close(), l.unlock())
}

// BlobTime is the time for a blob in either direction.
const BlobTime = 2 * time.Minute

// Errors of a storage that callers tell apart.
var (
	ErrBusy     = errors.New("another server has the lock")
	ErrNoLog    = errors.New("there is no log yet; fiador-ledgerd serve makes it")
	ErrHash     = errors.New("the content has another hash")
	errNotEmpty = errors.New("the folder has files and no origin.json: name a new folder, or one of a ledger server")
)

// The names in the folder of a log.
const (
	nameLock     = "lock"
	nameLog      = "log" // as C2SP tlog-tiles wants it: checkpoint, tile/…
	nameEvidence = "evidence/sha256"
	nameIncoming = "evidence/incoming"         // blobs that are being written
	nameNext     = "next"                      // a document that is being written
	nextOrigin   = ledger.NameOrigin + ".next" // of an earlier version
)

// Posix is a storage in a folder of a local file system.
type Posix struct {
	Identity
	root     *os.Root
	dir      string
	followed *claims.File // while another server writes
}

// OpenPosix opens the folder of a log, or makes it.
func OpenPosix(dir string, id Identity) (*Posix, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err == nil {
		err = errors.Join(parent.Sync(), parent.Close()) // the folder itself must last
	}
	if err != nil {
		return nil, err
	}
	return LookPosix(dir, id)
}

// LookPosix opens the folder of a log that is there.
func LookPosix(dir string, id Identity) (*Posix, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoLog
	}
	if err != nil {
		return nil, err
	}
	p := &Posix{Identity: id, root: root, dir: dir}
	return p, p.readOrigin(false)
}

// Who implements Storage.
func (p *Posix) Who() *Identity { return &p.Identity }

// readOrigin reads origin.json and checks that the log and its key are the server's. A
// folder without it must be one where a log can be made.
func (p *Posix) readOrigin(leading bool) error {
	names, err := fs.ReadDir(p.root.FS(), ".") // before the file, which another server may just make
	if err != nil {
		return err
	}
	if err := p.Identity.read(p, leading); err != nil || !p.Fresh {
		return err
	}
	for _, n := range names {
		if !slices.Contains([]string{nameLock, claims.Name, nameLog, "evidence", nameNext, nextOrigin, NameImport, NameRotation, witness.Contradiction}, n.Name()) {
			return errNotEmpty
		}
	}
	return nil
}

// Document implements Storage.
func (p *Posix) Document(name string) ([]byte, error) { return p.root.ReadFile(name) }

// SetDocument implements Storage.
func (p *Posix) SetDocument(name string, text []byte) error {
	if text == nil {
		if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return p.sync(".")
	}
	f, err := p.root.OpenFile(nameNext, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = p.root.Rename(nameNext, name)
	}
	if err == nil {
		err = p.sync(".")
	}
	return err
}

// Size reads the size of the log where Tessera keeps it.
func (p *Posix) Size() (int64, error) {
	tree, err := p.state()
	return tree.N, err
}

func (p *Posix) state() (tree tlog.Tree, err error) {
	text, err := p.Resource(".state/treeState")
	if errors.Is(err, fs.ErrNotExist) {
		return tree, nil
	}
	var state struct {
		Size int64  `json:"size"`
		Root []byte `json:"root"`
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	tree.N = state.Size
	copy(tree.Hash[:], state.Root)
	return tree, err
}

// sync makes the names in a folder durable.
func (p *Posix) sync(name string) error {
	d, err := p.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Resource implements Storage.
func (p *Posix) Resource(name string) ([]byte, error) { return p.root.ReadFile(nameLog + "/" + name) }

func blobName(h canon.ContentHash) string {
	digits := h.Hex()
	return nameEvidence + "/" + digits[:2] + "/" + digits[2:]
}

// Blob implements Storage.
func (p *Posix) Blob(h canon.ContentHash) (io.ReadCloser, int64, error) {
	f, err := p.root.Open(blobName(h))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// HasBlob implements Storage.
func (p *Posix) HasBlob(b ledger.Blob) (bool, error) {
	info, err := p.root.Stat(blobName(b.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Size() != b.Size {
		return false, err
	}
	return true, p.keepName(b.SHA256, info)
}

// keepName makes the name of a blob durable. A blob that is read-only was kept before.
func (p *Posix) keepName(h canon.ContentHash, info fs.FileInfo) error {
	if info.Mode().Perm()&0o222 == 0 {
		return nil
	}
	name := blobName(h)
	if err := errors.Join(p.sync(path.Dir(name)), p.sync(nameEvidence)); err != nil {
		return err
	}
	return p.root.Chmod(name, 0o444)
}

// PutBlob implements Storage.
func (p *Posix) PutBlob(h canon.ContentHash, content io.Reader) error {
	sum := sha256.New()
	if info, ok := p.stored(h); ok {
		if _, err := io.Copy(sum, content); err != nil {
			return &ReadError{err}
		}
		if hex.EncodeToString(sum.Sum(nil)) != h.Hex() {
			return ErrHash
		}
		return p.keepName(h, info)
	}
	next := nameIncoming + "/" + rand.Text()
	f, err := p.root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	from := &source{Reader: content}
	_, err = io.Copy(io.MultiWriter(f, sum), from)
	switch {
	case from.err != nil:
		err = &ReadError{from.err}
	case err == nil && hex.EncodeToString(sum.Sum(nil)) != h.Hex():
		err = ErrHash
	case err == nil:
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = p.root.MkdirAll(path.Dir(blobName(h)), 0o755)
	}
	if err == nil {
		err = p.root.Rename(next, blobName(h))
	}
	if err != nil {
		return errors.Join(err, p.root.Remove(next))
	}
	info, err := p.root.Stat(blobName(h))
	if err != nil {
		return err
	}
	return p.keepName(h, info)
}

// stored says whether a blob is there with the right content. A damaged one is written again.
func (p *Posix) stored(h canon.ContentHash) (fs.FileInfo, bool) {
	f, err := p.root.Open(blobName(h))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil || hex.EncodeToString(sum.Sum(nil)) != h.Hex() {
		return nil, false
	}
	info, err := f.Stat()
	return info, err == nil
}

// source notes whether reading failed, because writing may fail too.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// ReadError says that the content of a blob was not received completely.
type ReadError struct{ error }

// Unwrap returns the error of the content.
func (e *ReadError) Unwrap() error { return e.error }

// Lead implements Storage. When another server has the lock, it reads what that one has claimed.
func (p *Posix) Lead(decorate Decorator) (*Lead, error) {
	lock, err := p.lock()
	if errors.Is(err, ErrBusy) {
		p.follow()
	}
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Lead, error) { return nil, errors.Join(err, lock.Close()) }
	if err := syncTree(filepath.Join(p.dir, nameLog)); err != nil { // before the end of a rotation reads the size
		return fail(err)
	}
	if err := p.readOrigin(true); err != nil { // the server before may have made it
		return fail(err)
	}
	if err := errors.Join(p.root.RemoveAll(nameIncoming), p.root.MkdirAll(nameIncoming, 0o755), p.root.MkdirAll(nameEvidence, 0o755), p.sync("evidence")); err != nil {
		return fail(err)
	}
	file, err := p.root.OpenFile(claims.Name, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = p.sync(".")
	}
	if err != nil {
		return fail(err)
	}
	if err := rooted(p); err != nil { // before Tessera, which would sign another tree
		return fail(errors.Join(err, file.Close()))
	}
	t, err := openTree(filepath.Join(p.dir, nameLog), p.noteSigner(), decorate, p.Cosign)
	if err != nil {
		return fail(errors.Join(err, file.Close()))
	}
	known := claims.InFile(file, p.followed)
	p.followed = nil
	return &Lead{Tree: t, Claims: known, Fresh: p.Fresh, Finish: func() error { return p.finish(p) }, unlock: lock.Close}, nil
}

// follow reads what the server that writes has claimed so far. When this server takes over, it
// has to read the rest alone. What goes wrong here is found when it takes over.
func (p *Posix) follow() {
	if p.followed == nil {
		file, err := p.root.Open(claims.Name)
		if err != nil {
			return
		}
		p.followed = claims.InFile(file, nil)
	}
	text, err := p.Resource("checkpoint")
	if err != nil {
		return
	}
	if c, err := ledger.ParseCheckpoint(text); err == nil {
		_, _ = p.followed.Read(c.Size, NewView(p)) // claims that no checkpoint covers yet end it with an error
	}
}

// lock takes the lock of the folder. It ends with the process, or when the file is closed.
func (p *Posix) lock() (*os.File, error) {
	f, err := p.root.OpenFile(nameLock, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for range 3 { // check takes it for a moment
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrBusy
	}
	if err == nil {
		var held, named fs.FileInfo
		held, err = f.Stat()
		if err == nil {
			named, err = p.root.Stat(nameLock)
		}
		if err == nil && !os.SameFile(held, named) {
			err = ErrBusy // replaced meanwhile
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
