//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// whiteout says whether an entry says that a path has no entry, as overlayfs has it.
func whiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// layers are open folders that lie over one another, the upper one first. An entry that is
// no folder, a whiteout among them, hides what lower layers have at its path and beneath.
type layers []int

// openLayers opens those of the folders that are named. The caller closes the result, also
// after an error.
func openLayers(folders ...string) (l layers, err error) {
	for _, dir := range folders {
		if dir == "" {
			continue
		}
		fd, openErr := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if openErr != nil {
			err = openErr
			continue
		}
		l = append(l, fd)
	}
	return l, err
}

// originals opens the folders whose content the work folder had before anything ran.
func (s *Sandbox) originals() (layers, error) {
	return openLayers(s.req.Inputs, s.req.Delta, s.req.Work)
}

func (l layers) close() {
	for _, fd := range l {
		_ = unix.Close(fd)
	}
}

// find is look, and counts a path that cannot be reached as no entry.
func (l layers) find(p string) (int, *unix.Stat_t) {
	dir, st, _ := l.look(p)
	return dir, st
}

// look returns the layer that has a path, and the status of that path; nil for no entry.
func (l layers) look(p string) (int, *unix.Stat_t, error) {
	for _, dir := range l {
		st, err := tree.Stat(dir, p)
		switch {
		case err == unix.ENOENT:
			continue
		case err != nil:
			return -1, nil, unless(err, unix.ENOTDIR, unix.ELOOP)
		case whiteout(st):
			return -1, nil, nil
		}
		return dir, st, nil
	}
	return -1, nil, nil
}

// names lists the entries of a folder, each once. If it is strict, what cannot be read is an
// error, and else it has no entries.
func (l layers) names(folder string, strict bool) (list []string, err error) {
	seen := map[string]bool{}
	for _, dir := range l {
		fd, err := tree.Beneath(dir, folder, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == unix.ENOENT {
			continue
		}
		if err != nil && (!strict || unless(err, unix.ENOTDIR, unix.ELOOP) == nil) {
			break // no folder: it hides those of lower layers
		}
		if err != nil {
			return nil, err
		}
		names, err := tree.ReadNames(fd)
		for _, name := range names {
			var st unix.Stat_t
			err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if !seen[name] && (err == nil && !whiteout(&st) || err != nil && strict) { // look says why
				list = append(list, name)
			}
			seen[name] = true
		}
		_ = unix.Close(fd)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Before returns the kind of the entry that the work folder had at a path before anything
// ran. For a file it also returns digest and size. A file that cannot be read counts as no
// entry.
func (s *Sandbox) Before(p string) (kind change.Kind, sum [32]byte, size int64) {
	was, _ := s.originals()
	defer was.close()
	dir, st := was.find(p)
	if st == nil {
		return "", sum, 0
	}
	if kind = change.KindOf(st.Mode); kind != change.KindFile {
		return kind, sum, 0
	}
	f, err := tree.OpenFile(dir, p)
	if err != nil {
		return "", sum, 0
	}
	defer f.Close()
	if sum, err = tree.Digest(f); err != nil {
		return "", [32]byte{}, 0
	}
	return kind, sum, st.Size
}

// Below lists the paths that the work folder had beneath a folder before anything ran.
func (s *Sandbox) Below(folder string) iter.Seq[string] {
	return func(yield func(string) bool) {
		was, _ := s.originals()
		defer was.close()
		was.below(folder, yield)
	}
}

// below yields the paths beneath a folder, and says whether to go on. A folder that cannot be
// read has none.
func (l layers) below(folder string, yield func(string) bool) bool {
	names, _ := l.names(folder, false)
	for _, name := range names {
		if p := path.Join(folder, name); !yield(p) || !l.below(p, yield) {
			return false
		}
	}
	return true
}

// MoveTo writes the changes into a new or empty folder, in the form of Request.Delta, and
// releases everything else that the sandbox holds, except inputs that it owns. Content then
// reads from that folder, which stays the caller's. A change of the kind other, a file without
// a digest, and the paths for which leave is true are left out; leave may be nil. After an error
// the folder may hold a part of the changes.
//
// In that form, files and folders have the modes 0644, 0755 and 0755, and a character device
// 0:0 is a whiteout: its path has no entry. A whiteout stands only where a lower layer has
// an entry: the kernel lists one in a folder that no lower layer has.
func (s *Sandbox) MoveTo(dir string, leave func(path string) bool) error {
	if s.staging == stageNone {
		return errors.ErrUnsupported
	}
	list, err := s.Changes()
	if err != nil && !errors.Is(err, ErrStageFull) {
		return err
	}
	below, err := openLayers(s.req.Delta, s.req.Work)
	defer below.close()
	if err == nil {
		err = WriteDelta(dir, list, Delta{
			Leave: leave,
			Open:  func(p string) (*os.File, error) { return tree.OpenFile(int(s.upper.Fd()), p) },
			Hides: func(p string) bool { _, st := below.find(p); return st != nil },
		})
	}
	if err != nil {
		return err
	}
	moved, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = s.release()
	s.upper = moved
	return err
}

// WriteDelta writes changes into a new or empty folder, in the form of Request.Delta.
func WriteDelta(dir string, list []change.Change, d Delta) error {
	if err := unless(os.Mkdir(dir, 0o755), fs.ErrExist); err != nil {
		return err
	}
	if names, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(names) > 0 {
		return &fs.PathError{Op: "move to", Path: dir, Err: unix.ENOTEMPTY}
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	c := &copier{to: to}
	for _, one := range list {
		if d.Leave != nil && d.Leave(one.Path) {
			continue
		}
		if err := c.put(one, d); err != nil {
			return err
		}
	}
	return nil
}

// put writes one change.
func (c *copier) put(one change.Change, d Delta) error {
	switch one.Kind {
	case change.KindDeleted:
		if !d.Hides(one.Path) {
			return nil
		}
	case change.KindOther:
		return nil
	case change.KindFolder:
		return c.folders(one.Path)
	case change.KindFile:
		if one.SHA256 == [32]byte{} {
			return nil
		}
	}
	if err := c.folders(path.Dir(one.Path)); err != nil {
		return err
	}
	switch one.Kind {
	case change.KindLink:
		return c.to.Symlink(one.Target, one.Path)
	case change.KindFile:
		in, err := d.Open(one.Path)
		if err != nil {
			return err
		}
		defer in.Close()
		mode := fs.FileMode(0o644)
		if one.Executable {
			mode = 0o755
		}
		return c.fill(in, one.Path, mode)
	}
	dir, err := c.to.Open(path.Dir(one.Path)) // a link on the way leads out of no root
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mknodat(int(dir.Fd()), path.Base(one.Path), unix.S_IFCHR, 0); err != nil {
		return fmt.Errorf("%s: %w: %w", c.to.Name(), ErrWhiteouts, err)
	}
	return nil
}

// folders makes a folder and those above it, whatever the umask is.
func (c *copier) folders(p string) error {
	err := c.to.Mkdir(p, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err = c.folders(path.Dir(p)); err == nil {
			err = c.to.Mkdir(p, 0o755)
		}
	}
	if err == nil {
		err = c.to.Chmod(p, 0o755)
	}
	return unless(err, fs.ErrExist)
}

// Facts returns what the sandbox is.
func (s *Sandbox) Facts() Facts {
	return Facts{s.Isolation, s.Clauses, s.PlanHash, string(s.staging), ThisMachine()}
}

// sharedMemory is a folder that is in memory on every system.
const sharedMemory = "/dev/shm"

// DeltaFolder makes a folder whose file system has whiteouts: near, or a new one (NewScratch)
// among the temporary files or in shared memory. The error wraps ErrWhiteouts if there is none.
func DeltaFolder(near string) (dir string, err error) {
	if near, err = filepath.Abs(near); err != nil { // the init has another working folder
		return "", err
	}
	for _, dir := range []string{near, os.TempDir(), sharedMemory} {
		if dir != near {
			if dir, err = NewScratch(dir); err != nil {
				continue
			}
		}
		if err = Hidden(dir, "probe"); err == nil {
			return dir, os.Remove(filepath.Join(dir, "probe"))
		}
		if dir != near {
			err = errors.Join(err, os.Remove(dir))
		}
	}
	return "", err
}

// Hidden makes a folder in the form of Request.Delta that hides one path at the top. The error
// wraps ErrWhiteouts if the file system has no whiteouts.
func Hidden(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR, 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("%s: %w: %w", dir, ErrWhiteouts, err)
	}
	return nil
}
