//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Apply puts changes that were accepted into the folder dir: all of them or, as far
// as the file system lets go of what it took, none. An error means that the folder is
// as it was, or that a journal is left for Recover, which any later Apply to the
// folder begins with.
//
// A change fits when what stands at its path is what Before says, or nothing where
// Before is nil; a folder may stand where one is to be made. Where a folder goes, with
// all that it holds, nothing beneath it may have changed after since, to the precision
// of the file system's clock, and nothing may be mounted there. What does not fit is a
// *ConflictError, and nothing is applied. That is looked at before anything happens
// and again at each path in its turn.
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
//     removed, folders are synced; left out where nothing was
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
// An error leaves the journal as it is where the folder is in neither state, and
// Recover can be called again.
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
		return err
	}
	for i, change := range changes {
		if change.Kind == KindFile {
			if err := a.journal.keep(i, change, content); err != nil {
				return errors.Join(err, a.journal.drop(nil))
			}
		}
	}
	r, err := a.plan(dir, changes, since)
	if err != nil || len(r.Operations) == 0 {
		return errors.Join(err, a.journal.drop(nil))
	}
	if err := a.journal.commit(r); err != nil {
		return errors.Join(err, a.journal.drop(r))
	}
	return a.carry(r, true)
}

func recoverFolder(state, dir string, c calls) (bool, error) {
	a, err := openApplier(state, dir, false, c)
	if err != nil || a == nil {
		return false, err
	}
	defer a.close()
	did, err := a.resume()
	if err != nil {
		return did, err
	}
	return did, a.journal.drop(nil)
}

// fit sorts changes, and refuses those that cannot be applied together.
func fit(changes []Change) ([]Change, error) {
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	at := map[string]Change{}
	for _, c := range changes {
		bad := func(why string) ([]Change, error) { return nil, fmt.Errorf("cannot apply %q: %s", c.Path, why) }
		if _, twice := at[c.Path]; twice {
			return bad("there are two changes to it")
		}
		at[c.Path] = c
		switch {
		case !isClean(c.Path):
			return bad("not a clean path")
		case c.Kind == KindLink && (c.Target == "" || len(c.Target) > maxTarget || strings.ContainsRune(c.Target, 0)):
			return bad("the link has no target")
		case c.Kind == KindFile && c.Size < 0:
			return bad("it has no size")
		case !slices.Contains([]Kind{KindFile, KindFolder, KindLink, KindDeleted}, c.Kind):
			return bad("neither file nor folder nor link")
		case c.Kind == KindDeleted:
			continue
		case strings.Contains("/"+c.Path, "/"+tempPrefix):
			return bad("its name is one of those that Apply uses")
		}
		for _, folder := range above(c.Path) {
			if up, changed := at[folder]; changed && up.Kind != KindFolder {
				return bad("it lies in what is no folder")
			}
		}
	}
	return changes, nil
}

// applier changes one folder.
type applier struct {
	calls
	tree     int // descriptor of the folder
	id       unix.Stat_t
	birth    int64
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
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) == nil && st.Mask&unix.STATX_BTIME != 0 {
		a.birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
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

// plan holds the changes against the folder and says what is to be done. Operations
// are ordered by path.
func (a *applier) plan(dir string, changes []Change, since time.Time) (*record, error) {
	p := &planner{applier: a, at: map[string]*Change{}, folders: map[string]bool{}}
	p.record = &record{Version: recordVersion, Folder: dir, Birth: a.birth, Since: since.UnixNano()}
	for i := range changes {
		p.at[changes[i].Path] = &changes[i]
	}
	for i := range changes {
		if err := p.add(i, &changes[i]); err != nil {
			return nil, err
		}
	}
	return p.record, p.record.nameTemps()
}

// planner makes a record.
type planner struct {
	*applier
	record  *record
	at      map[string]*Change
	folders map[string]bool // that are there or are made
}

func (p *planner) add(blob int, c *Change) error {
	now, err := p.check(c)
	if err != nil || p.covered(c.Path) || c.Kind == KindDeleted && now == nil {
		return err
	}
	if c.Kind != KindDeleted {
		if err := p.parents(c); err != nil {
			return err
		}
	}
	o := operation{Path: []byte(c.Path), Was: now}
	switch c.Kind {
	case KindDeleted:
		o.Do = doDelete
	case KindFolder:
		p.folders[c.Path] = true
		if now != nil && now.Kind == KindFolder {
			return nil
		}
		o.Do = doFolder
	case KindFile:
		o.Do, o.Kind, o.Blob, o.Size, o.SHA256, o.Executable = doPut, KindFile, blob, c.Size, c.SHA256[:], c.Executable
	case KindLink:
		o.Do, o.Kind, o.Target = doPut, KindLink, []byte(c.Target)
	}
	p.record.Operations = append(p.record.Operations, o)
	return nil
}

// check holds one change against what stands at its path, which it returns.
func (p *planner) check(c *Change) (*Seen, error) {
	now, err := p.seen(c.Path)
	if blocked(err) {
		if !p.clears(c.Path) {
			return nil, &ConflictError{Path: c.Path}
		}
		now, err = nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case c.Kind == KindFolder && now != nil && now.Kind == KindFolder && (c.Before == nil || c.Before.Kind == KindFolder):
		return now, nil
	case now == nil && c.Before == nil:
		return nil, nil
	case now == nil || c.Before == nil || *now != *c.Before:
		return nil, &ConflictError{Path: c.Path}
	case now.Kind == KindFolder:
		if ok, err := p.untouched(p.record, c.Path); err != nil || !ok {
			return nil, cmp.Or(err, error(&ConflictError{Path: c.Path}))
		}
	}
	return now, nil
}

// clears says whether a change makes way for a folder above the path.
func (p *planner) clears(path string) bool {
	return slices.ContainsFunc(above(path), func(folder string) bool {
		c := p.at[folder]
		return c != nil && c.Kind == KindFolder && c.Before != nil && c.Before.Kind != KindFolder
	})
}

// covered says whether a path goes together with a folder above it.
func (p *planner) covered(path string) bool {
	return slices.ContainsFunc(above(path), func(folder string) bool {
		c := p.at[folder]
		return c != nil && c.Kind != KindFolder
	})
}

// parents adds the folders above a path that are missing.
func (p *planner) parents(c *Change) error {
	for _, folder := range above(c.Path) {
		if p.folders[folder] {
			continue
		}
		p.folders[folder] = true
		now, err := p.seen(folder)
		switch {
		case err != nil && !blocked(err):
			return err
		case err != nil || now != nil && now.Kind != KindFolder:
			return &ConflictError{Path: c.Path}
		case now == nil:
			p.record.Operations = append(p.record.Operations, operation{Do: doFolder, Path: []byte(folder)})
		}
	}
	return nil
}

// nameTemps gives every operation its temporary names, which no other record has.
func (r *record) nameTemps() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	whole := sha256.Sum256(b)
	name := func(i int, what string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %s", whole, i, what))
		return tempPrefix + hex.EncodeToString(sum[:8])
	}
	for i := range r.Operations {
		r.Operations[i].Temp, r.Operations[i].Aside = name(i, "temp"), name(i, "aside")
	}
	return nil
}

// replaces counts the operations that replace an object with that identity: the links
// of one file are one.
func (r *record) replaces(s *Seen) int {
	n := 0
	for _, o := range r.Operations {
		if sameObject(o.Was, s) {
			n++
		}
	}
	return n
}

// same says whether an operation finds what it replaces as it was. A file with several
// links that are replaced changes with the first of them.
func (r *record) same(now *Seen, o *operation) bool {
	if now == nil || o.Was == nil {
		return now == nil && o.Was == nil
	}
	was := *o.Was
	if r.replaces(now) > 1 {
		was.ChangedNS = now.ChangedNS
	}
	return *now == was
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
		case s.ChangedNS > r.Since && r.replaces(s) == 0:
			return false, nil
		case s.Kind == KindFolder:
			if ok, err := a.walk(r, fd, n, shown+"/"+n); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// resume carries on what the journal has, and says whether there was something. The
// record of a folder that is gone, and whose inode this folder has, is dropped.
func (a *applier) resume() (bool, error) {
	r, err := a.journal.load()
	if err != nil {
		return false, err
	}
	if r == nil || r.Birth != a.birth {
		return false, a.clearBlobs(r)
	}
	return true, a.carry(r, false)
}

// clearBlobs empties the journal, so that blobs can be kept in it.
func (a *applier) clearBlobs(r *record) error {
	if r != nil {
		if err := a.journal.remove(string(r.phase)); err != nil {
			return err
		}
	}
	names, err := readNames(a.journal.dir)
	for _, name := range names {
		if err == nil {
			err = a.journal.remove(name)
		}
	}
	return err
}

// carry carries a record to its end, or back. first is the run that wrote it, for
// which what somebody else changed is a conflict; to later ones it is a fact.
func (a *applier) carry(r *record, first bool) error {
	var failed error
	if r.phase == phaseApply {
		if failed = a.forward(r, first); failed != nil {
			failed = errors.Join(failed, a.journal.turn(r, phaseUndo))
		} else if !first || r.replacing() {
			failed = a.journal.turn(r, phaseClean)
		}
		if failed != nil && r.phase == phaseApply {
			return failed
		}
	}
	switch r.phase {
	case phaseUndo:
		kept, err := a.undo(r)
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, kept)
	case phaseClean:
		if err := a.clean(r); err != nil {
			return fmt.Errorf("the changes are applied, but not all that they replaced is removed: %w", err)
		}
	}
	return errors.Join(failed, a.journal.drop(r))
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
			err = a.place(dir, name, o.Aside, o.path())
		}
		if err != nil {
			return err
		}
		return a.place(dir, o.Temp, name, o.path())
	})
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

// swap puts what is staged in its place, or moves what is deleted out of it.
func (a *applier) swap(o *operation, _ bool) error {
	return a.in(o.path(), func(dir int, name string) error {
		if o.Do == doDelete {
			return a.place(dir, name, o.Aside, o.path())
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
}

// exchange puts what is staged in the place of what stands there, which gets its
// name. Nobody sees the place empty, unless the file system cannot do that.
func (a *applier) exchange(dir int, name string, o *operation) error {
	swap := func() error { return unix.Renameat2(dir, o.Temp, dir, name, unix.RENAME_EXCHANGE) }
	err := a.do("exchange", o.path(), swap)
	if cannotRename(err) {
		if err := a.place(dir, name, o.Aside, o.path()); err != nil {
			return err
		}
		return a.place(dir, o.Temp, name, o.path())
	}
	if err != nil {
		return err
	}
	if out, err := lookup(dir, o.Temp); err != nil || !sameObject(out, o.Was) {
		// Somebody was faster by a moment, and gets the place back.
		return errors.Join(err, &ConflictError{Path: o.path()}, a.do("exchange", o.path(), swap))
	}
	return nil
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
		err := a.in(o.path(), func(dir int, _ string) error {
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
