//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// What a copy of a work folder may hold. Beyond it the folder cannot be staged.
const (
	copyFiles = 100_000
	copyBytes = 1 << 30
)

// mark is what a file of a copy was right after it was made. Nothing that changes a
// file leaves its change time as it is.
type mark struct {
	inode   uint64
	size    int64
	changed int64
}

func (m mark) same(st *unix.Stat_t) bool {
	return m == mark{st.Ino, st.Size, st.Ctim.Nano()}
}

type manifest map[string]mark

func (m manifest) paths() []string { return slices.Sorted(maps.Keys(m)) }

// copyWork makes the sandbox's own copy of the work folder, with the inputs over it.
func (h *Host) copyWork(s *Sandbox) error {
	if err := h.makeScratch(s); err != nil {
		return err
	}
	s.work = filepath.Join(s.scratch, "work")
	if err := os.Mkdir(s.work, 0o755); err != nil {
		return s.fail(StepFiles, err)
	}
	c := &copier{to: s.work, left: copyBytes, files: copyFiles, hidden: s.req.Hide}
	for _, from := range []string{s.req.Work, s.req.Inputs} {
		if from == "" {
			continue
		}
		fd, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = c.folder(fd, "")
			_ = unix.Close(fd)
		}
		if err != nil {
			return s.fail(StepFiles, err)
		}
	}
	if h.root {
		id := h.id
		if s.Isolation != Full {
			id = h.confinedID()
		}
		if err := giveAway(s.work, id); err != nil {
			return s.fail(StepFiles, err)
		}
	}
	var err error
	if s.upper, err = os.Open(s.work); err != nil {
		return s.fail(StepFiles, err)
	}
	if s.copied, err = c.marks(); err != nil {
		return s.fail(StepFiles, err)
	}
	return nil
}

var errTooLarge = errors.New("the work folder is too large to be copied: more than " + strconv.Itoa(copyFiles) +
	" files or " + strconv.Itoa(copyBytes>>20) + " MiB; use direct writes or a machine with overlayfs")

type copier struct {
	to    string
	left  int64
	files int
	paths []string

	hidden []string // what is left out
}

func (c *copier) folder(dir int, at string) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if c.files--; c.files < 0 {
			return errTooLarge
		}
		if err := c.entry(dir, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) entry(dir int, name, p string) error {
	if slices.Contains(c.hidden, p) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	to := filepath.Join(c.to, p)
	switch kindOf(st.Mode) {
	case KindFolder:
		if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		fd, err := beneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := c.folder(fd, p); err != nil {
			return err
		}
	case KindLink:
		target, err := readLink(dir, name)
		if err != nil {
			return err
		}
		_ = os.Remove(to)
		if err := os.Symlink(target, to); err != nil {
			return err
		}
	case KindFile:
		if c.left -= st.Size; c.left < 0 {
			return errTooLarge
		}
		if err := copyFile(dir, name, to, os.FileMode(st.Mode&0o777)); err != nil {
			return err
		}
	default:
		return nil // a device or a pipe of the work folder is not there inside
	}
	c.paths = append(c.paths, p)
	return nil
}

func copyFile(dir int, name, to string, mode os.FileMode) error {
	fd, err := beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	_ = os.Remove(to)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// marks are taken after the last change that is ours.
func (c *copier) marks() (manifest, error) {
	m := manifest{}
	for _, p := range c.paths {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(c.to, p), &st); err != nil {
			return nil, err
		}
		m[p] = mark{st.Ino, st.Size, st.Ctim.Nano()}
	}
	return m, nil
}
