package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrBusy says that another process is about to change the meta.json of a pack.
var ErrBusy = errors.New("another process is changing its meta.json")

// ErrBeside says that the new meta.json cannot be prepared beside the pack, because the
// folder above is not writable.
var ErrBeside = errors.New("the folder above it has to be writable")

// SetMeta replaces the meta.json of the pack in a folder by the result of change. After
// a kill at any point, the folder has the old file or the new one, and no other new
// file. The order is:
//
//  1. the folder is locked, and the pack is read and handed to change
//  2. the new file is made in a folder beside the pack, whose name begins with a dot and
//     ends in ".partial", written and synced
//  3. it is renamed into the pack, and the folder of the pack is synced
//  4. the folder beside is removed
//
// After an error nothing is left beside the pack, and the old file stays. An error of
// the last sync is the exception: the new file is in place, but may be lost when the
// power fails. If another process changes the pack, SetMeta returns ErrBusy, provided
// that the file system has locks. If the folder above cannot be written, it returns
// ErrBeside. If change returns the existing bytes, nothing is written.
func SetMeta(dir string, change func(*Pack) ([]byte, error)) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // a link may lie on another file system than its target
	}
	if err != nil {
		return err
	}
	locked, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer locked.Close()
	if err := lock(locked); err != nil {
		return &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	p, err := ReadFolder(dir)
	if err != nil {
		return err
	}
	text, err := change(p)
	if err != nil {
		return err
	}
	if old, ok := p.Entry(MetaFile); ok && old.Text != nil && string(old.Text) == string(text) {
		return nil
	}
	beside, err := stage(dir, text)
	if err != nil {
		return err
	}
	return errors.Join(place(beside, dir), os.RemoveAll(beside))
}

// stage is step 2: it makes the folder beside the pack, with the new file in it.
func stage(dir string, text []byte) (beside string, err error) {
	beside, err = os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*.partial")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err // its path has a random name
		}
		return "", fmt.Errorf("%w: %w", ErrBeside, err)
	}
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(filepath.Join(beside, MetaFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(beside))
	}
	_, err = f.Write(text)
	if err == nil {
		err = likeOld(f, filepath.Join(dir, MetaFile))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.RemoveAll(beside))
	}
	return beside, nil
}

// likeOld gives a file the permissions of the file that it replaces.
func likeOld(f *os.File, name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "replace", Path: name, Err: errors.New("not a regular file")}
	}
	return f.Chmod(info.Mode().Perm())
}

// place is step 3.
func place(beside, dir string) error {
	if err := os.Rename(filepath.Join(beside, MetaFile), filepath.Join(dir, MetaFile)); err != nil {
		return err
	}
	return syncFolder(dir)
}
