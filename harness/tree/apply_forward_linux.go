//go:build linux && (amd64 || arm64)

package tree

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// forward does every operation that is still due.
func (a *applier) forward(r *record, first bool) error {
	for _, pass := range []struct {
		does func(o *operation) bool
		do   func(o *operation, first bool) error
	}{
		{func(o *operation) bool { return o.Do == doFolder }, a.makeFolder},
		{func(o *operation) bool { return o.Do == doPut }, a.stage},
		{func(o *operation) bool { return o.Do != doFolder }, a.swap},
	} {
		for i := range r.Operations {
			o := &r.Operations[i]
			if !pass.does(o) {
				continue
			}
			due, err := a.due(r, o, first)
			if due {
				err = pass.do(o, first)
			}
			if errors.Is(err, unix.EEXIST) {
				err = &ConflictError{Path: o.path()}
			}
			if _, conflict := errors.AsType[*ConflictError](err); err != nil && (first || !conflict) {
				return err
			}
		}
	}
	return a.syncFolders(r)
}

// makeFolder makes a folder under its temporary name and renames it to its place. An entry that
// is no folder is moved aside first.
func (a *applier) makeFolder(o *operation, first bool) error {
	return a.in(o.path(), func(dir int, name string) error {
		err := a.vacate(dir, o, first)
		if err == nil {
			err = a.do("mkdir", o.path(), func() error { return unix.Mkdirat(dir, o.Temp, 0o755) })
		}
		if err == nil {
			err = a.own(dir, o)
		}
		if err != nil {
			return err
		}
		now, err := lookup(dir, name)
		if err == nil && now != nil {
			err = a.moveAside(dir, name, o)
		}
		if err != nil {
			return err
		}
		return a.place(dir, o.Temp, name, o.path())
	})
}

// vacate removes what an earlier run has left under the temporary name of an operation.
func (a *applier) vacate(dir int, o *operation, first bool) error {
	if first {
		return nil
	}
	return a.removeTree(dir, o.Temp, o.path())
}

// own gives a new folder its owner and its permissions. The file system decides on the
// set-group-id bit, by which a folder passes on its group.
func (a *applier) own(dir int, o *operation) error {
	fd, err := openSub(dir, o.Temp)
	if err != nil {
		return &fs.PathError{Op: "open", Path: o.path(), Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return a.give(fd, &st, a.uid, a.gid, st.Mode&unix.S_ISGID|0o755, o.path())
}

// give sets owner and permissions if they differ.
func (a *applier) give(fd int, st *unix.Stat_t, uid, gid int, mode uint32, shown string) error {
	if uid >= 0 && (int(st.Uid) != uid || int(st.Gid) != gid) {
		if err := a.do("chown", shown, func() error { return unix.Fchown(fd, uid, gid) }); err != nil {
			return err
		}
	}
	if st.Mode&0o7777 == mode {
		return nil
	}
	return a.do("chmod", shown, func() error { return unix.Fchmod(fd, mode) })
}

// stage makes a file or a link under its temporary name.
func (a *applier) stage(o *operation, first bool) error {
	return a.in(o.path(), func(dir int, name string) error {
		if err := a.vacate(dir, o, first); err != nil {
			return err
		}
		if o.Kind == change.KindLink {
			return a.stageLink(dir, o)
		}
		return a.stageFile(dir, name, o)
	})
}

func (a *applier) stageLink(dir int, o *operation) error {
	err := a.do("symlink", o.path(), func() error { return unix.Symlinkat(string(o.Target), dir, o.Temp) })
	if err != nil || a.uid < 0 {
		return err
	}
	return a.do("chown", o.path(), func() error { return unix.Fchownat(dir, o.Temp, a.uid, a.gid, unix.AT_SYMLINK_NOFOLLOW) })
}

func (a *applier) stageFile(dir int, name string, o *operation) error {
	f, err := a.write(dir, o.Temp, o.path(), func(w io.Writer) error { return a.journal.blob(o, w) })
	if err != nil {
		return err
	}
	if err := a.dress(f, dir, name, o); err != nil {
		_ = f.Close()
		return err
	}
	return a.settle(f)
}

// dress gives a new file its owner and its permissions. A file that replaces a file takes
// both from the old file.
func (a *applier) dress(f *os.File, dir int, name string, o *operation) error {
	uid, gid, mode := a.uid, a.gid, uint32(0o644)
	if o.Was != nil && o.Was.Kind == change.KindFile {
		var old unix.Stat_t
		err := unix.Fstatat(dir, name, &old, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.ENOENT {
			err = unix.Fstatat(dir, o.Aside, &old, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil {
			return &fs.PathError{Op: "stat", Path: o.path(), Err: err}
		}
		uid, gid, mode = int(old.Uid), int(old.Gid), old.Mode&0o777
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	return a.give(int(f.Fd()), &st, uid, gid, executable(mode, o.Executable), o.path())
}

// executable returns mode with the execution bits set or cleared. If no execution bit is
// set, it allows execution to the owner and to everyone who may read the file.
func executable(mode uint32, yes bool) uint32 {
	switch {
	case !yes:
		return mode &^ 0o111
	case mode&0o111 == 0:
		return mode | mode&0o444>>2 | 0o100
	}
	return mode
}

// swap renames a staged file to its place, or renames a deleted entry to its temporary name.
// A folder that cannot be renamed, such as one of an overlay's lower layer, is left to
// clean.
func (a *applier) swap(o *operation, _ bool) error {
	err := a.in(o.path(), func(dir int, name string) error {
		if o.Do == doDelete {
			return a.moveAside(dir, name, o)
		}
		switch now, err := lookup(dir, name); {
		case err != nil:
			return err
		case now == nil:
			return a.place(dir, o.Temp, name, o.path())
		}
		return a.exchange(dir, name, o)
	})
	if errors.Is(err, unix.EXDEV) && o.Was != nil && o.Was.Kind == change.KindFolder {
		return nil
	}
	return err
}

// exchange swaps the names of the staged entry and the entry in its place. The place is
// never empty, unless the file system cannot exchange names. If somebody else put another
// entry there a moment before, exchange swaps back and returns a *ConflictError.
func (a *applier) exchange(dir int, name string, o *operation) error {
	swap := func() error { return unix.Renameat2(dir, o.Temp, dir, name, unix.RENAME_EXCHANGE) }
	err := a.do("exchange", o.path(), swap)
	if cannotRename(err) {
		if err := a.moveAside(dir, name, o); err != nil {
			return err
		}
		return a.place(dir, o.Temp, name, o.path())
	}
	if err != nil {
		return err
	}
	out, err := lookup(dir, o.Temp)
	if err != nil || sameObject(out, o.Was) {
		return err
	}
	if err := a.do("exchange", o.path(), swap); err != nil {
		return err
	}
	return &ConflictError{Path: o.path()}
}

// moveAside renames the replaced or deleted entry to its temporary name. If somebody else
// put another entry there a moment before, moveAside renames it back and returns a
// *ConflictError.
func (a *applier) moveAside(dir int, name string, o *operation) error {
	if err := a.place(dir, name, o.Aside, o.path()); err != nil {
		return err
	}
	moved, err := lookup(dir, o.Aside)
	if err != nil || sameObject(moved, o.Was) {
		return err
	}
	if err := a.place(dir, o.Aside, name, o.path()); err != nil {
		return err
	}
	return &ConflictError{Path: o.path()}
}

// place renames an entry and never replaces one: it returns EEXIST if the new name is taken.
func (a *applier) place(dir int, from, to, shown string) error {
	err := a.do("rename", shown, func() error { return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE) })
	if !cannotRename(err) {
		return err
	}
	if s, err := lookup(dir, to); err != nil || s != nil {
		return cmp.Or(err, error(&fs.PathError{Op: "rename", Path: shown, Err: unix.EEXIST}))
	}
	return a.do("rename plainly", shown, func() error { return unix.Renameat(dir, from, dir, to) })
}

// cannotRename says that the file system supports only plain renames.
func cannotRename(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// syncFolders syncs every folder in which names changed.
func (a *applier) syncFolders(r *record) error {
	done := map[string]bool{}
	for _, o := range r.Operations {
		folder := filepath.Dir(o.path())
		if done[folder] {
			continue
		}
		done[folder] = true
		err := a.in(o.path(), func(dir int, _ string) error { return a.syncFolder(dir, folder) })
		if err != nil && !unreachable(err) {
			return err
		}
	}
	return nil
}
