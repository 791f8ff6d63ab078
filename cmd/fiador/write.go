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
	err := replaceFile(name, b)
	if err == nil {
		return nil
	}
	return &result.RunError{
		Code:    result.CodeInternal,
		Message: "file " + strconv.Quote(clean(filepath.Base(name))) + " could not be written: " + reason(err),
		Hint:    "name a file in a folder that exists, may be written and has room",
		Cause:   err,
	}
}

func replaceFile(name string, b []byte) (err error) {
	mode := fs.FileMode(0o666)
	if _, err := os.Lstat(name); err == nil {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return writeThrough(name, b)
		}
		mode = info.Mode().Perm()
	}
	tmp, err := createBeside(name, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if _, err := tmp.Write(b); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
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

func writeThrough(name string, b []byte) error {
	// A pipe that nobody reads is an error here, and not a wait without end.
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
