package asset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial/verify"
)

// Limits of a directory that Names reads.
const (
	MaxEntries = 100_000 // files and folders, all together
	MaxDepth   = 8       // segments of a path
)

// Errors of Files.
var (
	ErrTooMany    = errors.New("has more than 100000 entries")
	ErrTooLarge   = errors.New("is larger than its limit")
	ErrNotRegular = errors.New("is no regular file")
)

// Files is a directory that is read, of any runner. Several goroutines can use it at once.
type Files struct{ root *os.Root }

// Open opens a directory for reading.
func Open(dir string) (*Files, error) {
	info, err := os.Stat(dir) // OpenRoot would wait for a pipe
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, at(filepath.Base(dir), err)
	}
	root, err := os.OpenRoot(dir)
	return &Files{root}, at(filepath.Base(dir), err)
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// Names returns the paths of all regular files, and the other entries, both sorted. An other entry
// is neither a regular file nor a folder, has a path that is no href, or is deeper than MaxDepth.
// Names opens folders alone. An error says that the directory cannot be read; it can wrap
// ErrTooMany.
func (f *Files) Names() (names []string, others []verify.Entry, err error) {
	seen := 0
	for folders := []string{"."}; len(folders) > 0; folders = folders[1:] {
		folder, err := f.root.OpenFile(folders[0], os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, nil, at(folders[0], err)
		}
		list, err := folder.ReadDir(MaxEntries - seen + 1)
		_ = folder.Close()
		if seen += len(list); seen > MaxEntries {
			err = ErrTooMany
		}
		if err != nil && err != io.EOF {
			return nil, nil, at(folders[0], err)
		}
		for _, e := range list {
			name := path.Join(folders[0], e.Name())
			switch what := faultOf(name, e.Type()); {
			case what != "":
				others = append(others, verify.Entry{Name: canon.Clean(name), What: what})
			case e.IsDir():
				folders = append(folders, name)
			default:
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	slices.SortFunc(others, func(a, b verify.Entry) int { return strings.Compare(a.Name, b.Name) })
	return names, others, nil
}

func faultOf(name string, mode fs.FileMode) string {
	switch {
	case !CheckHref(name):
		return "has a name that no href can have"
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case !mode.IsRegular() && !mode.IsDir():
		return "is neither a file nor a folder"
	case strings.Count(name, "/") >= MaxDepth:
		return "lies too deep"
	}
	return ""
}

// Read returns the content of a regular file that has at most so many bytes. The errors wrap
// fs.ErrNotExist, ErrNotRegular or ErrTooLarge.
func (f *Files) Read(name string, most int64) ([]byte, error) {
	var b bytes.Buffer
	if _, err := f.copy(&b, name, most); err != nil {
		return nil, at(name, err)
	}
	return b.Bytes(), nil
}

// Hash returns the SHA-256 of a regular file that has at most so many bytes, as 64 hexadecimal
// digits, and its size. The errors are those of Read.
func (f *Files) Hash(name string, most int64) (sha string, size int64, err error) {
	h := sha256.New()
	if size, err = f.copy(h, name, most); err != nil {
		return "", 0, at(name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// copy writes a regular file to w. It opens nothing else.
func (f *Files) copy(w io.Writer, name string, most int64) (int64, error) {
	if !CheckHref(name) {
		return 0, errors.New("is no path in a version directory")
	}
	if err := withoutLinks(f.root, name, false); err != nil {
		return 0, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that takes the place does not wait
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, ErrNotRegular
	case info.Size() > most:
		return 0, ErrTooLarge
	}
	if b, ok := w.(*bytes.Buffer); ok {
		b.Grow(int(info.Size()) + bytes.MinRead) // one read
	}
	size, err := io.Copy(w, io.LimitReader(file, most))
	if err == nil && size < info.Size() {
		err = io.ErrUnexpectedEOF
	}
	return size, err
}

// withoutLinks refuses a path unless it is a folder, or else a regular file, beneath folders that
// are no links.
func withoutLinks(root *os.Root, name string, folder bool) error {
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		switch inner := folder || i < len(name); {
		case err != nil:
			return err
		case inner && !info.IsDir():
			return syscall.ENOTDIR
		case !inner && !info.Mode().IsRegular():
			return ErrNotRegular
		}
	}
	return nil
}
