package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fiador/fiador/kernel/result"
)

// writeFile puts b into the file as a whole: whoever looks sees the old bytes
// or the new ones. A device or a pipe is written to as it is. No link beneath the folders
// within is followed.
func writeFile(name string, b []byte, within []string) error {
	f, err := createFile(name, within)
	if err != nil {
		return notWritten(name, err)
	}
	if _, err := f.Write(b); err != nil {
		return notWritten(name, errors.Join(err, f.abort()))
	}
	if err := f.commit(); err != nil {
		return notWritten(name, err)
	}
	return nil
}

// writeNew puts b into a file that is not there yet. A device or a pipe is written to as
// it is. No link beneath the folders within is followed.
func writeNew(name string, b []byte, within []string) error {
	if err := absent(name); err != nil {
		return err
	}
	f, err := createFile(name, within)
	if err != nil {
		return notWritten(name, err)
	}
	if _, err := f.Write(b); err != nil {
		return notWritten(name, errors.Join(err, f.abort()))
	}
	if f.dir != nil {
		err = f.commitNew()
	} else {
		err = f.commit()
	}
	if errors.Is(err, fs.ErrExist) {
		return isThere(name)
	}
	if err != nil {
		return notWritten(name, err)
	}
	return nil
}

// absent refuses a file that is there: it may be the only copy of a key or a receipt.
func absent(name string) error {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return isThere(name)
	}
	return nil
}

func isThere(name string) error {
	return usage("name a new file", "file %q is there already", displayPath(name))
}

func notWritten(name string, err error) error {
	var planted *plantedError
	if errors.As(err, &planted) {
		return planted.refusal("file", name)
	}
	why := reason(err)
	if errors.Is(err, fs.ErrNotExist) {
		why = "there is no folder " + strconv.Quote(displayFolder(filepath.Dir(name)))
		if _, err := os.Stat(filepath.Dir(name)); err == nil {
			why = "its path leads nowhere" // through "missing/..", or a link
		}
	}
	return &result.RunError{
		Code:    result.CodeInternal,
		Message: "file " + strconv.Quote(clean(filepath.Base(name))) + " could not be written: " + why,
		Hint:    "name a file in a folder that exists, may be written and has room",
		Cause:   err,
	}
}

// newFile is a file that takes its place when it is complete.
type newFile struct {
	*os.File
	name       string   // as it was given
	dir        *os.Root // the folder where it belongs; nil: a device or a pipe, written as it is
	base, temp string   // its name there, and the one that it has until then
	within     []string // beneath these no link leads to it
}

// createFile begins a file that is to stand at name, or replace what stands there. No
// link beneath the folders within is followed, whenever it is made: the file's folder
// stays open.
func createFile(name string, within []string) (*newFile, error) {
	at, err := place(name, within)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o666)
	if _, err = os.Lstat(name); err != nil {
		dir, base := filepath.Split(name)
		_, err = filepath.EvalSymlinks(cmp.Or(dir, ".")) // place takes what is missing for a folder
		if err == nil && (base == "" || base == "." || base == "..") {
			err = &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
		}
	} else {
		var info fs.FileInfo
		if info, err = os.Stat(name); err == nil {
			if !info.Mode().IsRegular() {
				return openSpecial(name)
			}
			mode = info.Mode().Perm()
		}
	}
	if err != nil {
		return nil, err
	}
	root, err := openGuarded(filepath.Dir(at), within)
	if err != nil {
		return nil, err
	}
	f := &newFile{name: name, dir: root, base: filepath.Base(at), within: within}
	if err := f.createBeside(mode); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// openSpecial opens a device or a pipe. A pipe that nobody reads is an error here, and
// not a wait without end.
func openSpecial(name string) (*newFile, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: syscall.EAGAIN}, f.Close())
	}
	return &newFile{File: f, name: name}, nil
}

// commit puts the file into its place.
func (f *newFile) commit() error {
	if f.dir == nil {
		return f.Close()
	}
	err := f.complete()
	if err == nil {
		err = f.dir.Rename(f.temp, f.base)
	}
	return f.end(err, err != nil)
}

// complete syncs and closes the file, and looks for a link that came meanwhile.
func (f *newFile) complete() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		_, err = place(f.name, f.within)
	}
	return err
}

// end closes the file's folder, and removes what did not become the file.
func (f *newFile) end(err error, remove bool) error {
	if remove {
		err = errors.Join(err, f.dir.Remove(f.temp))
	}
	return errors.Join(err, f.dir.Close())
}

// abort leaves what stands at the file's place as it was.
func (f *newFile) abort() error {
	err := f.Close()
	if f.dir == nil {
		return err
	}
	return f.end(err, true)
}

// createBeside creates the file in its folder, with the permissions that it will have
// (a new one: what the umask leaves).
func (f *newFile) createBeside(mode fs.FileMode) (err error) {
	for i := range 10000 {
		f.temp = ".fiador-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)
		f.File, err = f.dir.OpenFile(f.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fs.ErrExist
}
