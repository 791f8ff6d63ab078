// Package settings puts entries into JSON files of settings that belong to other programs,
// takes them out again, and keeps every other byte. It knows no program: callers name the
// place of an entry, its value, and how Fiador's own entries are recognised.
//
// # Text
//
// A value is put in at one place of the text, in the indentation and with the line breaks
// of its neighbours. The new text is read back: its value has to be the old value and the
// entry. A byte order mark stays. A file that is missing, empty or only white space is an
// empty object.
//
// Apply is repeatable: the second time changes nothing. Remove takes the entry out, and the
// objects and arrays around it that hold nothing else. What Remove needs to give the old
// bytes is in the backup, the file's name and ".fiador-backup":
//
//   - An object or array that is empty in the backup stays, and gets its old text. So does
//     the old command of a [Wrap].
//   - If the document is then that of the backup, the file gets the bytes of the backup, and
//     the backup is removed. If it is another one, then somebody changed the file, and the
//     backup stays.
//   - If there is no backup and the document is then an empty object, as Apply makes it of
//     nothing, then the file is removed. So are the folders above it that are empty, up to
//     the root.
//
// # Refused
//
// A file is refused, with a [Refused], if it is not strict JSON (comments, a name twice,
// a comma too many: see package canon), not an object, over 1 MiB, not a regular file, of
// another owner, with two hard links, or reached through a symbolic link beneath the root.
//
// # File
//
// Processes wait for each other by a lock of the file's folder, which leaves nothing
// behind. Before the first change the backup is written: the file as it is without the
// edits. It is never overwritten, and only its owner can read it. Package
// durable then puts the new file in place, with the old mode and group. A kill leaves the
// old file or the new one. A program that changes the file without the lock, in between,
// causes an error, unless it does so in the last moment.
package settings

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/kernel/canon"
)

const (
	maxBytes     = 1 << 20
	backupSuffix = ".fiador-backup"
	mark         = "\ufeff" // byte order mark
)

// File is a file of settings at a name beneath a folder.
type File struct {
	Root   *os.Root
	Name   string
	DryRun bool // nothing is written
}

// Change is what happened to a file, or what would happen. Nil stands for no file.
type Change struct{ Before, After []byte }

// Refused says why a file is not changed. The user can put the entry in by hand: [Snippet]
// has it.
type Refused struct {
	File    string
	Pointer string         // JSON Pointer of the place, cut; empty: the whole document
	At      canon.Position // zero: no place
	Msg     string
}

// Error returns the reason, the place and the remedy.
func (e *Refused) Error() string {
	where := ""
	if e.At.Line > 0 {
		where = fmt.Sprintf("line %d, column %d: ", e.At.Line, e.At.Column)
		if e.Pointer != "" {
			where = fmt.Sprintf("line %d, column %d, %s: ", e.At.Line, e.At.Column, e.Pointer)
		}
	}
	return canon.Quote(e.File) + " is not changed: " + where + e.Msg + "; mend the file and try again, or put the entry in by hand"
}

// errMeanwhile says that a file is not what it was when the new text was made of it.
var errMeanwhile = errors.New("another program changed the file meanwhile; try again")

// Apply puts edits in.
func (f File) Apply(ctx context.Context, edits ...Edit) (Change, error) {
	return f.change(ctx, true, edits)
}

// Remove takes edits out.
func (f File) Remove(ctx context.Context, edits ...Edit) (Change, error) {
	return f.change(ctx, false, edits)
}

// Value returns the decoded value of the file. That of a missing or empty file is an empty
// object.
func (f File) Value() (any, error) {
	text, _, err := f.read(f.Name)
	if err != nil {
		return nil, err
	}
	_, d := open(text)
	return d.value, f.refused(d.err)
}

// Snippet returns the text of a new file with the edits.
func Snippet(edits ...Edit) (string, error) {
	text, err := plan(nil, edits)
	return string(text), err
}

// open reads a document behind its byte order mark.
func open(text []byte) (bom string, d document) {
	rest, marked := strings.CutPrefix(string(text), mark)
	if marked {
		bom = mark
	}
	if strings.Trim(rest, space) == "" {
		rest = "{}" + cmp.Or(rest, "\n")
	}
	d = parse(rest)
	if _, ok := d.value.(map[string]any); !ok && d.err == nil {
		d.err = d.refuse("an object must stand here")
	}
	return bom, d
}

// plan returns the text of a file after Apply.
func plan(now []byte, edits []Edit) ([]byte, error) {
	bom, d := open(now)
	after := d
	for _, e := range edits {
		if after.err == nil {
			after = e.apply(after)
		}
	}
	if after.err != nil || after.text == d.text {
		return now, after.err
	}
	return []byte(bom + after.text), nil
}

// unplan returns the text of a file after Remove.
func unplan(now, backup []byte, edits []Edit) ([]byte, error) {
	bom, d := open(now)
	if _, old := open(backup); backup != nil && old.err == nil {
		d.old = &old
	}
	var kept []Edit // members that Remove leaves
	after := d
	for _, e := range slices.Backward(edits) {
		if one, ok := e.(Entry); ok && one.Ours == nil {
			kept = append([]Edit{e}, kept...)
		} else if after.err == nil {
			after = e.remove(after)
		}
	}
	if after.err != nil || after.text == d.text {
		return now, after.err
	}
	oldBOM, old := open(backup)
	for _, e := range kept {
		old = e.apply(old)
	}
	if old.err == nil && oldBOM+old.text == bom+after.text {
		return backup, nil
	}
	return []byte(bom + after.text), nil
}

func (f File) refused(err error) error {
	if e, ok := errors.AsType[*Refused](err); ok {
		e.File = f.Name
	}
	return err
}

func (f File) change(ctx context.Context, apply bool, edits []Edit) (Change, error) {
	c, _, _, err := f.look(apply, edits)
	if err != nil || f.DryRun || apply && same(c.Before, c.After) {
		return c, err
	}
	folder, err := f.lock(ctx, apply)
	if errors.Is(err, fs.ErrNotExist) && !apply {
		return Change{}, nil // no folder, no file
	}
	if err != nil {
		return c, err
	}
	defer folder.Close()
	c, info, backup, err := f.look(apply, edits)
	switch {
	case err != nil || same(c.Before, c.After):
	case c.After == nil:
		err = f.removeFile(c.Before)
	case apply:
		err = f.save(c.Before, edits)
		fallthrough
	default:
		if err == nil {
			err = f.put(f.Name, c, info, 0o644)
		}
	}
	if err == nil && !apply && backup != nil && same(backup, c.After) {
		err = durable.Remove(f.Root, f.Name+backupSuffix)
	}
	return c, err
}

// look returns the change that has to be made, what it is made of, and the backup.
func (f File) look(apply bool, edits []Edit) (c Change, info fs.FileInfo, backup []byte, err error) {
	if c.Before, info, err = f.read(f.Name); err != nil {
		return c, nil, nil, err
	}
	backup, _, _ = f.read(f.Name + backupSuffix) // one that cannot be read restores nothing
	if apply {
		c.After, err = plan(c.Before, edits)
	} else {
		c.After, err = unplan(c.Before, backup, edits)
	}
	return c, info, backup, f.refused(err)
}

// save writes the backup if there is none: the file without the edits. If the file had an
// older form of them and nothing else, it has no backup.
func (f File) save(before []byte, edits []Edit) error {
	text, err := unplan(before, nil, edits)
	if _, free := f.Root.Lstat(f.Name + backupSuffix); err != nil || text == nil || !errors.Is(free, fs.ErrNotExist) {
		return err
	}
	if err := f.unchanged(f.Name, before); err != nil {
		return err
	}
	return f.put(f.Name+backupSuffix, Change{After: text}, nil, 0o600)
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// attempts bounds how often a file is looked up again because another process puts a new
// one in its place, or removes it, at the same moment.
const attempts = 100

// read reads a file that is refused for nothing. Nil is a missing file.
func (f File) read(name string) (text []byte, info fs.FileInfo, err error) {
	for range attempts {
		text, info, err = f.readOnce(name)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errMeanwhile) {
			break
		}
	}
	return text, info, err
}

// readOnce is read. Its error is fs.ErrNotExist or errMeanwhile if the file was removed or
// replaced after readOnce had looked at it.
func (f File) readOnce(name string) ([]byte, fs.FileInfo, error) {
	refuse := func(msg string) ([]byte, fs.FileInfo, error) {
		return nil, nil, &Refused{File: name, Msg: msg}
	}
	segments := strings.Split(filepath.ToSlash(filepath.Clean(name)), "/")
	var info fs.FileInfo
	for i := range segments {
		at := filepath.Join(segments[:i+1]...)
		var err error
		if info, err = f.Root.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return refuse(canon.Quote(at) + " is a symbolic link")
		}
	}
	if !info.Mode().IsRegular() {
		return refuse("it is not a regular file")
	}
	if why := foreign(info); why != "" {
		return refuse(why)
	}
	file, err := f.Root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, nil, errors.Join(err, errMeanwhile)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if len(text) > maxBytes {
		return refuse("it has more than " + strconv.Itoa(maxBytes) + " bytes")
	}
	return text, info, err
}

// lock locks the folder of the file until the folder is closed. It makes the folder if it
// may, and takes no lock of a folder that is gone.
func (f File) lock(ctx context.Context, create bool) (*os.File, error) {
	dir := filepath.Dir(f.Name)
	for tried := 0; ; tried++ {
		var folder *os.File
		var err error
		if create {
			err = f.Root.MkdirAll(dir, 0o755)
		}
		if err == nil {
			folder, err = f.Root.Open(dir)
		}
		// MkdirAll fails with ErrExist if the folder is removed right after MkdirAll found it.
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
		if gone && create && tried < attempts {
			continue // another process removed the folder, which was empty
		} else if err != nil {
			return nil, err
		}
		held, err := folder.Stat()
		if err == nil {
			err = lock(ctx, folder)
		}
		if err != nil {
			return nil, errors.Join(err, folder.Close())
		}
		if there, err := f.Root.Stat(dir); err == nil && os.SameFile(held, there) {
			return folder, nil
		}
		_ = folder.Close()
	}
}

// unchanged refuses to go on if the file is not what it was.
func (f File) unchanged(name string, before []byte) error {
	if now, _, err := f.read(name); err != nil || !same(now, before) {
		return errors.Join(err, errMeanwhile)
	}
	return nil
}

// put puts a text in place of another one, with the mode and the group of the old file.
// There is no moment at which the file has two names: it would be refused after a kill.
func (f File) put(name string, c Change, info fs.FileInfo, mode fs.FileMode) error {
	file, err := durable.Create(f.Root, name, mode)
	if err != nil {
		return err
	}
	if info != nil {
		err = errors.Join(keepGroup(file.File, info), file.Chmod(info.Mode().Perm()))
	}
	if _, failed := file.Write(c.After); err != nil || failed != nil {
		return errors.Join(err, failed, file.Abort())
	}
	file.Check = func() error { return f.unchanged(name, c.Before) }
	return file.Replace()
}

// removeFile removes the file, and the folders above it that are then empty.
func (f File) removeFile(before []byte) error {
	err := f.unchanged(f.Name, before)
	if err == nil {
		err = durable.Remove(f.Root, f.Name)
	}
	for dir := filepath.Dir(f.Name); err == nil && dir != "."; dir = filepath.Dir(dir) {
		if durable.Remove(f.Root, dir) != nil {
			break // it holds something else
		}
	}
	return err
}
