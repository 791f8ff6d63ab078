package saferun

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openNameless opens a file that never has a name. O_TMPFILE includes O_DIRECTORY, so that
// a kernel without O_TMPFILE returns an error.
func openNameless(folder string) (*os.File, error) {
	return os.OpenFile(folder, os.O_RDWR|unix.O_TMPFILE, 0o600)
}

// renameNoReplace renames a file and never replaces one. It returns errors.ErrUnsupported
// where the kernel or the file system lacks such a rename.
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
