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

// Apply puts accepted changes into the folder dir: all of them or none. An error means
// that the folder is unchanged, with two exceptions. ErrApplied says that the changes
// are applied and something is left to be cleared away. ErrUnfinished says that the
// file system allowed neither to complete the changes nor to take them back. Both leave
// a journal, which Recover, or the next Apply to the folder, carries to its end.
//
// A change fits under these conditions. If Before is nil, its path has no entry.
// Otherwise the entry at its path equals Before and has not changed after since, to the
// precision of the file system's clock. since is the time when the execution began. No
// folder above the path was renamed after since, as far as its times tell. A folder may exist where a
// change makes one. If a change removes a folder with its content, the same conditions
// apply to everything beneath it, and nothing may be mounted there. For a change that
// does not fit, Apply returns a *ConflictError, and nothing is applied. Apply checks all
// changes before it starts, and each path again before it changes that path.
//
// New files are 0644 or 0755, new folders 0755; they belong to the owner of dir where
// root applies. A file that replaces a file keeps its owner, group and permission
// bits; the change says whether the file is executable. Set-id bits, further links,
// extended attributes and times are not kept. Missing folders above a file are made.
//
// Apply reaches everything in dir through openat2 beneath one descriptor and follows no
// link. state is a folder outside of dir that is durable and that only the user writes.
// Apply makes it if it is missing. Apply refuses it if another user owns it or can
// write it (ErrNotOwn). Two calls for one folder wait for each other until the context
// ends (ErrBusy); Apply uses the context for nothing else.
//
// Apply makes the system calls in this order. After a kill at any point, the folder is
// in the old or the new state once Recover has run (TestApplyOrder, TestApplyKilled):
//
//  1. journal: lock; blobs written, hashed and synced; changes compared with the folder
//  2. journal: record written, synced, renamed to "apply", journal synced: the commit
//  3. the mark of the record made and synced; it exists as long as anything is half
//     done; folders made under temporary names and renamed
//  4. files and links made under temporary names, synced
//  5. each renamed to its place, exchanging names with the entry that it replaces;
//     deleted entries are renamed
//  6. all folders that were touched are synced
//  7. journal: record renamed to "clean", synced; replaced and deleted entries are
//     removed; a folder that an overlay could not rename is removed too, and the staged
//     entry is put in its place; folders are synced; left out where nothing was replaced
//     or deleted
//  8. the mark removed, synced; journal: record removed, synced; blobs removed
//
// An error from 3 to 6 turns the record to "undo": the renames are taken back, in
// reverse order, and new entries are removed.
func Apply(ctx context.Context, state, dir string, changes []change.Change, content Content, since time.Time) error {
	return applyTo(ctx, state, dir, changes, content, terms{since: since.UnixNano()}, calls{})
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
// The errors are those of Apply. If Recover did something, an error other than ErrApplied
// and ErrUnfinished says why the folder is now in its state before the killed Apply.
func Recover(ctx context.Context, state, dir string) (Recovery, error) {
	return recoverFolder(ctx, state, dir, calls{})
}

// Unfinished says whether a killed Apply has left work that Recover would complete. It
// changes nothing in the folder dir, and makes no state folder.
func Unfinished(ctx context.Context, state, dir string) (bool, error) {
	a, err := openApplier(ctx, state, dir, calls{})
	if err != nil || a == nil {
		return false, err
	}
	defer a.close()
	if _, ours, err := a.record(); err != nil || ours {
		return ours, err
	}
	j, _, err := a.moved()
	if j != nil {
		j.release()
	}
	return j != nil, err
}

// terms are conditions on the folder, besides those of each change.
type terms struct {
	looked *Looked // the state that the caller saw; or nil
	since  int64   // without looked: latest allowed change time, nanoseconds since 1970
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
		// %v, not %w: the error values of Apply describe the new changes only.
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
	a, err := openApplier(ctx, state, dir, c)
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
	uid, gid int // owner of new files and folders; -1: the caller
	journal  *journal
	looked   *Looked // set if the changes are applied for the first time by ApplySeen; or nil
}

// openApplier opens the folder and its journal. It returns nil if there is no journal.
func openApplier(ctx context.Context, state, dir string, c calls) (*applier, error) {
	a, err := enterFolder(dir, nil, c)
	if err != nil {
		return nil, err
	}
	if err := a.openJournal(ctx, state, false); err != nil || a.journal == nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// enterFolder opens the folder. It returns a *ConflictError if the folder is not the one in
// looked.
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

// openJournal opens the journal of the folder. Without create, the journal may be missing.
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

// outside refuses a state folder inside the folder itself, where commands in a sandbox could
// write it.
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

// resume completes or takes back the record of the journal, and says which. It drops the
// record of an older folder that had the same inode. If it cannot tell whether the record is
// of an older folder, it drops the record when the mark is missing.
func (a *applier) resume() (Recovery, error) {
	r, ours, err := a.record()
	switch {
	case err != nil:
		return RecoveredNothing, err
	case ours:
		return a.resumeWith(r)
	}
	if err := a.journal.clear(r); err != nil {
		return RecoveredNothing, err
	}
	return a.resumeMoved()
}

// record reads the record of the journal, and says whether it belongs to this folder.
func (a *applier) record() (r *record, ours bool, err error) {
	if r, err = a.journal.load(); err == nil && r != nil {
		ours, err = a.concerns(r)
	}
	return r, ours, err
}

func (a *applier) resumeWith(r *record) (Recovery, error) {
	err := a.carry(r, false)
	if r.phase == phaseUndo {
		return RecoveredBack, err
	}
	return RecoveredForward, err
}

// carry completes a record or takes it back. first is true for the run that wrote the
// record. For that run, a change by somebody else is a conflict; a later run accepts it.
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

// replacing says whether the record replaces or deletes something, which must be removed
// after it is carried out.
func (r *record) replacing() bool {
	return slices.ContainsFunc(r.Operations, func(o operation) bool { return o.Was != nil })
}
