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
	kinds map[string]sandbox.Kind // of folders above paths, and what stands in their place
}

func openTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	place := filepath.ToSlash(strings.TrimPrefix(dir, filepath.VolumeName(dir)))
	return &tree{dir: dir, place: strings.Trim(place, "/"), root: root, kinds: map[string]sandbox.Kind{}}, nil
}

func (t *tree) Close() error { return t.root.Close() }

// standing is what stands at a path, or in the place of a folder above it.
type standing struct {
	kind sandbox.Kind // empty: nothing
	at   string
	info fs.FileInfo
}

func (t *tree) look(name string) (standing, error) {
	for _, folder := range foldersAbove(name) {
		kind, known := t.kinds[folder]
		if !known {
			info, err := t.lstat(folder)
			if err != nil {
				return standing{}, err
			}
			kind = kindOf(info)
			t.kinds[folder] = kind
		}
		switch kind {
		case "":
			return standing{at: name}, nil
		case sandbox.KindFolder:
		default:
			return standing{kind: kind, at: folder}, nil
		}
	}
	info, err := t.lstat(name)
	return standing{kind: kindOf(info), at: name, info: info}, err
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
	switch {
	case info == nil:
		return ""
	case info.Mode().IsRegular():
		return sandbox.KindFile
	case info.IsDir():
		return sandbox.KindFolder
	case info.Mode()&fs.ModeSymlink != 0:
		return sandbox.KindLink
	}
	return sandbox.KindOther
}

// state is the regular file at a path, which info is about.
func (t *tree) state(name string, info fs.FileInfo) (FileState, error) {
	f, err := t.open(name, info)
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

// open opens the regular file that info is about.
func (t *tree) open(name string, info fs.FileInfo) (*os.File, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, &sandbox.ConflictError{Path: name}
	}
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = &sandbox.ConflictError{Path: name}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// content reads a regular file of that size.
func (t *tree) content(name string, size int64) ([]byte, error) {
	info, err := t.lstat(name)
	if err != nil {
		return nil, err
	}
	if kindOf(info) != sandbox.KindFile || info.Size() != size {
		return nil, &sandbox.ConflictError{Path: name}
	}
	f, err := t.open(name, info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(f, size+1))
	return b.Bytes(), err
}

// beneath tells of everything in a folder, at any depth.
func (t *tree) beneath(folder string, tell func(name string) error) error {
	f, err := t.root.Open(filepath.FromSlash(folder))
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if err := tell(name); err != nil {
			return err
		}
		if e.IsDir() {
			if err := t.beneath(name, tell); err != nil {
				return err
			}
		}
	}
	return nil
}
