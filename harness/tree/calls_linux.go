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
