//go:build linux && (amd64 || arm64)

package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
