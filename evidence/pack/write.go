package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Writer writes one pack.
type Writer struct {
	dir  string
	temp string
	root *os.Root
}

// ErrNotEmpty says that the place of a pack is not an empty folder.
var ErrNotEmpty = errors.New("not an empty folder")

// Create begins a pack at dir, which is missing or an empty folder. Before Commit dir
// stays as it is. The files are in a folder beside it, whose name begins with a dot and
// ends in ".partial".
func Create(dir string) (*Writer, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := vacant(dir); err != nil {
		return nil, err
	}
	w := &Writer{dir: dir}
	if w.temp, err = os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*.partial"); err != nil {
		return nil, err
	}
	// The folder inside has the permissions of the user's mask.
	if err = os.Mkdir(w.inner(), 0o777); err == nil {
		err = w.takeAfter()
	}
	if err == nil {
		w.root, err = os.OpenRoot(w.inner())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.temp))
	}
	return w, nil
}

// takeAfter gives the folder that becomes the pack the permissions and the group of an
// empty folder at its place. It also checks that this empty folder can be replaced, by
// replacing it with another empty one: a mount point cannot be replaced.
func (w *Writer) takeAfter() error {
	info, err := os.Lstat(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := likeFolder(w.inner(), info); err != nil {
		return err
	}
	empty := filepath.Join(w.temp, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		return err
	}
	if err := likeFolder(empty, info); err != nil {
		return err
	}
	return replaceFolder(empty, w.dir)
}

// likeFolder gives a folder the owner, group and permissions of another one.
func likeFolder(name string, as fs.FileInfo) error {
	if err := sameGroup(name, as); err != nil {
		return err
	}
	return os.Chmod(name, as.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky))
}

// inner returns the folder that becomes the pack.
func (w *Writer) inner() string { return filepath.Join(w.temp, "pack") }

// vacant says whether a pack can be put at a path.
func vacant(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "create", Path: dir, Err: ErrNotEmpty}
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	switch names, err := f.Readdirnames(1); {
	case err != nil && err != io.EOF:
		return err
	case len(names) > 0:
		return &fs.PathError{Op: "create", Path: dir, Err: ErrNotEmpty}
	}
	return nil
}

// Stage writes the files beside the place of the pack. It syncs each file and the folder
// that contains them. After an error nothing is left.
func (w *Writer) Stage(files map[string][]byte) error {
	if err := w.stage(files); err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

func (w *Writer) stage(files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if !IsName(name) {
			return fmt.Errorf("%q is no file of a pack", name)
		}
	}
	for _, name := range names {
		if err := w.write(name, files[name]); err != nil {
			return err
		}
	}
	return syncFolder(w.inner())
}

// Commit puts the staged files in place: it renames their folder to dir, replaces an
// empty folder there, and syncs the folder above. After a kill at any point dir has the
// complete pack or none. After an error before the last sync nothing is left. After an
// error of the last sync the pack is complete, but perhaps not durable.
func (w *Writer) Commit() error {
	err := vacant(w.dir)
	if err == nil {
		err = replaceFolder(w.inner(), w.dir)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return errors.Join(w.Abort(), syncFolder(filepath.Dir(w.dir)))
}

func (w *Writer) write(name string, text []byte) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Abort discards files that are not committed.
func (w *Writer) Abort() error {
	if w.temp == "" {
		return nil
	}
	temp := w.temp
	w.temp = ""
	return errors.Join(w.root.Close(), os.RemoveAll(temp))
}
