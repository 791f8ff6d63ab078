//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
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

// copyWork makes the sandbox's own copy of the work folder and lays the inputs over it.
func (h *Host) copyWork(s *Sandbox) error {
	c, err := h.copyShown(s, "work", s.req.Work, s.req.Inputs)
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
	c, err := h.copyShown(s, "view", s.req.Work)
	if err != nil {
		return "", err
	}
	return c.to.Name(), c.to.Close()
}

// copyShown copies the visible files of folders, the later over the earlier, into a new
// folder of scratch, and gives them to the id of commands. In a full sandbox of root, files of other owners than the work
// folder's keep their owner, as on an overlay. A copy grants no access that the original
// does not grant.
func (h *Host) copyShown(s *Sandbox, name string, folders ...string) (*copier, error) {
	if err := h.makeScratch(s); err != nil {
		return nil, err
	}
	to := filepath.Join(s.scratch, name)
	if err := errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, 0o755)); err != nil { // whatever the umask is
		return nil, s.fail(StepFiles, err)
	}
	c := &copier{left: copyBytes, files: copyFiles, shown: s.req, owner: -1}
	var st unix.Stat_t
	if h.root && s.Isolation == Full && unix.Stat(s.req.Work, &st) == nil {
		c.owner = int(st.Uid)
	}
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

var errTooLarge = errors.New("what is shown of the work folder is too large to be copied: more than " + strconv.Itoa(copyFiles) +
	" files or " + strconv.Itoa(copyBytes>>20) + " MiB; show less of it, use direct writes, or a machine with overlayfs")

// copier copies folders into one, the later over the earlier. It never follows a link,
// neither on reading nor on writing.
type copier struct {
	to    *os.Root
	left  int64
	files int
	paths []string

	shown Request // decides which paths are left out

	owner   int // owner of the files that commands own; -1: commands own all files
	foreign []foreignEntry
}

// foreignEntry is a file or a folder that does not belong to the owner.
type foreignEntry struct {
	path     string
	uid, gid int
	mode     uint32
}

// giveBack returns foreign files and folders to their owners.
func (c *copier) giveBack() error {
	for _, f := range c.foreign {
		err := errors.Join(c.to.Lchown(f.path, f.uid, f.gid), c.to.Chmod(f.path, os.FileMode(f.mode&0o777)))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a later folder has replaced it
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
		err = c.folder(fd, ".")
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
		if !shown && !c.shown.passes(p) {
			continue
		}
		if c.files--; c.files < 0 {
			return nil, errTooLarge
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
// folders.
func (c *copier) entry(dir int, name, p string, shown bool) (change.Kind, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	kind := change.KindOf(st.Mode)
	if kind == change.KindOther || !shown && kind != change.KindFolder {
		return change.KindOther, nil // a device or a pipe of the work folder does not exist inside
	}
	if info, err := c.to.Lstat(p); err == nil && !(info.IsDir() && kind == change.KindFolder) {
		if err := c.to.RemoveAll(p); err != nil {
			return "", err
		}
	}
	var err error
	switch kind {
	case change.KindFolder:
		if err = c.to.Mkdir(p, 0o755); err == nil {
			err = c.to.Chmod(p, 0o755) // whatever the umask is
		}
		err = unless(err, os.ErrExist)
	case change.KindLink:
		var target string
		if target, err = tree.ReadLink(dir, name); err == nil {
			err = c.to.Symlink(target, p)
		}
	case change.KindFile:
		if c.left -= st.Size; c.left < 0 {
			return "", errTooLarge
		}
		err = c.file(dir, name, p, os.FileMode(st.Mode&0o777))
	}
	c.paths = append(c.paths, p)
	if c.owner >= 0 && int(st.Uid) != c.owner && kind != change.KindLink {
		c.foreign = append(c.foreign, foreignEntry{p, int(st.Uid), int(st.Gid), st.Mode})
	}
	return kind, err
}

func (c *copier) file(dir int, name, p string, mode os.FileMode) error {
	fd, err := tree.Beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	out, err := c.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// marks records the state of every copied file. The caller takes the marks after its last
// own change.
func (c *copier) marks() (map[string]mark, error) {
	defer c.to.Close()
	m := map[string]mark{}
	for _, p := range c.paths {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(c.to.Name(), p), &st); errors.Is(err, unix.ENOENT) {
			continue // replaced
		} else if err != nil {
			return nil, err
		}
		m[p] = markOf(&st)
	}
	return m, nil
}
