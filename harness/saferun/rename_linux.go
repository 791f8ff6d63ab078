package saferun

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace is errors.ErrUnsupported where the kernel or the file system
// cannot do it.
func renameNoReplace(dir *os.Root, from, to string) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	err = again(func() error { return unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
