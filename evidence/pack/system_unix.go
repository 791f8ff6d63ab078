//go:build unix

package pack

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// sameGroup gives a folder the owner and group of another one, if they differ.
func sameGroup(name string, as fs.FileInfo) error {
	want, ok := as.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if has, ok := info.Sys().(*syscall.Stat_t); ok && has.Uid == want.Uid && has.Gid == want.Gid {
		return nil
	}
	return os.Lchown(name, int(want.Uid), int(want.Gid))
}

// nonblock makes an open return at once if the file was replaced by something that
// blocks.
const nonblock = syscall.O_NONBLOCK

// replaceFolder renames a folder in one step. It replaces an empty folder, and refuses
// to replace a file or a folder with content.
func replaceFolder(from, to string) error {
	if err := syscall.Rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// syncFolder makes the names of a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
