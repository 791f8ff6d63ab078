//go:build !unix

package pack

import (
	"errors"
	"io/fs"
	"os"
)

const nonblock = 0

// sameGroup does nothing, because this system has no groups.
func sameGroup(string, fs.FileInfo) error { return nil }

// replaceFolder renames a folder. An empty folder at its new place is removed first.
func replaceFolder(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from, to)
}

// syncFolder does nothing, because this system cannot sync a folder.
func syncFolder(string) error { return nil }
