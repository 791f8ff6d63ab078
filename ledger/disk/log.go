// Package disk keeps a ledger in a folder: it locks, appends, and mends what an
// interrupted append left. What the files are and mean is package ledger's.
//
// An append makes these calls, in this order:
//
//  1. open ledger.jsonl and lock its inode; compare the inode with the name's;
//  2. read the head, or make it again; read lines that the head does not cover;
//  3. compare with the checkpoint, and with the pinned ones;
//  4. look up the run id;
//  5. write the line, with one write, and sync it, with one fdatasync;
//  6. sign the checkpoint and rename it into its place;
//  7. write the derived files, the head last;
//  8. unlock.
//
// After a kill between any two calls, the next append can continue. A line that was
// written but not acknowledged stays, because somebody may have read it. A retry with
// the same run id gets its receipt.
//
// A failed write or sync is undone while the lock is held. If that fails too, nothing is
// appended any more until Repair.
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/fiador/fiador/ledger"
)

// Options are the settings of an append.
type Options struct {
	Now  func() time.Time
	Wait time.Duration // for the lock; 0: DefaultWait
	// Progress is called during the reading of the whole ledger with the number of bytes
	// read, and at the end with all; or nil.
	Progress func(read, of int64)
	boot     string // in tests, another start of the system
}

// DefaultWait is the time that an append waits for others.
const DefaultWait = 30 * time.Second

// Errors that stop every append to a folder.
var (
	ErrPoisoned = errors.New("an earlier append could not be undone; run: fiador ledger repair")
	ErrBusy     = errors.New("another process holds the ledger's lock")
	ErrReplaced = errors.New("ledger.jsonl was replaced while its lock was waited for")
)

// Log is a ledger that can be appended to. Any number of goroutines may call its
// methods.
type Log struct {
	files   files
	name    string // of the log
	key     *ledger.Signer
	origin  ledger.Keys
	options Options

	turn    chan struct{} // holds one value during an append of this Log
	stopped error         // a failed append could be neither undone nor marked
	puts    atomic.Int64
}

// Open opens a ledger, without its lock. It checks whether an append can succeed before
// anything depends on it.
func Open(dir string, key *ledger.Signer, o Options) (*Log, error) {
	f, err := openWritable(dir)
	if err != nil {
		return nil, err
	}
	l, err := open(f, key, o)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// openWritable opens the folder of a ledger that can be appended to.
func openWritable(dir string) (folder, error) {
	if err := checkFileSystem(dir); err != nil {
		return folder{}, err
	}
	f, err := openFolder(dir)
	if err != nil {
		return folder{}, err
	}
	if err := checkWritable(dir, ".", nameState, nameEvidence); err != nil {
		return folder{}, errors.Join(err, f.Close())
	}
	return f, nil
}

func open(fsys files, key *ledger.Signer, o Options) (*Log, error) {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.boot == "" {
		o.boot = bootID()
	}
	for _, name := range []string{ledger.PinFolder, nameEvidence, nameEvidence + "/sha256", "tile", nameState, nameEdge, nameQuarantine} {
		if err := checkFolder(fsys, name); err != nil {
			return nil, err
		}
	}
	l := &Log{files: fsys, name: key.Origin(), key: key, options: o, turn: make(chan struct{}, 1)}
	var err error
	if l.origin, err = readOrigin(fsys); err != nil {
		return nil, err
	}
	if err := l.poisoned(); err != nil {
		return nil, err
	}
	truth, err := fsys.Open(nameLedger, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err = l.checkKey(); errors.Is(err, ledger.ErrWrongKey) && l.rotated(truth) {
		err = nil
	}
	return l, errors.Join(err, truth.Close())
}

// rotated says whether the ledger ends with a rotation to the key of l: Rotate was
// interrupted before it wrote origin.json. The next append writes it.
func (l *Log) rotated(truth file) bool {
	info, err := truth.Stat()
	if err != nil {
		return false
	}
	b := make([]byte, min(info.Size(), ledger.MaxLineBytes))
	if _, err := truth.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return false
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	last, err := ledger.ParseLine(b[bytes.LastIndexByte(b, '\n')+1:])
	if err != nil {
		return false
	}
	rec, err := ledger.ParseRecord(last.Entry)
	return err == nil && rec.Kind == ledger.KindKeyRotation && rec.Key == l.key.Verifier().String() &&
		l.origin.Now().CheckSeal(last.Seal) == nil
}

// checkKey compares the signer with the ledger's current key.
func (l *Log) checkKey() error {
	if now := l.origin.Now(); l.key.Verifier().String() != now.String() {
		return fmt.Errorf("%w: it is %s, and the ledger's is %s", ledger.ErrWrongKey, l.key.Verifier(), now)
	}
	return nil
}

// Close closes the ledger.
func (l *Log) Close() error { return l.files.Close() }

// Origin returns the name of the log.
func (l *Log) Origin() string { return l.name }

// poisoned returns ErrPoisoned if a failed append could not be undone, and a *Moved if the
// ledger has moved to a server.
func (l *Log) poisoned() error {
	if l.stopped != nil {
		return fmt.Errorf("%w: %w", ErrPoisoned, l.stopped)
	}
	if info, err := l.files.Lstat(namePoison); err == nil && info.IsDir() {
		return l.moved()
	} else if err == nil {
		return ErrPoisoned
	} else if !isNotExist(err) {
		return err
	}
	return nil
}

// enter waits for the other appends of this Log, no longer than ctx and the waiting time
// for the lock allow. leave ends it.
func (l *Log) enter(ctx context.Context) error {
	ctx, cancel := l.waiting(ctx)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Log) leave() { <-l.turn }

// waiting limits the time that an append waits for others.
func (l *Log) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.options.Wait, fmt.Errorf("%w for more than %s", ErrBusy, l.options.Wait))
}

// lock opens ledger.jsonl and locks it. When lock returns, the name leads to the locked
// inode.
func (l *Log) lock(ctx context.Context) (file, error) {
	ctx, cancel := l.waiting(ctx)
	defer cancel()
	f, err := l.files.Open(nameLedger, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := f.Lock(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	held, err := f.Stat()
	if err == nil {
		named, statErr := l.files.Lstat(nameLedger)
		if statErr != nil || !os.SameFile(held, named) {
			err = errors.Join(ErrReplaced, statErr)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Unlock(), f.Close())
	}
	return f, nil
}

// CheckFileSystem says what is wrong with the file system of a folder for a ledger: on a
// network its locks may not hold.
func CheckFileSystem(dir string) error { return checkFileSystem(dir) }
