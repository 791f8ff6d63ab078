package harness

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
	"github.com/fiador/fiador/harness/sandbox"
)

// tree is a folder that is looked at and not changed. No link in it is followed: what
// is put in the place of something while it is looked at is an error, and never leads
// out of the folder.
type tree struct {
	dir   string
	place string // dir as a slash path without a slash before it
	root  *os.Root
	top   *sandbox.Seen            // the folder itself
	above map[string]*sandbox.Seen // folders above paths, and what stands in their place; nil: nothing
}

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	place := filepath.ToSlash(strings.TrimPrefix(dir, filepath.VolumeName(dir)))
	return &tree{dir: dir, place: strings.Trim(place, "/"), root: root, top: sandbox.SeenOf(info), above: map[string]*sandbox.Seen{}}, nil
}

func (t *tree) Close() error { return t.root.Close() }

// standing is what stands at a path, or in the place of a folder above it.
type standing struct {
	kind sandbox.Kind // empty: nothing
	at   string
	seen *sandbox.Seen
}

func (t *tree) look(name string) (standing, error) {
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
		case seen.Kind != sandbox.KindFolder:
			return standing{kind: seen.Kind, at: folder}, nil
		}
	}
	seen, err := t.seen(name)
	if seen == nil {
		return standing{at: name}, err
	}
	return standing{kind: seen.Kind, at: name, seen: seen}, nil
}

// seen is nil where nothing stands.
func (t *tree) seen(name string) (*sandbox.Seen, error) {
	info, err := t.lstat(name)
	if err != nil || info == nil {
		return nil, err
	}
	return sandbox.SeenOf(info), nil
}

// lstat is nil where nothing stands.
func (t *tree) lstat(name string) (fs.FileInfo, error) {
	info, err := t.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR): // a folder a moment before
		return nil, &sandbox.ConflictError{Path: name}
	}
	return info, err
}

func kindOf(info fs.FileInfo) sandbox.Kind {
	if info == nil {
		return ""
	}
	return sandbox.SeenOf(info).Kind
}

// state is the regular file that was seen at a path.
func (t *tree) state(name string, seen *sandbox.Seen) (FileState, error) {
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

// open opens the regular file or the folder that was seen at a path, unless it was
// changed since.
func (t *tree) open(name string, seen *sandbox.Seen) (*os.File, fs.FileInfo, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, &sandbox.ConflictError{Path: name}
	}
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && *sandbox.SeenOf(opened) != *seen {
		err = &sandbox.ConflictError{Path: name}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, opened, nil
}

// content reads the regular file that was seen at a path.
func (t *tree) content(name string, seen *sandbox.Seen) ([]byte, error) {
	now, err := t.seen(name)
	if err != nil {
		return nil, err
	}
	if now == nil || *now != *seen { // what is no file is better not opened
		return nil, &sandbox.ConflictError{Path: name}
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

// inside tells of everything in a folder that was seen, at any depth.
func (t *tree) inside(folder string, seen *sandbox.Seen, tell func(name string, seen *sandbox.Seen) error) error {
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
			err = &sandbox.ConflictError{Path: name}
		}
		if err == nil {
			err = tell(name, s)
		}
		if err != nil {
			return err
		}
		if s.Kind == sandbox.KindFolder {
			if err := t.inside(name, s, tell); err != nil {
				return err
			}
		}
	}
	return nil
}
