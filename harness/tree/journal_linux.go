//go:build linux && (amd64 || arm64)

package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// The journal of a folder is a folder beneath the state folder. Its name contains the
// device and the inode of the folder that it belongs to. It is locked while it is open.
// It contains
//
//	0, 1, ...   the blobs: the new content of changed files
//	record.new  a record that is being written and has no effect
//	apply       the record; a resuming run completes it
//	undo        the same record; a resuming run takes it back
//	clean       the same record, completely done; a resuming run removes replaced entries
//
// It never contains more than one of the last three; a rename turns one into another.
// Without a record the blobs have no effect.

// phase is the state of a record, and the name of its file.
type phase string

const (
	phaseNew   phase = "record.new"
	phaseApply phase = "apply"
	phaseUndo  phase = "undo"
	phaseClean phase = "clean"
)

// journal is the journal of one folder. Only one call of Apply or Recover at a time holds
// it.
type journal struct {
	calls
	state int    // descriptor of the state folder
	dir   int    // descriptor of the journal, which holds the lock
	name  string // in the state folder
}

// openJournal waits until it holds the journal of the folder. Without create it returns nil
// if the folder has no journal and no journal from another device can belong to it.
func openJournal(ctx context.Context, state string, tree *unix.Stat_t, create bool, c calls) (*journal, error) {
	if create {
		if err := makeFolder(state); err != nil {
			return nil, err
		}
	}
	top, err := unix.Open(state, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && !create {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: state, Err: err}
	}
	j := &journal{calls: c, state: top, dir: -1, name: fmt.Sprintf("apply-%x-%x", uint64(tree.Dev), tree.Ino)}
	found := false
	if err = ownFolder(top, state); err == nil {
		found, err = j.lock(ctx, create || len(j.others()) > 0)
	}
	if err != nil || !found {
		j.close()
		return nil, err
	}
	return j, nil
}

// lock opens and locks the journal. If the previous holder removed the journal in the
// meantime, lock tries again.
func (j *journal) lock(ctx context.Context, create bool) (bool, error) {
	for {
		if create {
			err := j.do("mkdir", j.name, func() error { return unix.Mkdirat(j.state, j.name, 0o700) })
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return false, err
			}
		}
		dir, err := Beneath(j.state, j.name, unix.O_RDONLY|unix.O_DIRECTORY)
		switch {
		case err == unix.ENOENT && create:
			continue
		case err == unix.ENOENT:
			return false, nil
		case err != nil:
			return false, &fs.PathError{Op: "open", Path: j.name, Err: err}
		}
		there := false
		if err = ownFolder(dir, j.name); err == nil {
			there, err = j.hold(ctx, dir)
		}
		if err == nil && there {
			j.dir = dir
			return true, nil
		}
		_ = unix.Close(dir)
		if err != nil {
			return false, err
		}
	}
}

// hold locks an open journal, and says whether its name still leads to the same folder.
func (j *journal) hold(ctx context.Context, dir int) (bool, error) {
	switch err := flock(ctx, dir); {
	case errors.Is(err, ErrBusy):
		return false, err
	case err != nil:
		return false, &fs.PathError{Op: "lock", Path: j.name, Err: err}
	}
	var held, there unix.Stat_t
	if err := unix.Fstat(dir, &held); err != nil {
		return false, err
	}
	err := unix.Fstatat(j.state, j.name, &there, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	return held.Dev == there.Dev && held.Ino == there.Ino, err
}

const (
	lockPause = 20 * time.Millisecond // between two attempts to take a lock that another process holds
	lockQuiet = time.Second           // before the caller is told that it waits
)

// flock waits for a lock, and returns ErrBusy when the context ends.
func flock(ctx context.Context, fd int) error {
	pause := time.NewTicker(lockPause)
	defer pause.Stop()
	begun, told := time.Now(), false
	for {
		switch err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
		case err == unix.EINTR:
			continue
		case err != unix.EWOULDBLOCK:
			return err
		}
		select {
		case <-ctx.Done():
			return ErrBusy
		case <-pause.C:
		}
		if !told && time.Since(begun) >= lockQuiet {
			told = true
			tellWaiting(ctx)
		}
	}
}

// ownFolder refuses a folder that another user owns or can write, because Apply carries out
// the records of a journal.
func ownFolder(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return &fs.PathError{Op: "use", Path: name, Err: ErrNotOwn}
	}
	return nil
}

// close removes the journal if it is empty, and releases the lock.
func (j *journal) close() {
	if j.dir >= 0 {
		_ = j.do("rmdir", j.name, func() error { return unix.Unlinkat(j.state, j.name, unix.AT_REMOVEDIR) })
		_ = unix.Close(j.dir)
	}
	_ = unix.Close(j.state)
}

// load reads the record, or returns nil.
func (j *journal) load() (*record, error) {
	for _, p := range []phase{phaseApply, phaseUndo, phaseClean} {
		fd, err := Beneath(j.dir, string(p), unix.O_RDONLY)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: j.name + "/" + string(p), Err: err}
		}
		f := os.NewFile(uintptr(fd), j.name+"/"+string(p))
		defer f.Close()
		r := &record{phase: p}
		dec := json.NewDecoder(f)
		dec.DisallowUnknownFields()
		if err := dec.Decode(r); err != nil {
			return nil, fmt.Errorf("%q is damaged: %w", f.Name(), err)
		}
		if !r.valid() {
			return nil, fmt.Errorf("%q is not a record that this version knows", f.Name())
		}
		return r, nil
	}
	return nil, nil
}

// commit writes the record. When commit returns nil, the record and the blobs kept before
// are durable.
func (j *journal) commit(r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	r.phase = phaseNew
	f, err := j.write(j.dir, string(phaseNew), j.name+"/"+string(phaseNew), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err == nil {
		err = j.settle(f)
	}
	if err == nil {
		err = j.syncFolder(j.state, ".")
	}
	if err != nil {
		return err
	}
	return j.turn(r, phaseApply)
}

// turn gives the record another phase. It needs no disk space.
func (j *journal) turn(r *record, p phase) error {
	err := j.do("turn", j.name+"/"+string(p), func() error { return unix.Renameat(j.dir, string(r.phase), j.dir, string(p)) })
	if err != nil {
		return err
	}
	r.phase = p
	return j.syncFolder(j.dir, j.name)
}

// keep copies the content of a changed file into a blob, and compares it with the hash of
// the change.
func (j *journal) keep(blob int, c change.Change, content Content) error {
	r, err := content(c.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	name := strconv.Itoa(blob)
	f, err := j.write(j.dir, name, j.name+"/"+name, func(w io.Writer) error { return copyOf(w, r, c.Size, c.SHA256[:]) })
	if err != nil {
		return fmt.Errorf("%q: %w", c.Path, err)
	}
	return j.settle(f)
}

// blob writes the content of a file from its blob to w.
func (j *journal) blob(o *operation, w io.Writer) error {
	f, err := OpenFile(j.dir, strconv.Itoa(o.Blob))
	if err != nil {
		return err
	}
	defer f.Close()
	return copyOf(w, f, o.Size, o.SHA256)
}

// copyOf copies r to w and returns an error unless size and hash match.
func copyOf(w io.Writer, r io.Reader, size int64, sum []byte) error {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, size+1))
	if err != nil {
		return err
	}
	if n != size || !bytes.Equal(h.Sum(nil), sum) {
		return errors.New("the content is not the one that was accepted")
	}
	return nil
}

// clear removes the record, and then the blobs. Blobs that remain without a record have no
// effect, and the next call that opens the journal removes them.
func (j *journal) clear(r *record) error {
	if r != nil {
		if err := j.remove(string(r.phase)); err != nil {
			return err
		}
		if err := j.syncFolder(j.dir, j.name); err != nil {
			return err
		}
	}
	names, err := ReadNames(j.dir)
	for i := 0; i < len(names) && err == nil; i++ {
		err = j.remove(names[i])
	}
	return nil
}

func (j *journal) remove(name string) error {
	err := j.do("unlink", j.name+"/"+name, func() error { return unix.Unlinkat(j.dir, name, 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
