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

// ErrBeside says that what replaces the meta.json of a pack cannot be made beside the pack,
// because nobody may write there.
var ErrBeside = errors.New("the folder above it has to be writable")

// SetMeta gives the pack in a folder the meta.json that change makes of it. The order,
// after which a kill at any point leaves the old file or the new one, and nothing else
// in the folder:
//
//  1. the folder is locked, and the pack is read and handed to change
//  2. the new file is made in a folder beside the pack, whose name begins with a dot and
//     ends in ".partial", written and synced
//  3. it is renamed into the pack, and the folder of the pack is synced
//  4. the folder beside is removed
//
// After an error nothing is left beside the pack, and the old file stands, unless the
// error is that of the last sync: then the new file stands, and may be lost with the
// power. A pack that another process is changing is ErrBusy, where the file system knows
// locks, and one in a folder that cannot be written is ErrBeside. Nothing is written if
// change returns the bytes that are there.
func SetMeta(dir string, change func(*Pack) ([]byte, error)) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // what stands beside a link may be another file system
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
	if old, ok := p.entry(MetaFile); ok && old.Text != nil && string(old.Text) == string(text) {
		return nil
	}
	beside, err := stage(dir, text)
	if err != nil {
		return err
	}
	return errors.Join(place(beside, dir), os.RemoveAll(beside))
}

// stage is step 2: the folder beside the pack with the new file in it.
func stage(dir string, text []byte) (beside string, err error) {
	beside, err = os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*.partial")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // its path is a name by chance
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

// likeOld gives a file the permissions of the one that it replaces.
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
