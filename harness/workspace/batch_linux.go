//go:build linux && (amd64 || arm64)

package workspace

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/durable"
)

// incoming is the folder of the store for objects that are not durable yet.
const incoming = "incoming"

// batch keeps new objects. They get their names when all of them are durable: for many, one sync
// of the file system takes less time than one of each file. A kill leaves objects under
// their names or in incoming, which the next batch empties.
type batch struct {
	store *Store
	lock  *os.File
	new   map[receipt.Hash]bool
}

// begin begins a batch. It waits for another one of the same store until the context ends.
func (s *Store) begin(ctx context.Context) (*batch, error) {
	lock, err := s.root.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), lock.Close())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err == nil {
		err = s.root.RemoveAll(incoming)
	}
	if err == nil {
		err = s.root.Mkdir(incoming, 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &batch{s, lock, map[receipt.Hash]bool{}}, nil
}

// Has says whether the store has an object, or will have it after commit.
func (b *batch) Has(h receipt.Hash) bool {
	var st unix.Stat_t
	return b.new[h] || unix.Fstatat(int(b.lock.Fd()), objectName(h), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// Put keeps an object. The bytes must be those of the hash.
func (b *batch) Put(h receipt.Hash, from io.Reader) error {
	name := incoming + "/" + h.Hex()
	f, err := b.store.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	got, _, err := receipt.Copy(f, from)
	if err == nil && got != h {
		err = ErrOther
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, b.store.root.Remove(name))
	}
	b.new[h] = true
	return nil
}

// few is how many objects are synced by themselves. More are synced with their file system.
const few = 256

// commit makes the objects durable, and then gives them their names.
func (b *batch) commit() error {
	if len(b.new) == 0 {
		return nil
	}
	var names []string
	for h := range b.new {
		names = append(names, incoming+"/"+h.Hex())
	}
	if err := b.sync(names); err != nil {
		return err
	}
	folders := map[string]bool{".": true, "objects": true}
	for h := range b.new {
		name := objectName(h)
		dir := name[:len("objects/ab")]
		if err := b.store.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := b.store.root.Rename(incoming+"/"+h.Hex(), name); err != nil {
			return err
		}
		folders[dir] = true
	}
	return b.sync(slices.Collect(maps.Keys(folders)))
}

// sync syncs files and folders, or the whole file system if there are many objects.
func (b *batch) sync(names []string) error {
	if len(b.new) > few {
		return unix.Syncfs(int(b.lock.Fd()))
	}
	return durable.SyncAll(b.store.root, names)
}

// end ends the batch. Objects that were not committed are gone.
func (b *batch) end() error { return errors.Join(b.store.root.RemoveAll(incoming), b.lock.Close()) }

// Lock locks the store for one run until unlock is called, or the process ends.
func (s *Store) Lock() (unlock func() error, err error) {
	f, err := s.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
