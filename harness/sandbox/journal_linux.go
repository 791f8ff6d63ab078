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
	"strconv"
	"strings"
	"time"

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
	Origin     origin      `json:"origin"`
	Since      int64       `json:"since"` // nanoseconds since 1970
	Operations []operation `json:"operations"`

	phase phase
	links map[identity]int // operations by the object that they replace
}

// origin tells a folder from a later one that has its inode.
type origin struct {
	Birth  int64  `json:"birth"`  // nanoseconds since 1970; 0: unknown
	Handle []byte `json:"handle"` // inode and generation in the terms of the file system; or empty
}

func originOf(fd int) (o origin) {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) == nil && st.Mask&unix.STATX_BTIME != 0 {
		o.Birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
		o.Handle = h.Bytes()
	}
	return o
}

// differs says whether these are certainly two folders. One of the two marks is not
// enough: an overlay gives a folder another birth when it copies it up, and file
// systems in user space give it another handle when they have forgotten it.
func (o origin) differs(p origin) bool {
	born := o.Birth != 0 && p.Birth != 0 && o.Birth != p.Birth
	return born && len(o.Handle) > 0 && len(p.Handle) > 0 && !bytes.Equal(o.Handle, p.Handle)
}

// identity is which object of a machine something is.
type identity struct{ device, inode uint64 }

func (s *Seen) identity() identity { return identity{s.Device, s.Inode} }

// index prepares same.
func (r *record) index() {
	r.links = map[identity]int{}
	for _, o := range r.Operations {
		if o.Was != nil {
			r.links[o.Was.identity()]++
		}
	}
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
		case c.Kind == KindLink && (c.Target == "" || len(c.Target) > maxPath || strings.ContainsRune(c.Target, 0)):
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

// plan holds the changes against the folder and says what is to be done. Operations
// are ordered by path.
func (a *applier) plan(dir string, changes []Change, since time.Time) (*record, error) {
	p := &planner{applier: a, at: map[string]*Change{}, folders: map[string]bool{}}
	p.record = &record{Version: recordVersion, Folder: dir, Origin: a.origin, Since: since.UnixNano()}
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
	case now == nil || c.Before == nil || *now != *c.Before || now.ChangedNS > p.record.Since:
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
		if blocked(err) && p.clears(folder) {
			now, err = nil, nil
		}
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

// calls makes system calls that change something, one at a time.
type calls struct {
	// before is told about each, and can fail in its place. Nil but in tests.
	before func(call, name string) error
}

func (c calls) announce(call, name string) error {
	if c.before != nil {
		if err := c.before(call, name); err != nil {
			return &fs.PathError{Op: call, Path: name, Err: err}
		}
	}
	return nil
}

func (c calls) do(call, name string, f func() error) error {
	if err := c.announce(call, name); err != nil {
		return err
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
	if err = c.announce("write", shown); err == nil {
		err = from(f)
	}
	if err != nil {
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
		switch {
		case err == unix.ENOENT && create:
			continue
		case err == unix.ENOENT:
			return false, nil
		case err != nil:
			return false, &fs.PathError{Op: "open", Path: j.name, Err: err}
		}
		there, err := j.hold(dir)
		if err != nil || !there {
			_ = unix.Close(dir)
		}
		if err != nil {
			return false, &fs.PathError{Op: "lock", Path: j.name, Err: err}
		}
		if there {
			j.dir = dir
			return true, nil
		}
	}
}

// hold locks an open journal, and says whether it is still the one that is there.
func (j *journal) hold(dir int) (bool, error) {
	if err := flock(dir); err != nil {
		return false, err
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

func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

// close removes the journal when it is empty, and gives up the lock.
func (j *journal) close() {
	if j.dir >= 0 {
		_ = j.do("rmdir", j.name, func() error { return unix.Unlinkat(j.state, j.name, unix.AT_REMOVEDIR) })
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
	err := j.do("turn", j.name+"/"+string(p), func() error { return unix.Renameat(j.dir, string(r.phase), j.dir, string(p)) })
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

// clear removes the record, and then the blobs. Blobs that cannot be removed once the
// record is gone count for nothing, and whoever opens the journal next tries again.
func (j *journal) clear(r *record) error {
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
	return nil
}

func (j *journal) remove(name string) error {
	err := j.do("unlink", j.name+"/"+name, func() error { return unix.Unlinkat(j.dir, name, 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
