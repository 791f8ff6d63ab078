//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/lazy"
)

// The largest number of files and bytes in a copy of a work folder. A larger folder cannot
// be staged.
const (
	copyFiles = 100_000
	copyBytes = 1 << 30
)

// mark identifies a file of a copy right after the copy is made. Every change to a file also
// changes its change time.
type mark struct {
	inode   uint64
	size    int64
	changed int64
}

func markOf(st *unix.Stat_t) mark { return mark{st.Ino, st.Size, st.Ctim.Nano()} }

// copyWork makes the sandbox's own copy of the work folder and lays the delta and the inputs
// over it.
func (h *Host) copyWork(s *Sandbox) error {
	c, err := h.copyShown(s, "work", s.req.Work, s.req.Delta, s.req.Inputs)
	if err != nil {
		return err
	}
	s.work = c.to.Name()
	if s.upper, err = os.Open(s.work); err == nil {
		s.copied, err = c.marks()
	}
	if err != nil {
		return s.fail(StepFiles, err)
	}
	return nil
}

// copyView copies the shown part of the work folder. The copy is the lower layer of the
// overlay where a request shows only a part.
func (h *Host) copyView(s *Sandbox) (string, error) {
	c, err := h.copyShown(s, "view", s.req.Work, s.req.Delta)
	if err != nil {
		return "", err
	}
	return c.to.Name(), c.to.Close()
}

// copyShown copies the visible files of folders, the later over the earlier, into a new
// folder of scratch, and gives them to the id of commands. In a full sandbox of root, files of
// other owners than their folder's keep their owner, as on an overlay. A copy grants no
// access that the original does not grant.
func (h *Host) copyShown(s *Sandbox, name string, folders ...string) (*copier, error) {
	if err := h.makeScratch(s); err != nil {
		return nil, err
	}
	to := filepath.Join(s.scratch, name)
	if err := errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, 0o755)); err != nil { // whatever the umask is
		return nil, s.fail(StepFiles, err)
	}
	c := &copier{left: copyBytes, files: copyFiles, shown: s.req, apart: h.root && s.Isolation == Full, foreign: map[string]foreignEntry{}}
	if err := c.copy(to, folders...); err != nil {
		return nil, s.fail(StepFiles, err)
	}
	if h.root {
		if err := errors.Join(giveAway(to, s.id), c.giveBack()); err != nil {
			return nil, h.Diagnose(s.fail(StepFiles, err))
		}
	}
	return c, nil
}

var errTooLarge = lazy.Value[error]{Make: func() error {
	return fmt.Errorf("what is shown of the work folder is too large to be copied: more than %d files or %d MiB; show less of it, use direct writes, or a machine with overlayfs",
		copyFiles, copyBytes>>20)
}}

// copier copies folders into one, the later over the earlier. It never follows a link,
// neither on reading nor on writing.
type copier struct {
	to    *os.Root
	left  int64
	files int
	plain bool // reflinks are not possible

	shown Request // decides which paths are left out

	apart   bool // commands own only what belongs to the owner of the copied folder
	owner   uint32
	foreign map[string]foreignEntry // what belongs to others, by path
}

// foreignEntry says to whom a file or a folder belongs.
type foreignEntry struct {
	uid, gid int
	mode     uint32
}

// giveBack returns foreign files and folders to their owners.
func (c *copier) giveBack() error {
	for p, f := range c.foreign {
		if err := errors.Join(c.to.Lchown(p, f.uid, f.gid), c.to.Chmod(p, os.FileMode(f.mode&0o777))); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) copy(to string, folders ...string) (err error) {
	if c.to, err = os.OpenRoot(to); err != nil {
		return err
	}
	for _, from := range folders {
		if from == "" {
			continue
		}
		fd, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			c.owner = st.Uid
			err = c.folder(fd, ".")
		}
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// folder copies the content of one folder beneath root. It closes the folder before it opens
// the subfolders, because there may be more subfolders than descriptors.
func (c *copier) folder(root int, at string) error {
	dir, err := tree.Beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	folders, err := c.entries(dir, at)
	_ = unix.Close(dir)
	if err != nil {
		return err
	}
	for _, p := range folders {
		if err := c.folder(root, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) entries(dir int, at string) (folders []string, err error) {
	names, err := tree.ReadNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p := path.Join(at, name)
		shown := c.shown.Shows(p)
		if !shown && !c.shown.Passes(p) {
			continue
		}
		if c.files--; c.files < 0 {
			return nil, errTooLarge.Get()
		}
		kind, err := c.entry(dir, name, p, shown)
		if err != nil {
			return nil, err
		}
		if kind == change.KindFolder {
			folders = append(folders, p)
		}
	}
	return folders, nil
}

// entry copies one named entry of a folder; of a subfolder, it copies the subfolder alone.
// It first removes an entry that an earlier folder left at that path, unless both are
// folders. A whiteout does nothing else.
func (c *copier) entry(dir int, name, p string, shown bool) (change.Kind, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	kind := change.KindOf(st.Mode)
	delete(c.foreign, p)
	if info, err := c.to.Lstat(p); err == nil && !(info.IsDir() && kind == change.KindFolder) {
		if info.IsDir() {
			maps.DeleteFunc(c.foreign, func(q string, _ foreignEntry) bool { return kernel.Beneath(q, p) })
		}
		if err := c.to.RemoveAll(p); err != nil {
			return "", err
		}
	}
	if kind == change.KindOther || !shown && kind != change.KindFolder {
		return change.KindOther, nil // a device or a pipe of the work folder does not exist inside
	}
	var err error
	switch kind {
	case change.KindFolder:
		err = c.folders(p)
	case change.KindLink:
		var target string
		if target, err = tree.ReadLink(dir, name); err == nil {
			err = c.to.Symlink(target, p)
		}
	case change.KindFile:
		if c.left -= st.Size; c.left < 0 {
			return "", errTooLarge.Get()
		}
		err = c.file(dir, name, p, os.FileMode(st.Mode&0o777))
	}
	if c.apart && st.Uid != c.owner && kind != change.KindLink {
		c.foreign[p] = foreignEntry{int(st.Uid), int(st.Gid), st.Mode}
	}
	return kind, err
}

func (c *copier) file(dir int, name, p string, mode os.FileMode) error {
	in, err := tree.OpenPlain(dir, name)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.fill(in, p, mode)
}

// fill copies an open file to a path that has no entry. Where the file system can, the two
// share their blocks until one is written.
func (c *copier) fill(in *os.File, p string, mode os.FileMode) error {
	out, err := c.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = unix.EOPNOTSUPP; !c.plain {
		err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
		c.plain = err != nil && unless(err, unix.EOPNOTSUPP, unix.EXDEV, unix.EINVAL, unix.ENOTTY) == nil
	}
	if err != nil {
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// marks records the state of every copied file. The caller takes the marks after its last
// own change.
func (c *copier) marks() (map[string]mark, error) {
	defer c.to.Close()
	m := map[string]mark{}
	return m, filepath.WalkDir(c.to.Name(), func(p string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if at, ok := strings.CutPrefix(p, c.to.Name()+"/"); ok {
			m[at] = markOf(&st)
		}
		return err
	})
}
