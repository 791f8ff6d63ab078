//go:build linux && (amd64 || arm64)

package tree

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// in calls f with the folder that contains a path, and with the last name of the path.
func (a *applier) in(p string, f func(dir int, name string) error) error {
	dir, name := a.tree, p
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		fd, err := Beneath(a.tree, p[:i], unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: p[:i], Err: err}
		}
		defer unix.Close(fd)
		dir, name = fd, p[i+1:]
	}
	return f(dir, name)
}

// blocked says that a parent of a path is not a folder.
func blocked(err error) bool { return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) }

// lookup returns the entry of a folder under a name, or nil.
func lookup(dir int, name string) (*change.Seen, error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil, nil
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return change.SeenAs(&st), nil
}

// seen returns the entry at a path, or nil.
func (a *applier) seen(p string) (s *change.Seen, err error) {
	err = a.in(p, func(dir int, name string) error {
		s, err = lookup(dir, name)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return s, err
}

// sameObject says whether two entries are one file, folder or link. Its times and its size may
// differ.
func sameObject(a, b *change.Seen) bool {
	return a != nil && b != nil && a.Kind == b.Kind && a.Device == b.Device && a.Inode == b.Inode
}

// index counts the operations per replaced object, for same.
func (r *record) index() {
	r.links = map[identity]int{}
	for _, o := range r.Operations {
		if o.Was != nil {
			r.links[identityOf(o.Was)]++
		}
	}
}

// same says whether the entry that an operation replaces is unchanged. If several replaced
// links lead to one file, the first replacement changes the file's time, and same ignores
// that time.
func (r *record) same(now *change.Seen, o *operation) bool {
	if now == nil || o.Was == nil {
		return now == nil && o.Was == nil
	}
	was := *o.Was
	if r.links[identityOf(now)] > 1 {
		was.ChangedNS = now.ChangedNS
	}
	return *now == was
}

// due says whether an operation must still be done. A change by somebody else is a
// *ConflictError if first; otherwise the operation is not due.
func (a *applier) due(r *record, o *operation, first bool) (bool, error) {
	var now, aside *change.Seen
	err := a.in(o.path(), func(dir int, name string) (err error) {
		if first {
			if err := a.sameFolder(dir, path.Dir(o.path())); err != nil {
				return err
			}
		}
		if now, err = lookup(dir, name); err == nil {
			aside, err = lookup(dir, o.Aside)
		}
		return err
	})
	due := false
	switch {
	case unreachable(err):
	case err != nil:
		return false, err
	case now == nil:
		due = o.Do != doDelete && (o.Was == nil || sameObject(aside, o.Was))
	case o.Do == doFolder && now.Kind == change.KindFolder:
		return false, nil
	default:
		due = r.same(now, o)
		if due && now.Kind == change.KindFolder {
			if due, err = a.untouched(r, o.path()); err != nil {
				return false, err
			}
		}
	}
	if !due && first {
		return false, &ConflictError{Path: o.path()}
	}
	return due, nil
}

// sameFolder returns a *ConflictError if looked has a folder at this path and the open
// folder is another one.
func (a *applier) sameFolder(fd int, p string) error {
	if a.looked == nil {
		return nil
	}
	was, ok := a.looked.Folders[p]
	if !ok {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !sameObject(change.SeenAs(&st), &was) {
		return &ConflictError{Path: p}
	}
	return nil
}

// sameFolders returns a *ConflictError unless every folder in looked is still the same one.
func (a *applier) sameFolders() error {
	if a.looked == nil {
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(a.looked.Folders)) {
		fd, err := Beneath(a.tree, p, unix.O_PATH|unix.O_DIRECTORY)
		if err == unix.ENOENT || blocked(err) {
			return &ConflictError{Path: p}
		}
		if err != nil {
			return &fs.PathError{Op: "open", Path: p, Err: err}
		}
		err = a.sameFolder(fd, p)
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// untouched says whether nothing is mounted in a folder and its content is unchanged. With
// looked, the content must equal what the caller saw; without it, nothing may have changed
// since the execution began.
func (a *applier) untouched(r *record, p string) (bool, error) {
	fits := func(_ string, s *change.Seen) bool { return s.ChangedNS <= r.Since || r.links[identityOf(s)] > 0 }
	all := func() bool { return true }
	if a.looked != nil {
		held, found := a.looked.Beneath[p], 0
		fits = func(name string, s *change.Seen) bool {
			found++
			was, ok := held[name]
			if r.links[identityOf(s)] > 0 {
				was.ChangedNS = s.ChangedNS
			}
			return ok && was == *s
		}
		all = func() bool { return found == len(held) }
	}
	ok := true
	err := a.in(p, func(dir int, name string) (err error) {
		ok, err = a.walk(dir, name, p, fits)
		return err
	})
	return ok && all(), err
}

// walk says whether fits accepts every entry in a folder, at any depth, by its path.
func (a *applier) walk(dir int, name, shown string, fits func(string, *change.Seen) bool) (bool, error) {
	fd, err := openSub(dir, name)
	if err == unix.EXDEV {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: shown, Err: err}
	}
	defer unix.Close(fd)
	names, err := ReadNames(fd)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		s, err := lookup(fd, n)
		switch {
		case err != nil:
			return false, err
		case s == nil:
			return false, nil
		case !fits(shown+"/"+n, s):
			return false, nil
		case s.Kind == change.KindFolder:
			if ok, err := a.walk(fd, n, shown+"/"+n, fits); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// openSub opens a folder and refuses one on which something is mounted.
func openSub(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// put says whether the entry under a name is the one that the operation puts there.
func put(dir int, name string, o *operation) bool {
	if o.Kind == change.KindLink {
		target, err := ReadLink(dir, name)
		return err == nil && target == string(o.Target)
	}
	fd, err := Beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size {
		return false
	}
	sum, err := Digest(f)
	return err == nil && bytes.Equal(sum[:], o.SHA256)
}
