package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/links"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// WriteFile replaces the file by b as a whole: a reader sees the old bytes or the new
// ones. It writes directly to a device or a pipe. It follows no link beneath the folders
// within.
func WriteFile(name string, b []byte, within []string) error {
	return NotWritten(name, put(name, b, within, 0o666, (*NewFile).Replace))
}

// WriteNew writes b to a file that must not exist. It writes directly to a device or a
// pipe. It follows no link beneath the folders within.
func WriteNew(name string, b []byte, within []string) error {
	if err := Absent(name); err != nil {
		return err
	}
	return AddFile(name, b, within, 0o666, IsThere)
}

// AddFile writes b to a new file. taken makes the error for a file that appears meanwhile.
func AddFile(name string, b []byte, within []string, mode fs.FileMode, taken func(name string) error) error {
	err := put(name, b, within, mode, (*NewFile).Add)
	if errors.Is(err, fs.ErrExist) {
		return taken(name)
	}
	return NotWritten(name, err)
}

// put writes b to a file that takes its place by a method of NewFile.
func put(name string, b []byte, within []string, mode fs.FileMode, place func(*NewFile) error) error {
	f, err := CreateFile(name, within, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Abort())
	}
	return place(f)
}

// Absent refuses an existing regular file: it may be the only copy of a key or a receipt.
func Absent(name string) error {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return IsThere(name)
	}
	return nil
}

// IsThere returns the usage error for a file that must not exist.
func IsThere(name string) error {
	return Usage("name a new file", "file %q is there already", screen.Path(name))
}

// NotWritten returns the error for a file that could not be written, and nil for nil.
func NotWritten(name string, err error) error {
	if err == nil {
		return nil
	}
	if planted, ok := errors.AsType[*links.PlantedError](err); ok {
		return LeadsThrough(planted, "file", name)
	}
	why := runerr.Reason(err)
	if errors.Is(err, fs.ErrNotExist) {
		why = "there is no folder " + strconv.Quote(screen.Folder(filepath.Dir(name)))
		if _, err := os.Stat(filepath.Dir(name)); err == nil {
			why = "its path leads nowhere" // because of "missing/..", or a link
		}
	}
	return runerr.New(result.CodeInternal, "file "+strconv.Quote(canon.Clean(filepath.Base(name)))+" could not be written: "+why,
		"name a file in a folder that exists, may be written and has room", runerr.Because(err))
}

// NewFile is a file that appears at its place when it is complete.
type NewFile struct {
	*os.File
	Name string        // the name that the caller gave
	put  *durable.File // nil for a device or a pipe, which is written directly
	dir  *os.Root      // the folder of the file
}

// CreateFile begins a file that add or replace puts at name. A new file gets the
// permissions of mode without those of the umask. CreateFile follows no link beneath the
// folders within. The file's folder stays open, so that a later link has no effect.
func CreateFile(name string, within []string, mode fs.FileMode) (*NewFile, error) {
	at, err := links.Place(name, within)
	if err != nil {
		return nil, err
	}
	if _, err = os.Lstat(name); err != nil {
		dir, base := filepath.Split(name)
		_, err = filepath.EvalSymlinks(cmp.Or(dir, ".")) // Place takes an absent entry for a folder
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
	root, err := links.OpenGuarded(filepath.Dir(at), within)
	if err != nil {
		return nil, err
	}
	f, err := durable.Create(root, filepath.Base(at), mode)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f.Check = func() error { // refuse a link that was made meanwhile
		_, err := links.Place(name, within)
		return err
	}
	return &NewFile{File: f.File, Name: name, put: f, dir: root}, nil
}

// openSpecial opens a device or a pipe. It refuses a pipe without a reader, because the
// open would wait forever.
func openSpecial(name string) (*NewFile, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: syscall.EAGAIN}, f.Close())
	}
	return &NewFile{File: f, Name: name}, nil
}

// Replace puts the file in its place, and replaces an existing file.
func (f *NewFile) Replace() error { return f.end((*durable.File).Replace) }

// Add puts the file in its place. The error wraps fs.ErrExist if the place is taken.
func (f *NewFile) Add() error { return f.end((*durable.File).Add) }

// Abort discards the new file. An existing file stays unchanged.
func (f *NewFile) Abort() error { return f.end((*durable.File).Abort) }

// end closes a device or a pipe. For a file it calls the method way of durable.File.
func (f *NewFile) end(way func(*durable.File) error) error {
	if f.put == nil {
		return f.Close()
	}
	return errors.Join(way(f.put), f.dir.Close())
}
