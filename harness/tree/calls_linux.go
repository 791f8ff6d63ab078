//go:build linux && (amd64 || arm64)

package tree

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// calls performs the system calls that change something, one at a time.
type calls struct {
	// before is called before each system call; its error replaces the call. It is nil
	// except in tests.
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

// syncFolder makes the created, renamed and removed entries of a folder durable. Some file
// systems need no sync of folders and return EINVAL, which syncFolder ignores.
func (c calls) syncFolder(dir int, name string) error {
	err := c.do("fsync", name, func() error { return unix.Fsync(dir) })
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// write makes a new file. The caller syncs and closes it.
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

// settle syncs and closes a written file.
func (c calls) settle(f *os.File) error {
	err := c.do("fsync", f.Name(), func() error { return unix.Fsync(int(f.Fd())) })
	return errors.Join(err, f.Close())
}

// makeFolder makes a folder and its missing parents durably.
func makeFolder(dir string) error {
	dir = filepath.Clean(dir)
	above := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeFolder(above); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	up, err := unix.Open(above, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: above, Err: err}
	}
	defer unix.Close(up)
	return calls{}.syncFolder(up, above)
}

// Beneath opens a path. It refuses a path that leaves dir or passes a link.
func Beneath(dir int, p string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, p, &unix.OpenHow{
			Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// Stat returns the status of what a path names beneath dir.
func Stat(dir int, p string) (*unix.Stat_t, error) {
	fd, err := Beneath(dir, p, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return &st, unix.Fstat(fd, &st)
}

// OpenPlain opens a file of the user's, whose mode it leaves as it is.
func OpenPlain(dir int, p string) (*os.File, error) {
	fd, err := Beneath(dir, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p), nil
}

// OpenFile opens a regular file, even if its mode does not let its owner read it. The
// programs that could write the file inside have ended.
func OpenFile(dir int, p string) (*os.File, error) {
	fd, err := Beneath(dir, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if err == unix.EACCES {
		if err = Allow(dir, p, 0o400); err == nil {
			fd, err = Beneath(dir, p, unix.O_RDONLY|unix.O_NONBLOCK)
		}
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = f.Close()
		return nil, os.ErrInvalid
	}
	return f, nil
}

// Allow adds permission bits to the file or folder at a path.
func Allow(dir int, p string, mode uint32) error {
	fd, err := Beneath(dir, p, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, procFD(fd), st.Mode&0o777|mode, 0)
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// ReadLink returns the target of the symbolic link at a path beneath dir.
func ReadLink(dir int, p string) (string, error) {
	fd, err := beneathLink(dir, p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(fd, "", b)
	return string(b[:max(n, 0)]), err
}

// beneathLink opens the link itself, not its target.
func beneathLink(dir int, p string) (int, error) {
	parent, name := path.Split(p)
	if parent != "" {
		fd, err := Beneath(dir, path.Clean(parent), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		dir = fd
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// ReadNames lists the names in a folder, sorted.
func ReadNames(dir int) ([]string, error) {
	dup, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Digest returns the SHA-256 of the remaining bytes of r.
func Digest(r io.Reader) (sum [32]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
