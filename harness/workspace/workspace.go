// Package workspace owns the states of a folder: their hash, and the store in which their
// objects are kept (specs/work.md).
//
// A state has the files, links and folders beneath a folder, with their content and the
// executable bit of their owner. Left out are .git in every folder, the trace of an agent at
// the root, and folders without entries. Times, owners and other permissions are no part of it.
//
// Scan reads a folder without changing it. A file that changes while it is read is read again.
// If it changes three times, or if the folder has what no state can hold, Scan returns an
// *Error, which names the path.
package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
)

// The limits of a state.
const (
	MaxFiles = 200_000 // files and links
	MaxBytes = 8 << 30 // of all files
)

// State is the content of a folder.
type State struct {
	Hash  receipt.Hash
	Files int   // files and links
	Bytes int64 // of the files
}

// Error says what no state can hold.
type Error struct {
	Path string // beneath the folder; empty: the folder itself
	Msg  string
}

// Error returns the path and the reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return fmt.Sprintf("%q: %s", e.Path, e.Msg)
}

// tries is how often a file is read that changes meanwhile.
const tries = 3

// ErrUnsupported is the error of Scan on Windows, and of what keeps a state or brings one back on
// other systems than Linux (amd64, arm64).
var ErrUnsupported = errors.New("states of folders are read on all systems but Windows, and kept and brought back on Linux (amd64, arm64) alone")

// Sink gets every object of a state.
type Sink interface {
	Has(h receipt.Hash) bool
	Put(h receipt.Hash, from io.Reader) error
}

// Options say how a folder is read. The zero value reads every file.
type Options struct {
	Index *Index                  // digests of files that were read before, or nil
	Now   time.Time               // when the reading begins, for the index
	Sink  Sink                    // gets the objects, or nil
	Nodes map[receipt.Hash][]byte // gets the nodes, unless it is nil

	// Scratch says of a path whether no state has it, nor, for a folder, anything beneath; nil:
	// no path is scratch. Several goroutines call it at once.
	Scratch func(path string, folder bool) bool
}

// put hands a text to the sink.
func (o *Options) put(h receipt.Hash, text []byte) error {
	if o.Sink == nil || o.Sink.Has(h) {
		return nil
	}
	return o.Sink.Put(h, bytes.NewReader(text))
}

// OpenFile opens a regular file beneath a folder. It does not wait at a pipe.
func OpenFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Scan returns the state of a folder.
func Scan(ctx context.Context, dir string, o Options) (State, error) { return scan(ctx, dir, o) }
