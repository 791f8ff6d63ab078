//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The journal of a folder is a folder beneath the state folder, named after the
// device and the inode of what it is about, and locked while it is open. It has
//
//	0, 1, ...   the blobs: what changed files are to hold
//	record.new  a record that is being written, which counts for nothing
//	apply       the record, carried forward when it is found
//	undo        the same record, carried back when it is found
//	clean       the same record, all of it done: what was replaced goes when it is found
//
// and never more than one of the last three, which become each other by a rename.
// Without a record the blobs count for nothing.

// phase is where a record stands, and the name of its file.
type phase string

const (
	phaseNew   phase = "record.new"
	phaseApply phase = "apply"
	phaseUndo  phase = "undo"
	phaseClean phase = "clean"
)

// record says what is to be done to a folder.
type record struct {
	Version    int         `json:"version"`
	Folder     string      `json:"folder"` // its path when it was written, for people
	Birth      int64       `json:"birth"`  // of the folder, nanoseconds since 1970; 0: unknown
	Since      int64       `json:"since"`  // nanoseconds since 1970
	Operations []operation `json:"operations"`

	phase phase
}

const recordVersion = 1

// action is what an operation does.
type action string

const (
	doFolder action = "folder" // makes a folder
	doPut    action = "put"    // puts a file or a symbolic link
	doDelete action = "delete"
)

// operation is one thing to be done. Paths are bytes, for they may not be UTF-8.
type operation struct {
	Do         action `json:"do"`
	Path       []byte `json:"path"`
	Kind       Kind   `json:"kind,omitempty"`   // of what is put
	Target     []byte `json:"target,omitempty"` // of a symbolic link
	Blob       int    `json:"blob"`             // what a file is to hold
	Size       int64  `json:"size"`
	SHA256     []byte `json:"sha256,omitempty"`
	Executable bool   `json:"executable,omitempty"`
	Temp       string `json:"temp"`  // name, in the same folder, of what is not yet in place
	Aside      string `json:"aside"` // name, in the same folder, of what was in the way
	Was        *Seen  `json:"was"`   // what it replaces, or nil
}

func (o *operation) path() string { return string(o.Path) }

// valid says whether the record can be carried out without doing harm.
func (r *record) valid() bool {
	if r.Version != recordVersion {
		return false
	}
	temp := func(name string) bool {
		return len(name) == len(tempPrefix)+16 && name[:len(tempPrefix)] == tempPrefix && isClean(name)
	}
	for _, o := range r.Operations {
		known := o.Do == doFolder || o.Do == doDelete && o.Was != nil ||
			o.Do == doPut && (o.Kind == KindFile && len(o.SHA256) == sha256.Size || o.Kind == KindLink && len(o.Target) > 0)
		if !known || !isClean(o.path()) || !temp(o.Temp) || !temp(o.Aside) {
			return false
		}
	}
	return true
}

// calls makes system calls that change something, one at a time.
type calls struct {
	// before is told about each, and can fail in its place. Nil but in tests.
	before func(call, name string) error
}

func (c calls) do(call, name string, f func() error) error {
	if c.before != nil {
		if err := c.before(call, name); err != nil {
			return &fs.PathError{Op: call, Path: name, Err: err}
		}
	}
	for {
		switch err := f(); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &fs.PathError{Op: call, Path: name, Err: err}
		}
	}
}

// syncFolder makes what was created, renamed and removed in a folder last. Some file
// systems have nothing to do for that and say that they cannot.
func (c calls) syncFolder(dir int, name string) error {
	err := c.do("fsync", name, func() error { return unix.Fsync(dir) })
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// write makes a new file, and leaves it to the caller to sync and close it.
func (c calls) write(dir int, name, shown string, from func(io.Writer) error) (*os.File, error) {
	var fd int
	err := c.do("create", shown, func() (err error) {
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), shown)
	if err := c.do("write", shown, func() error { return from(f) }); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// settle syncs and closes a file that was written.
func (c calls) settle(f *os.File) error {
	err := c.do("fsync", f.Name(), func() error { return unix.Fsync(int(f.Fd())) })
	return errors.Join(err, f.Close())
}

// journal is the journal of one folder. Whoever has it is alone with the folder, as
// far as Apply and Recover go.
type journal struct {
	calls
	state int    // descriptor of the state folder
	dir   int    // descriptor of the journal, which holds the lock
	name  string // in the state folder
}

// openJournal waits until nobody else has the journal of the folder. Without create
// it returns nil where there is none.
func openJournal(state string, tree *unix.Stat_t, create bool, c calls) (*journal, error) {
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
	found, err := j.lock(create)
	if err != nil || !found {
		j.close()
		return nil, err
	}
	return j, nil
}

// lock opens and locks the journal. Who waited for somebody who then removed it looks
// again.
func (j *journal) lock(create bool) (bool, error) {
	for {
		if create {
			err := j.do("mkdir", j.name, func() error { return unix.Mkdirat(j.state, j.name, 0o700) })
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return false, err
			}
		}
		dir, err := beneath(j.state, j.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == unix.ENOENT {
			if create {
				continue
			}
			return false, nil
		}
		if err == nil {
			j.dir = dir
			err = flock(dir)
		}
		if err != nil {
			return false, &fs.PathError{Op: "lock", Path: j.name, Err: err}
		}
		var held, there unix.Stat_t
		if err := unix.Fstat(dir, &held); err != nil {
			return false, err
		}
		err = unix.Fstatat(j.state, j.name, &there, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && held.Dev == there.Dev && held.Ino == there.Ino {
			return true, nil
		}
		_ = unix.Close(dir)
		j.dir = -1
	}
}

func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

// close gives up the lock.
func (j *journal) close() {
	if j.dir >= 0 {
		_ = unix.Close(j.dir)
	}
	_ = unix.Close(j.state)
}

// makeFolder makes a folder and those above it, so that they last.
func makeFolder(dir string) error {
	dir = filepath.Clean(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	up, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(dir), Err: err}
	}
	defer unix.Close(up)
	return calls{}.syncFolder(up, filepath.Dir(dir))
}

// load reads the record, or returns nil.
func (j *journal) load() (*record, error) {
	for _, p := range []phase{phaseApply, phaseUndo, phaseClean} {
		fd, err := beneath(j.dir, string(p), unix.O_RDONLY)
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

// commit writes the record. When it returns nil the record lasts, and so do the blobs
// that were kept before.
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

// turn gives the record another phase. It needs no room on the disk.
func (j *journal) turn(r *record, p phase) error {
	err := j.do("rename", j.name+"/"+string(p), func() error { return unix.Renameat(j.dir, string(r.phase), j.dir, string(p)) })
	if err != nil {
		return err
	}
	r.phase = p
	return j.syncFolder(j.dir, j.name)
}

// keep copies what a change has put into a file, and holds it against the hash of the
// change.
func (j *journal) keep(blob int, c Change, content Content) error {
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

// blob writes what a file is to hold.
func (j *journal) blob(o *operation, w io.Writer) error {
	f, err := openFile(j.dir, strconv.Itoa(o.Blob))
	if err != nil {
		return err
	}
	defer f.Close()
	return copyOf(w, f, o.Size, o.SHA256)
}

// copyOf copies exactly what has that size and that hash.
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

// drop removes the record, and then all that is left. What cannot be removed once the
// record is gone counts for nothing, and whoever opens the journal next removes it.
func (j *journal) drop(r *record) error {
	if r != nil {
		if err := j.remove(string(r.phase)); err != nil {
			return err
		}
		if err := j.syncFolder(j.dir, j.name); err != nil {
			return err
		}
	}
	names, err := readNames(j.dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if j.remove(name) != nil {
			return nil
		}
	}
	_ = j.do("rmdir", j.name, func() error { return unix.Unlinkat(j.state, j.name, unix.AT_REMOVEDIR) })
	return nil
}

func (j *journal) remove(name string) error {
	err := j.do("unlink", j.name+"/"+name, func() error { return unix.Unlinkat(j.dir, name, 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
