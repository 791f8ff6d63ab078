//go:build !unix

package pack

import (
	"errors"
	"io/fs"
	"os"
)

const nonblock = 0

// sameGroup does nothing: there are no groups here.
func sameGroup(string, fs.FileInfo) error { return nil }

// replaceFolder renames a folder. An empty one at its place is removed first.
func replaceFolder(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from, to)
}

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
