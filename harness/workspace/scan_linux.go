//go:build linux && (amd64 || arm64)

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/work"
)

// scanner reads one folder.
type scanner struct {
	Options
	ctx  context.Context
	root int
	free chan struct{} // takes one for each goroutine besides the first; nil: there is no other

	files, bytes atomic.Int64
	nodes        sync.Mutex // of Nodes
	buffers      sync.Pool  // of *[small + 1]byte
}

// small is the size of a file that is read at once.
const small = 32 << 10

// most is how many goroutines read a folder at once.
const most = 4

// scan reads a folder with several goroutines, unless a sink takes the objects. The error is that
// of the first path in order.
func scan(ctx context.Context, dir string, o Options) (State, error) {
	here, err := tree.Beneath(unix.AT_FDCWD, ".", unix.O_PATH)
	if err == unix.ENOSYS { // a kernel without openat2
		return scanPortable(ctx, dir, o)
	}
	if err == nil {
		_ = unix.Close(here)
	}
	free := make(chan struct{}, min(most, runtime.GOMAXPROCS(0))-1)
	if o.Sink != nil {
		free = nil
	}
	state, err := scanWith(ctx, dir, o, free)
	if of, ok := errors.AsType[*Error](err); ok && of.Path == "" && free != nil {
		// A limit is exceeded. Whether it is the first error depends on which goroutine was faster.
		return scanWith(ctx, dir, o, nil)
	}
	return state, err
}

func scanWith(ctx context.Context, dir string, o Options, free chan struct{}) (State, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return State{}, failed("", err)
	}
	defer unix.Close(root)
	s := &scanner{Options: o, ctx: ctx, root: root, free: free}
	e, err := s.folder(".")
	return State{e.Hash, int(s.files.Load()), s.bytes.Load()}, err
}

// child is an entry of a folder as lstat shows it.
type child struct {
	name string
	stat unix.Stat_t
}

// folder returns the entry of a folder. The folder is closed before its subfolders are opened,
// so that a deep tree needs few descriptors.
func (s *scanner) folder(at string) (receipt.Entry, error) {
	none := receipt.Entry{}
	if err := context.Cause(s.ctx); err != nil {
		return none, err
	}
	entries, folders, err := s.entries(at)
	if err != nil {
		return none, err
	}
	beneath, err := s.folders(at, folders)
	if err != nil {
		return none, err
	}
	for _, e := range beneath {
		if e.Mode != "" {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 && at != "." {
		return none, nil
	}
	text := receipt.Node(entries)
	e := receipt.Entry{Mode: receipt.Folder, Name: path.Base(at), Hash: receipt.Sum(text)}
	if s.Nodes != nil {
		s.nodes.Lock()
		s.Nodes[e.Hash] = text
		s.nodes.Unlock()
	}
	return e, s.put(e.Hash, text)
}

// folders returns the entries of folders: of each by another goroutine if one is free. The first
// error in order is that of one goroutine, because all before it are read to their end.
func (s *scanner) folders(at string, names []string) ([]receipt.Entry, error) {
	list, errs := make([]receipt.Entry, len(names)), make([]error, len(names))
	var others sync.WaitGroup
	for i, name := range names {
		read := func() { list[i], errs[i] = s.folder(path.Join(at, name)) }
		select {
		case s.free <- struct{}{}:
			others.Go(func() {
				read()
				<-s.free
			})
			continue
		default:
			read()
		}
		if errs[i] != nil {
			break
		}
	}
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// entries returns the entries of the files and links in a folder, and the names of its folders.
func (s *scanner) entries(at string) (list []receipt.Entry, folders []string, err error) {
	if len(at) > change.MaxPath {
		return nil, nil, &Error{at[:80] + "…", "the path is longer than a system call accepts"}
	}
	dir, err := tree.Beneath(s.root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, failed(at, err)
	}
	f := os.NewFile(uintptr(dir), at)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, failed(at, err)
	}
	slices.Sort(names)
	above := ""
	if at != "." {
		above = at + "/"
	}
	list = make([]receipt.Entry, 0, len(names))
	for _, name := range names {
		if name == ".git" || at == "." && name == work.Trace {
			continue
		}
		here := above + name
		if !utf8.ValidString(name) {
			return nil, nil, &Error{here, "the name is not UTF-8"}
		}
		c := child{name: name}
		if err := unix.Fstatat(dir, name, &c.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, nil, failed(here, err)
		}
		if s.Scratch != nil && c.stat.Mode&unix.S_IFMT != unix.S_IFDIR && s.Scratch(here, false) {
			continue
		}
		var e receipt.Entry
		switch c.stat.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if s.Scratch == nil || !s.Scratch(here, true) {
				folders = append(folders, name)
			}
			continue
		case unix.S_IFREG:
			e, err = s.file(dir, here, c)
		case unix.S_IFLNK:
			e, err = s.link(dir, here, name)
		default:
			err = &Error{here, "it is neither a file nor a folder nor a link"}
		}
		if err != nil {
			return nil, nil, err
		}
		if s.files.Add(1) > MaxFiles {
			return nil, nil, &Error{Msg: fmt.Sprintf("the folder has more than %d files", MaxFiles)}
		}
		list = append(list, e)
	}
	return list, folders, nil
}

// failed names the path of the error of a system call.
func failed(at string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return &Error{at, errno.Error()}
	}
	return err
}

func (s *scanner) link(dir int, at, name string) (receipt.Entry, error) {
	target, err := tree.ReadLink(dir, name)
	if err != nil {
		return receipt.Entry{}, failed(at, err)
	}
	e := receipt.Entry{Mode: receipt.Link, Name: name, Hash: receipt.Sum([]byte(target))}
	return e, s.put(e.Hash, []byte(target))
}

func (s *scanner) file(dir int, at string, c child) (receipt.Entry, error) {
	e := receipt.Entry{Name: c.name}
	if s.bytes.Add(c.stat.Size) > MaxBytes {
		return e, &Error{Msg: fmt.Sprintf("the files of the folder have more than %d bytes", int64(MaxBytes))}
	}
	for range tries {
		e.Mode = receipt.File
		if c.stat.Mode&0o100 != 0 {
			e.Mode = receipt.Executable
		}
		id := idOf(&c.stat)
		if h, ok := s.Index.digest(id); ok && (s.Sink == nil || s.Sink.Has(h)) {
			e.Hash = h
			return e, nil
		}
		h, same, err := s.read(dir, at, c)
		if err != nil {
			return e, err
		}
		if same {
			s.Index.add(id, h, s.Now)
			e.Hash = h
			return e, nil
		}
		if err := unix.Fstatat(dir, c.name, &c.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return e, failed(at, err)
		}
		if c.stat.Mode&unix.S_IFMT != unix.S_IFREG {
			break
		}
	}
	return e, &Error{at, "the file changes while it is read"}
}

// read reads a file. same says whether it was the file that lstat has shown, before and after.
// An error of the sink is about the store, and names no path of the folder.
func (s *scanner) read(dir int, at string, c child) (h receipt.Hash, same bool, err error) {
	fd, err := tree.Beneath(dir, c.name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return h, false, failed(at, err)
	}
	f := os.NewFile(uintptr(fd), c.name)
	defer f.Close()
	unchanged := func() bool {
		var now unix.Stat_t
		return unix.Fstat(fd, &now) == nil && idOf(&now) == idOf(&c.stat)
	}
	if !unchanged() {
		return h, false, nil
	}
	h, n, err := s.sum(f, c.stat.Size)
	if err != nil {
		return h, false, failed(at, err)
	}
	if n != c.stat.Size || !unchanged() {
		return h, false, nil
	}
	if s.Sink == nil || s.Sink.Has(h) {
		return h, true, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return h, false, failed(at, err)
	}
	err = s.Sink.Put(h, f)
	if errors.Is(err, ErrOther) {
		return h, false, nil
	}
	return h, err == nil, err
}

// sum returns the hash of a file and the number of its bytes. If the number is not the expected one,
// the hash can be that of a part.
func (s *scanner) sum(f *os.File, expected int64) (receipt.Hash, int64, error) {
	if expected > small {
		return receipt.Copy(io.Discard, f)
	}
	b, _ := s.buffers.Get().(*[small + 1]byte)
	if b == nil {
		b = new([small + 1]byte)
	}
	defer s.buffers.Put(b)
	n, err := io.ReadFull(f, b[:expected+1])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return receipt.Sum(b[:n]), int64(n), err
}

// idOf returns what the index knows a file by.
func idOf(st *unix.Stat_t) fileID {
	return fileID{st.Dev, st.Ino, uint64(st.Mode), uint64(st.Size), st.Mtim.Nano(), st.Ctim.Nano()}
}
