package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fiador/fiador/kernel/result"
)

// writeFile puts b into the file as a whole: whoever looks sees the old bytes
// or the new ones. A device or a pipe is written to as it is.
func writeFile(name string, b []byte) error {
	f, err := createFile(name)
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
// it is.
func writeNew(name string, b []byte) error {
	if err := absent(name); err != nil {
		return err
	}
	f, err := createFile(name)
	if err != nil {
		return notWritten(name, err)
	}
	if _, err := f.Write(b); err != nil {
		return notWritten(name, errors.Join(err, f.abort()))
	}
	if f.inTurn {
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
	name   string // where it belongs
	inTurn bool   // written beside that place; a device or a pipe is not
}

// createFile begins a file that is to stand at name, or replace what stands there.
func createFile(name string) (*newFile, error) {
	mode := fs.FileMode(0o666)
	if _, err := os.Lstat(name); err == nil {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			// A pipe that nobody reads is an error here, and not a wait without end.
			f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return &newFile{File: f, name: name}, err
		}
		mode = info.Mode().Perm()
	}
	f, err := createBeside(name, mode)
	return &newFile{f, name, true}, err
}

// commit puts the file into its place.
func (f *newFile) commit() error {
	if !f.inTurn {
		return f.Close()
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), f.name); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// abort leaves what stands at the file's place as it was.
func (f *newFile) abort() error {
	err := f.Close()
	if f.inTurn {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// createBeside creates a new file in the folder of name, with the permissions
// that the file will have (a new one: what the umask leaves).
func createBeside(name string, mode fs.FileMode) (*os.File, error) {
	for i := range 10000 {
		tmp := filepath.Join(filepath.Dir(name), ".fiador-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fs.ErrExist
}
