package compare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Within returns the path of a place from a folder, and whether the place is the folder or lies
// beneath it. Links are followed, so that a place beneath the folder that a link reaches lies
// elsewhere. Neither has to exist.
func Within(folder, place string) (at string, ok bool) {
	from, err := Resolved(folder)
	if err == nil {
		place, err = Resolved(place)
	}
	if err == nil {
		at, err = filepath.Rel(from, place)
	}
	return at, err == nil && filepath.IsLocal(at)
}

// Resolved returns the absolute path of a place, in which links are followed as far as the path exists.
func Resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	for rest := ""; err == nil; path = filepath.Dir(path) {
		there, missing := filepath.EvalSymlinks(path)
		if missing == nil {
			return filepath.Join(there, rest), nil
		}
		if _, err = os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return "", missing // a link that leads nowhere, or a folder that may not be read
		}
		rest, err = filepath.Join(filepath.Base(path), rest), nil
	}
	return "", err
}
