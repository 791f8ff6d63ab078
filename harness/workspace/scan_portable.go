package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/kernel/work"
)

// portable reads one folder with the calls that every system has. It uses no index: no system
// but Linux shows a time that no program can set. Windows has no executable bit.
type portable struct {
	Options
	ctx   context.Context
	root  *os.Root
	state State
}

// scanPortable is scan for other systems than those of scan_linux.go.
func scanPortable(ctx context.Context, dir string, o Options) (State, error) {
	if runtime.GOOS == "windows" {
		return State{}, ErrUnsupported
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return State{}, whyNot("", err)
	}
	defer root.Close()
	s := &portable{Options: o, ctx: ctx, root: root}
	e, err := s.folder(".")
	s.state.Hash = e.Hash
	return s.state, err
}

// whyNot names the path of an error of the file system.
func whyNot(at string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &Error{at, pe.Err.Error()}
	}
	return err
}

func (s *portable) folder(at string) (receipt.Entry, error) {
	none := receipt.Entry{}
	if err := context.Cause(s.ctx); err != nil {
		return none, err
	}
	if len(at) > change.MaxPath {
		return none, &Error{at[:80] + "…", "the path is longer than a system call accepts"}
	}
	names, err := fs.ReadDir(s.root.FS(), at)
	if err != nil {
		return none, whyNot(at, err)
	}
	var list []receipt.Entry
	var folders []string
	for _, n := range names {
		name, here := n.Name(), path.Join(at, n.Name())
		switch {
		case name == ".git" || at == "." && name == work.Trace || s.Scratch != nil && s.Scratch(here, n.IsDir()):
			continue
		case !utf8.ValidString(name):
			return none, &Error{here, "the name is not UTF-8"}
		case n.IsDir():
			folders = append(folders, name)
			continue
		}
		e, err := s.leaf(here, n.Type())
		if err != nil {
			return none, err
		}
		if s.state.Files++; s.state.Files > MaxFiles {
			return none, &Error{Msg: fmt.Sprintf("the folder has more than %d files", MaxFiles)}
		}
		e.Name = name
		list = append(list, e)
	}
	slices.Sort(folders)
	for _, name := range folders {
		e, err := s.folder(path.Join(at, name))
		if err != nil {
			return none, err
		}
		if e.Mode != "" {
			list = append(list, e)
		}
	}
	if len(list) == 0 && at != "." {
		return none, nil
	}
	text := receipt.Node(list)
	e := receipt.Entry{Mode: receipt.Folder, Name: path.Base(at), Hash: receipt.Sum(text)}
	if s.Nodes != nil {
		s.Nodes[e.Hash] = text
	}
	return e, s.put(e.Hash, text)
}

// leaf returns the entry of a file or a link.
func (s *portable) leaf(at string, mode fs.FileMode) (receipt.Entry, error) {
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := s.root.Readlink(filepath.FromSlash(at))
		if err != nil {
			return receipt.Entry{}, whyNot(at, err)
		}
		e := receipt.Entry{Mode: receipt.Link, Hash: receipt.Sum([]byte(target))}
		return e, s.put(e.Hash, []byte(target))
	case !mode.IsRegular():
		return receipt.Entry{}, &Error{at, "it is neither a file nor a folder nor a link"}
	}
	for range tries {
		e, same, err := s.file(at)
		if err != nil || same {
			return e, err
		}
	}
	return receipt.Entry{}, &Error{at, "the file changes while it is read"}
}

// file reads a file. same says whether it was one file all the time, which did not change.
func (s *portable) file(at string) (e receipt.Entry, same bool, err error) {
	f, err := OpenFile(s.root, at)
	if err != nil {
		return e, false, whyNot(at, err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return e, false, whyNot(at, err)
	}
	if s.state.Bytes += before.Size(); s.state.Bytes > MaxBytes {
		return e, false, &Error{Msg: fmt.Sprintf("the files of the folder have more than %d bytes", int64(MaxBytes))}
	}
	var n int64
	if e.Hash, n, err = receipt.Copy(io.Discard, f); err != nil {
		return e, false, whyNot(at, err)
	}
	e.Mode = receipt.File
	if before.Mode()&0o100 != 0 {
		e.Mode = receipt.Executable
	}
	after, err := f.Stat()
	here, hereErr := s.root.Lstat(filepath.FromSlash(at))
	same = err == nil && hereErr == nil && os.SameFile(before, here) && before.Size() == n && after.Size() == n && before.ModTime().Equal(after.ModTime()) && before.Mode() == here.Mode()
	if !same {
		s.state.Bytes -= before.Size()
		return e, false, nil
	}
	if s.Sink == nil || s.Sink.Has(e.Hash) {
		return e, true, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return e, false, whyNot(at, err)
	}
	err = s.Sink.Put(e.Hash, f)
	return e, err == nil, err
}
