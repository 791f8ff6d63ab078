//go:build linux && (amd64 || arm64)

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// Apply puts changes that were accepted into the folder dir: all of them or none. An
// error means that the folder is as it was, but for two: ErrApplied says that the
// changes are there and something is left to be cleared away, ErrUnfinished that the
// file system would neither go on nor back. Both leave a journal, which Recover, or
// the next Apply to the folder, carries to its end.
//
// A change fits when what stands at its path is what Before says and has not changed
// after since, when the execution began, to the precision of the file system's clock,
// and no folder above it was renamed after since, as far as its times tell; or nothing,
// where Before is nil. A folder may stand where one is to be made. Where a
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
// user writes; it is made, and one that is another user's or that others can write is
// refused (ErrNotOwn). Two calls for one folder wait for each other, until the context
// ends (ErrBusy); it counts for nothing else.
//
// The order of system calls, after which a kill at any point leaves the old or the
// new state once Recover has run (TestApplyOrder, TestApplyKilled):
//
//  1. journal: lock; blobs written, hashed and synced; changes held against the folder
//  2. journal: record written, synced, renamed to "apply", journal synced: the commit
//  3. the mark of the record made and synced, which is there as long as anything is
//     half done; folders made under temporary names and renamed
//  4. files and links made under temporary names, synced
//  5. each renamed to its place, exchanging names with what it replaces; what is
//     deleted is renamed
//  6. all folders that were touched are synced
//  7. journal: record renamed to "clean", synced; what was replaced or deleted is
//     removed, and so is, with what is staged for its place put there, a folder that an
//     overlay could not rename; folders are synced; left out where nothing was
//  8. the mark removed, synced; journal: record removed, synced; blobs removed
//
// An error from 3 to 6 turns the record to "undo": the renames are taken back, in
// reverse order, and new entries are removed.
func Apply(ctx context.Context, state, dir string, changes []change.Change, content Content, since time.Time) error {
	return apply(ctx, state, dir, changes, content, since, calls{})
}

// ApplySeen is Apply for changes to files that the caller has looked at before. A change
// fits if the entry at its path equals Before, whatever its time, in the same folder that
// the caller looked at. A folder to remove must hold exactly what it held. Otherwise
// ApplySeen returns a *ConflictError, and nothing is applied.
func ApplySeen(ctx context.Context, state, dir string, changes []change.Change, content Content, looked Looked) error {
	return applyTo(ctx, state, dir, changes, content, terms{looked: &looked}, calls{})
}

// CanApply returns nil: changes can be applied to a folder on this system.
func CanApply() error { return nil }

// Recover ends an Apply to the folder dir that was killed. It completes the changes, or
// takes them back where it cannot complete them. It returns what it did, or that there was
// nothing to do. Paths that somebody else changed in the meantime stay as they are.
//
// The errors are those of Apply. One that is neither ErrApplied nor ErrUnfinished
// beside did says why the folder is now what it was before the Apply that was killed.
func Recover(ctx context.Context, state, dir string) (Recovery, error) {
	return recoverFolder(ctx, state, dir, calls{})
}

// Unfinished says whether a killed Apply has left something that Recover would carry to
// its end. It changes nothing in the folder dir, and makes no state folder.
func Unfinished(ctx context.Context, state, dir string) (bool, error) {
	a, err := openApplier(ctx, state, dir, false, calls{})
	if err != nil || a == nil {
		return false, err
	}
	defer a.close()
	r, err := a.journal.load()
	if err != nil {
		return false, err
	}
	if r != nil {
		if ours, err := a.concerns(r); err != nil || ours {
			return ours, err
		}
	}
	j, _, err := a.moved()
	if j != nil {
		j.release()
	}
	return j != nil, err
}

func apply(ctx context.Context, state, dir string, changes []change.Change, content Content, since time.Time, c calls) error {
	return applyTo(ctx, state, dir, changes, content, terms{since: since.UnixNano()}, c)
}

// terms are what has to be true of a folder, beside what each change says.
type terms struct {
	looked *Looked // what it was; or nil
	since  int64   // otherwise: when it was last changed, nanoseconds since 1970
}

func applyTo(ctx context.Context, state, dir string, changes []change.Change, content Content, t terms, c calls) error {
	changes, err := fit(changes)
	if err != nil {
		return err
	}
	a, err := enterFolder(dir, t.looked, c)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.openJournal(ctx, state, true); err != nil {
		return err
	}
	if _, err := a.resume(); err != nil {
		// The errors of Apply are about the changes at hand.
		return fmt.Errorf("nothing is applied, for an earlier run has not ended: %v", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r, err := a.prepare(dir, changes, content, t)
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

// prepare copies the content of changed files into the journal and returns the plan. It
// changes nothing in the folder.
func (a *applier) prepare(dir string, changes []change.Change, content Content, t terms) (*record, error) {
	for i, c := range changes {
		if c.Kind == change.KindFile {
			if err := a.journal.keep(i, c, content); err != nil {
				return nil, err
			}
		}
	}
	return a.plan(dir, changes, t)
}

func recoverFolder(ctx context.Context, state, dir string, c calls) (Recovery, error) {
	a, err := openApplier(ctx, state, dir, false, c)
	if err != nil || a == nil {
		return RecoveredNothing, err
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
	looked   *Looked // of the changes that are applied for the first time; or nil
}

// openApplier opens the folder and its journal. Without create it is nil where there
// is no journal.
func openApplier(ctx context.Context, state, dir string, create bool, c calls) (*applier, error) {
	a, err := enterFolder(dir, nil, c)
	if err != nil {
		return nil, err
	}
	if err := a.openJournal(ctx, state, create); err != nil || a.journal == nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// enterFolder opens the folder, which is a *ConflictError where it is not the one that
// was looked at.
func enterFolder(dir string, looked *Looked, c calls) (*applier, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if looked != nil && (err == unix.ENOENT || err == unix.ENOTDIR) {
		return nil, &ConflictError{Path: "."}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	a := &applier{calls: c, tree: fd, uid: -1, gid: -1}
	err = unix.Fstat(fd, &a.id)
	if err == nil && looked != nil && !sameObject(change.SeenAs(&a.id), &looked.Dir) {
		err = &ConflictError{Path: "."}
	}
	if err != nil {
		a.close()
		return nil, err
	}
	if os.Geteuid() == 0 {
		a.uid, a.gid = int(a.id.Uid), int(a.id.Gid)
	}
	a.origin = originOf(fd)
	return a, nil
}

// openJournal opens the journal of the folder. Without create there may be none.
func (a *applier) openJournal(ctx context.Context, state string, create bool) error {
	err := a.outside(state)
	if err == nil {
		a.journal, err = openJournal(ctx, state, &a.id, create, a.calls)
	}
	return err
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

// resume carries on what the journal has, and says which way. The record of a folder
// that is gone, and whose inode this folder has, is dropped; so is one that may be, where
// nothing is half done.
func (a *applier) resume() (Recovery, error) {
	r, err := a.journal.load()
	if err != nil {
		return RecoveredNothing, err
	}
	ours := false
	if r != nil {
		if ours, err = a.concerns(r); err != nil {
			return RecoveredNothing, err
		}
	}
	if ours {
		return a.resumeWith(r)
	}
	if err := a.journal.clear(r); err != nil {
		return RecoveredNothing, err
	}
	return a.resumeMoved()
}

func (a *applier) resumeWith(r *record) (Recovery, error) {
	err := a.carry(r, false)
	if r.phase == phaseUndo {
		return RecoveredBack, err
	}
	return RecoveredForward, err
}

// carry carries a record to its end, or back. first is the run that wrote it, for
// which what somebody else changed is a conflict; to later ones it is a fact.
func (a *applier) carry(r *record, first bool) error {
	r.index()
	var failed error
	if r.phase == phaseApply {
		if failed = a.begin(r, first); failed != nil {
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
			err = a.end(r)
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
		err = a.end(r)
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
