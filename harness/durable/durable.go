// Package durable puts a file in its place: a new file, or one that replaces another. It
// owns the order of the system calls by which a kill, an error or a loss of power leaves
// the old file or the new one, and never a part of one.
//
// The order:
//
//  1. [Create] creates a temporary file in the folder of the place. Its name begins with
//     ".fiador-", and nobody else has it.
//  2. The caller writes the content.
//  3. The file is synced and closed, and the caller's Check is asked.
//  4. [File.Replace] renames the file over what stands at the place. [File.Add] links the
//     file to the place, which has to be free, and removes the temporary name. Where the
//     file system has no hard links, Add looks whether the place is free, and renames.
//  5. The folder is synced, where folders can be synced.
//
// A kill before step 4 leaves what stood at the place, and one after it leaves the new
// file. A kill can leave the temporary file behind, whose name [Orphan] knows. An error
// before step 5 leaves what stood at the place, and removes the temporary file. An error in
// step 5 leaves the new file, which may be lost with the power.
//
// [Remove] removes a file that was put in place, and syncs its folder.
//
// Some places have an order of their own, which their packages state: the ledger (package
// ledger/disk), a pack, which is a folder (evidence/pack), a folder that is changed as a
// whole (harness/tree), and the log of safe-run, which chooses its name (harness/saferun).
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// File is a file that takes its place when it is complete. Replace, Add and Abort end it.
type File struct {
	*os.File

	// Check is asked when the file is complete, and before it takes its place. An error
	// of Check keeps it from its place. Nil allows it.
	Check func() error

	root       *os.Root
	name, temp string
}

const tempPrefix = ".fiador-"

// Create begins a file that is to have a name beneath a folder, with the permissions that
// the umask leaves of mode. The folder has to stay open until the file has ended.
func Create(root *os.Root, name string, mode fs.FileMode) (*File, error) {
	for i := range 10000 {
		temp := filepath.Join(filepath.Dir(name), tempPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil {
			return &File{File: f, root: root, name: name, temp: temp}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fs.ErrExist
}

// Orphan says whether a name is that of a temporary file whose process has ended.
func Orphan(name string) bool {
	rest, ours := strings.CutPrefix(name, tempPrefix)
	digits, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(digits)
	if !ours || err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Write puts text into a new file. The error wraps fs.ErrExist if something stands there.
func Write(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	return put(root, name, text, mode, (*File).Add)
}

// Replace puts a file with this text in its place, and replaces what stands there.
func Replace(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	return put(root, name, text, mode, (*File).Replace)
}

func put(root *os.Root, name string, text []byte, mode fs.FileMode, end func(*File) error) error {
	f, err := Create(root, name, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Abort())
	}
	return end(f)
}

// Replace puts the file in its place, and replaces what stands there.
func (f *File) Replace() error {
	err := f.complete()
	if err == nil {
		err = f.rename()
	}
	return f.end(err, err != nil)
}

// Add puts the file in its place. The error wraps fs.ErrExist if something stands there.
func (f *File) Add() error {
	err := f.complete()
	if err == nil {
		err = f.atPlace(f.root.Link(f.temp, f.name))
		if err != nil && !errors.Is(err, fs.ErrExist) && f.free(&err) {
			err = f.rename()
			return f.end(err, err != nil)
		}
	}
	return f.end(err, true)
}

func (f *File) rename() error { return f.atPlace(f.root.Rename(f.temp, f.name)) }

// atPlace names the place in the error of a call that has two names.
func (f *File) atPlace(err error) error {
	if two, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: two.Op, Path: f.name, Err: two.Err}
	}
	return err
}

// free says whether nothing stands at the place, and otherwise sets err to why not.
func (f *File) free(err *error) bool {
	_, *err = f.root.Lstat(f.name)
	if *err == nil {
		*err = &fs.PathError{Op: "link", Path: f.name, Err: syscall.EEXIST}
	}
	return errors.Is(*err, fs.ErrNotExist)
}

// end removes the temporary name, if it is there, and syncs the folder of a file that has
// its place.
func (f *File) end(err error, temporary bool) error {
	if temporary {
		err = errors.Join(err, f.root.Remove(f.temp))
	}
	if err != nil {
		return err
	}
	return syncFolder(f.root, f.name)
}

// Remove removes a file or an empty folder, and syncs the folder that it was in.
func Remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil {
		return err
	}
	return syncFolder(root, name)
}

// Abort gives the file up, and leaves what stands at its place.
func (f *File) Abort() error { return errors.Join(f.Close(), f.root.Remove(f.temp)) }

// complete is step 3.
func (f *File) complete() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil && f.Check != nil {
		err = f.Check()
	}
	return err
}

// syncFolder is step 5.
func syncFolder(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return syncOne(root, filepath.Dir(name))
}

// syncOne syncs a file, or a folder where folders can be synced.
func syncOne(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that syncs no folders
	}
	return errors.Join(err, f.Close())
}

// together is how many files are synced at once. A file system writes several together in about
// the time of one.
const together = 16

// SyncAll syncs files and folders beneath a folder, many at once.
func SyncAll(root *os.Root, names []string) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for first := range min(together, len(names)) {
		all.Go(func() {
			for i := first; i < len(names); i += together {
				errs[i] = syncOne(root, names[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
