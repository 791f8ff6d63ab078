package screen

import (
	"os"
	"path/filepath"

	"github.com/fiador/fiador/kernel/canon"
)

// Path returns the name of a file for results and messages. The name is relative,
// with forward slashes, if the file lies beneath the current folder. Otherwise it is the
// base name. It never shows the place of the file on this machine.
func Path(name string) string {
	if name == "-" {
		return name
	}
	if name == "" {
		return `""`
	}
	path := filepath.Clean(name)
	if filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, path); err == nil {
				path = rel
			}
		}
	}
	if !filepath.IsLocal(path) {
		path = filepath.Base(path)
	}
	return canon.Clean(filepath.ToSlash(path))
}

// Folder returns the name of a folder, or of a file in a folder, for messages. It
// is the given name, and never an absolute path.
func Folder(name string) string {
	if path := filepath.Clean(name); !filepath.IsAbs(path) {
		return canon.Clean(filepath.ToSlash(path))
	}
	return Path(name)
}
