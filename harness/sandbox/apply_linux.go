//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Apply puts changes that were accepted into the folder dir: all of them or none. An
// error means that the folder is as it was, but for two: ErrApplied says that the
// changes are there and something is left to be cleared away, ErrUnfinished that the
// file system would neither go on nor back. Both leave a journal, which Recover, or
// the next Apply to the folder, carries to its end.
//
// A change fits when what stands at its path is what Before says and has not changed
// after since, when the execution began, to the precision of the file system's clock;
// or nothing, where Before is nil. A folder may stand where one is to be made. Where a
// folder goes, with all that it holds, that is asked of everything beneath it too, and
// nothing may be mounted there. What does not fit is a *ConflictError, and nothing is
// applied. It is looked at before anything happens, and again at each path in its turn.
//
// New files are 0644 or 0755, new folders 0755; they belong to the owner of dir where
// root applies. A file that replaces a file keeps its owner, group and permission
// bits; whether it can be executed is what the change says. Set-id bits, further
// links, extended attributes and times are not kept. Folders that are missing above a
// file are made.
//
// Everything in dir is reached through openat2 beneath one descriptor and without
// following a link. state is a folder outside of dir that lasts, and that only the
// user writes; it is made. Two calls for one folder wait for each other.
//
// The order of system calls, after which a kill at any point leaves the old or the
// new state once Recover has run (TestApplyOrder, TestApplyKilled):
//
//  1. journal: lock; blobs written, hashed and synced; changes held against the folder
//  2. journal: record written, synced, renamed to "apply", journal synced: the commit
//  3. folders made under temporary names and renamed
//  4. files and links made under temporary names, synced
//  5. each renamed to its place, exchanging names with what it replaces; what is
//     deleted is renamed
//  6. all folders that were touched are synced
//  7. journal: record renamed to "clean", synced; what was replaced or deleted is
//     removed, and so is, with what is staged for its place put there, a folder that an
//     overlay could not rename; folders are synced; left out where nothing was
//  8. journal: record removed, synced; blobs removed
//
// An error from 3 to 6 turns the record to "undo": the renames are taken back, in
// reverse order, and what was made is removed.
func Apply(state, dir string, changes []Change, content Content, since time.Time) error {
	return apply(state, dir, changes, content, since, calls{})
}

// Recover ends what a killed Apply to the folder dir left: it is carried to its end,
// or back where that cannot be. It says whether there was something. Paths that
// somebody else changed in the meantime stay as they are.
//
// The errors are those of Apply. One that is neither ErrApplied nor ErrUnfinished
// beside did says why the folder is now what it was before the Apply that was killed.
func Recover(state, dir string) (did bool, err error) {
	return recoverFolder(state, dir, calls{})
}

func apply(state, dir string, changes []Change, content Content, since time.Time, c calls) error {
	changes, err := fit(changes)
	if err != nil {
		return err
	}
	a, err := openApplier(state, dir, true, c)
	if err != nil {
		return err
	}
	defer a.close()
	if _, err := a.resume(); err != nil {
		// The errors of Apply are about the changes at hand.
		return fmt.Errorf("nothing is applied, for an earlier run has not ended: %v", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r, err := a.prepare(dir, changes, content, since)
	if err != nil || len(r.Operations) == 0 {
		return errors.Join(err, a.journal.clear(nil))
	}
	if err := a.journal.commit(r); err != nil {
		if clearErr := a.journal.clear(r); clearErr != nil {
			return fmt.Errorf("%w: %w", ErrUnfinished, errors.Join(err, clearErr))
		}
		return err
	}
	return a.carry(r, true)
}

// prepare keeps what the changes have put into files, and plans. It changes nothing
// in the folder.
func (a *applier) prepare(dir string, changes []Change, content Content, since time.Time) (*record, error) {
	for i, c := range changes {
		if c.Kind == KindFile {
			if err := a.journal.keep(i, c, content); err != nil {
				return nil, err
			}
		}
	}
	return a.plan(dir, changes, since)
}

func recoverFolder(state, dir string, c calls) (bool, error) {
	a, err := openApplier(state, dir, false, c)
	if err != nil || a == nil {
		return false, err
	}
	defer a.close()
	return a.resume()
}

// applier changes one folder.
type applier struct {
	calls
	tree     int // descriptor of the folder
	id       unix.Stat_t
	origin   origin
	uid, gid int // owner of what is new; -1: whoever calls
	journal  *journal
}

// openApplier opens the folder and its journal. Without create it is nil where there
// is no journal.
func openApplier(state, dir string, create bool, c calls) (*applier, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	a := &applier{calls: c, tree: fd, uid: -1, gid: -1}
	err = unix.Fstat(fd, &a.id)
	if err == nil {
		err = a.outside(state)
	}
	if err == nil {
		a.journal, err = openJournal(state, &a.id, create, c)
	}
	if err != nil || a.journal == nil {
		a.close()
		return nil, err
	}
	if os.Geteuid() == 0 {
		a.uid, a.gid = int(a.id.Uid), int(a.id.Gid)
	}
	a.origin = originOf(fd)
	return a, nil
}

func (a *applier) close() {
	_ = unix.Close(a.tree)
	if a.journal != nil {
		a.journal.close()
	}
}

// outside refuses a state folder that lies in the folder itself, where what runs in a
// sandbox could write it.
func (a *applier) outside(state string) error {
	at, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	fd := -1
	for {
		fd, err = unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != unix.ENOENT || at == "/" {
			break
		}
		at = filepath.Dir(at)
	}
	var last unix.Stat_t
	for err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err != nil {
			break
		}
		if st.Dev == a.id.Dev && st.Ino == a.id.Ino {
			_ = unix.Close(fd)
			return fmt.Errorf("the state folder %q lies in the folder that is written", state)
		}
		if st.Dev == last.Dev && st.Ino == last.Ino {
			return unix.Close(fd)
		}
		last = st
		up, upErr := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		fd, err = up, upErr
	}
	return &fs.PathError{Op: "open", Path: at, Err: err}
}

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

// resume carries on what the journal has, and says whether there was something. The
// record of a folder that is gone, and whose inode this folder has, is dropped.
func (a *applier) resume() (bool, error) {
	r, err := a.journal.load()
	if err != nil {
		return false, err
	}
	if r == nil || r.Origin.differs(a.origin) {
		return false, a.journal.clear(r)
	}
	return true, a.carry(r, false)
}

// carry carries a record to its end, or back. first is the run that wrote it, for
// which what somebody else changed is a conflict; to later ones it is a fact.
func (a *applier) carry(r *record, first bool) error {
	r.index()
	var failed error
	if r.phase == phaseApply {
		if failed = a.forward(r, first); failed != nil {
			if err := a.journal.turn(r, phaseUndo); r.phase != phaseUndo {
				return fmt.Errorf("%w: %w", ErrUnfinished, errors.Join(failed, err))
			}
		} else if !first || r.replacing() {
			if err := a.journal.turn(r, phaseClean); err != nil {
				return fmt.Errorf("%w: %w", ErrApplied, err)
			}
		}
	}
	if r.phase == phaseUndo {
		kept, err := a.undo(r)
		if err == nil {
			err = a.journal.clear(r)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnfinished, errors.Join(failed, kept, err))
		}
		return errors.Join(failed, kept)
	}
	var err error
	if r.phase == phaseClean {
		err = a.clean(r)
	}
	if err == nil {
		err = a.journal.clear(r)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrApplied, err)
	}
	return nil
}

// replacing says whether something is left over when the record is carried out.
func (r *record) replacing() bool {
	return slices.ContainsFunc(r.Operations, func(o operation) bool { return o.Was != nil })
}

// forward does what is not done yet.
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
			var conflict *ConflictError
			if err != nil && (first || !errors.As(err, &conflict)) {
				return err
			}
		}
	}
	return a.syncFolders(r)
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

// place renames what must not replace anything: EEXIST where something stands.
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

// cannotRename says that a file system renames in the plain way alone.
func cannotRename(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

func (a *applier) makeFolder(o *operation, first bool) error {
	return a.in(o.path(), func(dir int, name string) error {
		if !first {
			if err := a.removeTree(dir, o.Temp, o.path()); err != nil {
				return err
			}
		}
		err := a.do("mkdir", o.path(), func() error { return unix.Mkdirat(dir, o.Temp, 0o755) })
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

// moveAside moves what is replaced or deleted out of its place. What somebody put
// there a moment before is moved back.
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

// own gives a new folder its owner and its permissions. The bit by which a folder
// hands on its group is the file system's to give.
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

// give sets owner and permissions, where they differ.
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
		if !first {
			if err := a.removeTree(dir, o.Temp, o.path()); err != nil {
				return err
			}
		}
		if o.Kind == KindLink {
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

// dress gives a new file the owner and the permissions that it is to have.
func (a *applier) dress(f *os.File, dir int, name string, o *operation) error {
	uid, gid, mode := a.uid, a.gid, uint32(0o644)
	if o.Was != nil && o.Was.Kind == KindFile {
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

// executable is mode with the bits for execution set or not. Whoever may read a file
// may then execute it, unless the mode says already who may.
func executable(mode uint32, yes bool) uint32 {
	switch {
	case !yes:
		return mode &^ 0o111
	case mode&0o111 == 0:
		return mode | mode&0o444>>2 | 0o100
	}
	return mode
}

// swap puts what is staged in its place, or moves what is deleted out of it. A folder
// that cannot be renamed, as one of a lower layer of an overlay, stays for clean.
func (a *applier) swap(o *operation, _ bool) error {
	err := a.in(o.path(), func(dir int, name string) error {
		if o.Do == doDelete {
			return a.moveAside(dir, name, o)
		}
		now, err := lookup(dir, name)
		if err != nil {
			return err
		}
		if now == nil {
			return a.place(dir, o.Temp, name, o.path())
		}
		return a.exchange(dir, name, o)
	})
	if errors.Is(err, unix.EXDEV) && o.Was != nil && o.Was.Kind == KindFolder {
		return nil
	}
	return err
}

// exchange puts what is staged in the place of what stands there, which gets its
// name. Nobody sees the place empty, unless the file system cannot do that. Whoever
// put something else there a moment before gets the place back.
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
		if err != nil && !blocked(err) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// undo takes back what was done, the last first. kept says what could not be put back
// because something else stands there now; it is still there under its temporary name.
func (a *applier) undo(r *record) (kept, err error) {
	for i := range r.Operations {
		o := &r.Operations[len(r.Operations)-1-i]
		err := a.in(o.path(), func(dir int, name string) error { return a.undoOne(dir, name, o) })
		var k *keptError
		switch {
		case errors.As(err, &k):
			kept = errors.Join(kept, k)
		case err != nil && !blocked(err) && !errors.Is(err, unix.ENOENT):
			return kept, err
		}
	}
	return kept, a.syncFolders(r)
}

// keptError says that something could not be put back.
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
			waits = true // what was made is not in place
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

// takeBack removes what stands in a place if it is what the operation put there.
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
		return nil // somebody else's by now
	}
	return err
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

// clean removes what was replaced and deleted.
func (a *applier) clean(r *record) error {
	for i := range r.Operations {
		o := &r.Operations[i]
		err := a.in(o.path(), func(dir int, name string) error {
			if o.Was != nil && o.Was.Kind == KindFolder {
				if err := a.makeWay(dir, name, o); err != nil {
					return err
				}
			}
			if err := a.removeTree(dir, o.Temp, o.path()); err != nil {
				return err
			}
			return a.removeTree(dir, o.Aside, o.path())
		})
		if err != nil && !blocked(err) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return a.syncFolders(r)
}

// makeWay removes a folder that could not be renamed, and puts what is staged there.
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
	if err := a.place(dir, o.Temp, name, o.path()); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// removeTree removes what stands under a name, with all that it holds, and nothing
// that is mounted there.
func (a *applier) removeTree(dir int, name, shown string) error {
	s, err := lookup(dir, name)
	if err != nil || s == nil {
		return err
	}
	if s.Kind != KindFolder {
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
	names, err := readNames(fd)
	if err != nil || len(names) == 0 {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o300 != 0o300 {
		// Its owner cannot remove anything from it before.
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
