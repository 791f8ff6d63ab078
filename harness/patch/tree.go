package patch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// target is a folder that is read and not changed. No link in it is followed. If
// somebody replaces an entry during the reading, the result is an error, and no path
// leads out of the folder.
type target struct {
	dir   string
	place string // dir as a slash path without a slash before it
	root  *os.Root
	top   *change.Seen            // the folder itself
	above map[string]*change.Seen // folders above paths, and the entries in their places; nil: none
}

func openTree(dir string) (*target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	place := filepath.ToSlash(strings.TrimPrefix(dir, filepath.VolumeName(dir)))
	return &target{dir: dir, place: strings.Trim(place, "/"), root: root, top: change.SeenOf(info), above: map[string]*change.Seen{}}, nil
}

func (t *target) Close() error { return t.root.Close() }

// standing describes the entry at a path, or the entry in the place of a folder above
// the path.
type standing struct {
	kind change.Kind // empty: no entry
	at   string
	seen *change.Seen
}

func (t *target) look(name string) (standing, error) {
	for _, folder := range foldersAbove(name) {
		seen, known := t.above[folder]
		if !known {
			var err error
			if seen, err = t.seen(folder); err != nil {
				return standing{}, err
			}
			t.above[folder] = seen
		}
		switch {
		case seen == nil:
			return standing{at: name}, nil
		case seen.Kind != change.KindFolder:
			return standing{kind: seen.Kind, at: folder}, nil
		}
	}
	seen, err := t.seen(name)
	if seen == nil {
		return standing{at: name}, err
	}
	return standing{kind: seen.Kind, at: name, seen: seen}, nil
}

// seen returns the entry at a path, or nil if there is none or with an error.
func (t *target) seen(name string) (*change.Seen, error) {
	info, err := t.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR): // it was a folder a moment ago
		return nil, &tree.ConflictError{Path: name}
	case err != nil:
		return nil, err
	}
	return change.SeenOf(info), nil
}

// state returns the state of the regular file that was seen at a path.
func (t *target) state(name string, seen *change.Seen) (FileState, error) {
	f, info, err := t.open(name, seen)
	if err != nil {
		return FileState{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return FileState{}, err
	}
	return FileState{Size: n, SHA256: evidence.Hash([32]byte(h.Sum(nil))), Executable: info.Mode()&0o100 != 0}, nil
}

// open opens the regular file or the folder that was seen at a path. It returns an error
// if the entry was changed since.
func (t *target) open(name string, seen *change.Seen) (*os.File, fs.FileInfo, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, &tree.ConflictError{Path: name}
	}
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && *change.SeenOf(opened) != *seen {
		err = &tree.ConflictError{Path: name}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, opened, nil
}

// content reads the regular file that was seen at a path.
func (t *target) content(name string, seen *change.Seen) ([]byte, error) {
	now, err := t.seen(name)
	if err == nil && (now == nil || *now != *seen) { // an entry that is no file should not be opened
		err = &tree.ConflictError{Path: name}
	}
	if err != nil {
		return nil, err
	}
	f, _, err := t.open(name, seen)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(int(seen.Size) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(f, seen.Size+1))
	return b.Bytes(), err
}

// inside calls tell for every entry in a folder that was seen, at any depth.
func (t *target) inside(folder string, seen *change.Seen, tell func(name string, seen *change.Seen) error) error {
	f, _, err := t.open(folder, seen)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		s, err := t.seen(name)
		if err == nil && s == nil {
			err = &tree.ConflictError{Path: name}
		}
		if err == nil {
			err = tell(name, s)
		}
		if err != nil {
			return err
		}
		if s.Kind == change.KindFolder {
			if err := t.inside(name, s, tell); err != nil {
				return err
			}
		}
	}
	return nil
}
