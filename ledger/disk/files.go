package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// files are the calls that read and change a ledger's folder. Names are slash-separated
// and relative to the folder. Tests add faults to these calls.
type files interface {
	// Open opens a regular file only: a link as the last element of the name is an
	// error. No name leads out of the folder.
	Open(name string, flag int) (file, error)
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string) error
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(name string) error
	ReadDir(name string) ([]string, error)
	Close() error
}

// file is an open file.
type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Chmod(mode fs.FileMode) error
	Sync() error
	Datasync() error
	Lock(ctx context.Context) error
	Unlock() error
	Close() error
}

// folder implements files with the operating system, beneath one os.Root.
type folder struct {
	root *os.Root
}

// openFolder opens a folder. It refuses a link, and a folder that is replaced meanwhile.
func openFolder(dir string) (folder, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return folder{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return folder{}, errors.New("it is a link; name the folder itself")
	}
	if !info.IsDir() {
		return folder{}, ErrNotFolder
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return folder{}, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return folder{}, errors.Join(err, errors.New("it was replaced while it was opened"), root.Close())
	}
	return folder{root}, nil
}

func (f folder) Open(name string, flag int) (file, error) {
	// Another process may replace the file between the two calls.
	for range openTries {
		opened, err := f.open(name, flag)
		if !errors.Is(err, errReplacedMeanwhile) {
			return opened, err
		}
	}
	return nil, fmt.Errorf("%s: %w", name, errReplacedMeanwhile)
}

const openTries = 100

var errReplacedMeanwhile = errors.New("replaced while it was opened")

func (f folder) open(name string, flag int) (file, error) {
	info, err := f.root.Lstat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link", name)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case err != nil && flag&os.O_CREATE == 0:
		return nil, err
	}
	opened, openErr := f.root.OpenFile(name, flag, 0o644)
	if openErr != nil {
		return nil, openErr
	}
	is, statErr := opened.Stat()
	if statErr != nil {
		return nil, errors.Join(statErr, opened.Close())
	}
	if !is.Mode().IsRegular() || err == nil && !os.SameFile(info, is) {
		return nil, errors.Join(errReplacedMeanwhile, opened.Close())
	}
	return diskFile{opened}, nil
}

func (f folder) Lstat(name string) (fs.FileInfo, error) { return f.root.Lstat(name) }
func (f folder) Mkdir(name string) error                { return f.root.Mkdir(name, 0o755) }
func (f folder) Rename(from, to string) error           { return f.root.Rename(from, to) }
func (f folder) Remove(name string) error               { return f.root.Remove(name) }
func (f folder) Close() error                           { return f.root.Close() }

func (f folder) SyncDir(name string) error {
	d, err := f.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f folder) ReadDir(name string) ([]string, error) {
	d, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// diskFile adds the calls that os.File does not have.
type diskFile struct {
	*os.File
}

// errTooLong says that a file is larger than its limit.
var errTooLong = errors.New("too many bytes")

// readFile reads a whole file of at most most bytes.
func readFile(fsys files, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w: more than %d", name, errTooLong, most)
	}
	return b, errors.Join(err, f.Close())
}

// replaceFile replaces a file at once. With sync the content is on the disk before the
// file gets its name.
func replaceFile(fsys files, name string, content []byte, sync bool) error {
	next := name + ".next"
	f, err := fsys.Open(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(next))
	}
	return fsys.Rename(next, name)
}

// placeTile puts a full tile in place, which is then final.
func placeTile(fsys files, path string, content []byte) error {
	if err := makeFolders(fsys, path); err != nil {
		return err
	}
	return replaceFile(fsys, path, content, true)
}

// makeFolders makes the folders above a file.
func makeFolders(fsys files, name string) error {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if err := fsys.Mkdir(name[:i]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// checkFolder says what is wrong with a folder of the ledger, if it exists.
func checkFolder(fsys files, name string) error {
	info, err := fsys.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", name)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", name)
	}
	return nil
}

// inTurn calls the steps one after another, and returns the error of the first that fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func isExist(err error) bool    { return errors.Is(err, fs.ErrExist) }
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
