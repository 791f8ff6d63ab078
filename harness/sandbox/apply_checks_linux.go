//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// in calls f with the folder that a path lies in, and its name there.
func (a *applier) in(p string, f func(dir int, name string) error) error {
	dir, name := a.tree, p
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		fd, err := beneath(a.tree, p[:i], unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: p[:i], Err: err}
		}
		defer unix.Close(fd)
		dir, name = fd, p[i+1:]
	}
	return f(dir, name)
}

// blocked says that something else stands where a folder above a path should.
func blocked(err error) bool { return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) }

// lookup is what a folder has under a name, or nil.
func lookup(dir int, name string) (*Seen, error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil, nil
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return seenAs(&st), nil
}

// seen is what stands at a path, or nil.
func (a *applier) seen(p string) (s *Seen, err error) {
	err = a.in(p, func(dir int, name string) error {
		s, err = lookup(dir, name)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return s, err
}

func sameObject(a, b *Seen) bool {
	return a != nil && b != nil && a.Kind == b.Kind && a.Device == b.Device && a.Inode == b.Inode
}

// index prepares same.
func (r *record) index() {
	r.links = map[identity]int{}
	for _, o := range r.Operations {
		if o.Was != nil {
			r.links[o.Was.identity()]++
		}
	}
}

// same says whether an operation finds what it replaces as it was. A file with several
// links that are replaced changes with the first of them.
func (r *record) same(now *Seen, o *operation) bool {
	if now == nil || o.Was == nil {
		return now == nil && o.Was == nil
	}
	was := *o.Was
	if r.links[now.identity()] > 1 {
		was.ChangedNS = now.ChangedNS
	}
	return *now == was
}

// due says whether an operation is still to be done. What somebody else changed is a
// *ConflictError where first, and not due otherwise.
func (a *applier) due(r *record, o *operation, first bool) (bool, error) {
	var now, aside *Seen
	err := a.in(o.path(), func(dir int, name string) (err error) {
		if now, err = lookup(dir, name); err == nil {
			aside, err = lookup(dir, o.Aside)
		}
		return err
	})
	due := false
	switch {
	case blocked(err) || errors.Is(err, unix.ENOENT):
	case err != nil:
		return false, err
	case now == nil:
		due = o.Do != doDelete && (o.Was == nil || sameObject(aside, o.Was))
	case o.Do == doFolder && now.Kind == KindFolder:
		return false, nil
	default:
		due = r.same(now, o)
		if due && now.Kind == KindFolder {
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

// untouched says whether nothing beneath a folder changed since the execution began,
// and nothing is mounted there.
func (a *applier) untouched(r *record, p string) (bool, error) {
	ok := true
	err := a.in(p, func(dir int, name string) (err error) {
		ok, err = a.walk(r, dir, name, p)
		return err
	})
	return ok, err
}

func (a *applier) walk(r *record, dir int, name, shown string) (bool, error) {
	fd, err := openSub(dir, name)
	if err == unix.EXDEV {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: shown, Err: err}
	}
	defer unix.Close(fd)
	names, err := readNames(fd)
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
		case s.ChangedNS > r.Since && r.links[s.identity()] == 0:
			return false, nil
		case s.Kind == KindFolder:
			if ok, err := a.walk(r, fd, n, shown+"/"+n); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// openSub opens a folder that nothing is mounted on.
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

// put says whether a place has what the operation puts there.
func put(dir int, name string, o *operation) bool {
	if o.Kind == KindLink {
		target, err := readLink(dir, name)
		return err == nil && target == string(o.Target)
	}
	fd, err := beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size {
		return false
	}
	sum, err := digest(f)
	return err == nil && bytes.Equal(sum[:], o.SHA256)
}
