//go:build linux && (amd64 || arm64)

package tree

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// undo takes back the operations in reverse order. kept lists the entries that could not be
// put back because something else is at their path now. Such an entry stays under its
// temporary name.
func (a *applier) undo(r *record) (kept, err error) {
	for i := range r.Operations {
		o := &r.Operations[len(r.Operations)-1-i]
		err := a.in(o.path(), func(dir int, name string) error { return a.undoOne(dir, name, o) })
		if k, ok := errors.AsType[*keptError](err); ok {
			kept = errors.Join(kept, k)
		} else if err != nil && !unreachable(err) {
			return kept, err
		}
	}
	return kept, a.syncFolders(r)
}

// keptError says that an entry could not be put back.
type keptError struct{ path, name string }

func (e *keptError) Error() string {
	return fmt.Sprintf("something else stands at %q now; what stood there is kept beside it as %q", e.path, e.name)
}

func (a *applier) undoOne(dir int, name string, o *operation) error {
	now, err := lookup(dir, name)
	if err != nil {
		return err
	}
	old, waits := "", false
	for _, n := range []string{o.Temp, o.Aside} {
		s, err := lookup(dir, n)
		switch {
		case err != nil:
			return err
		case sameObject(s, o.Was):
			old = n
		case s != nil:
			waits = true // the new entry is not in place
		}
	}
	if now != nil && !waits && !sameObject(now, o.Was) {
		if err := a.takeBack(dir, name, o); err != nil {
			return err
		}
	}
	for _, n := range []string{o.Temp, o.Aside} {
		if n != old {
			if err := a.removeTree(dir, n, o.path()); err != nil {
				return err
			}
		}
	}
	if old == "" {
		return nil
	}
	err = a.place(dir, old, name, o.path())
	if errors.Is(err, unix.EEXIST) {
		return &keptError{path: o.path(), name: old}
	}
	return err
}

// takeBack removes the entry under a name if the operation put it there.
func (a *applier) takeBack(dir int, name string, o *operation) error {
	flag := 0
	switch {
	case o.Do == doFolder:
		flag = unix.AT_REMOVEDIR
	case o.Do == doDelete || !put(dir, name, o):
		return nil
	}
	err := a.do("unlink", o.path(), func() error { return unix.Unlinkat(dir, name, flag) })
	if o.Do == doFolder && (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR)) {
		return nil // somebody else uses the folder now
	}
	return err
}

// clean removes the replaced and deleted entries.
func (a *applier) clean(r *record) error {
	for i := range r.Operations {
		o := &r.Operations[i]
		err := a.in(o.path(), func(dir int, name string) error {
			if o.Was != nil && o.Was.Kind == change.KindFolder {
				if err := a.makeWay(dir, name, o); err != nil {
					return err
				}
			}
			if err := a.removeTree(dir, o.Temp, o.path()); err != nil {
				return err
			}
			return a.removeTree(dir, o.Aside, o.path())
		})
		if err != nil && !unreachable(err) {
			return err
		}
	}
	return a.syncFolders(r)
}

// makeWay removes a folder that could not be renamed, and puts the staged entry in its
// place.
func (a *applier) makeWay(dir int, name string, o *operation) error {
	now, err := lookup(dir, name)
	if err == nil && sameObject(now, o.Was) {
		err = a.removeTree(dir, name, o.path())
		now = nil
	}
	if err != nil || now != nil || o.Do != doPut {
		return err
	}
	staged, err := lookup(dir, o.Temp)
	if err != nil || staged == nil || sameObject(staged, o.Was) {
		return err
	}
	if err = a.place(dir, o.Temp, name, o.path()); errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// removeTree removes the entry under a name with its content. It refuses to remove anything
// mounted there.
func (a *applier) removeTree(dir int, name, shown string) error {
	s, err := lookup(dir, name)
	if err != nil || s == nil {
		return err
	}
	if s.Kind != change.KindFolder {
		return a.do("unlink", shown, func() error { return unix.Unlinkat(dir, name, 0) })
	}
	if err := a.empty(dir, name, shown); err != nil {
		return err
	}
	return a.do("rmdir", shown, func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (a *applier) empty(dir int, name, shown string) error {
	fd, err := openSub(dir, name)
	if err != nil {
		return &fs.PathError{Op: "open", Path: shown, Err: err}
	}
	defer unix.Close(fd)
	names, err := ReadNames(fd)
	if err != nil || len(names) == 0 {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o300 != 0o300 {
		// Without these bits, its owner cannot remove entries.
		if err := a.do("chmod", shown, func() error { return unix.Fchmod(fd, 0o700) }); err != nil {
			return err
		}
	}
	for _, n := range names {
		if err := a.removeTree(fd, n, shown+"/"+n); err != nil {
			return err
		}
	}
	return nil
}
