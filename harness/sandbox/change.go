package sandbox

import (
	"errors"
	"io"
)

// Kind is what stands at a path after an execution.
type Kind string

// The kinds of change.
const (
	KindFile    Kind = "file"
	KindFolder  Kind = "folder"
	KindLink    Kind = "link"    // a symbolic link
	KindDeleted Kind = "deleted" // something stood there and is gone
	KindOther   Kind = "other"   // a device, a FIFO, a socket
)

// Change is one difference that an execution made to its work folder. A file that
// was touched and holds what it held before is none.
type Change struct {
	Path       string // slash path beneath the work folder, its bytes as found
	Kind       Kind
	Size       int64    // of a file, bytes
	SHA256     [32]byte // of a file's content; zero where Size is over the limit of Diff
	Executable bool
	Target     string // of a symbolic link
	Before     *Seen  // what stood there when it was compared, or nil
}

// Seen is what a file of the work folder was, so that one that somebody else changed
// in the meantime is not overwritten.
type Seen struct {
	Kind      Kind
	Device    uint64
	Inode     uint64
	Size      int64
	ChangedNS int64 // ctime, nanoseconds since 1970
}

// Looked is what was seen of a folder by whoever decided on changes to it.
type Looked struct {
	Dir     Seen                       // the folder itself, which has to be the same one
	Folders map[string]Seen            // folders in it, by path, which have to be the same ones
	Beneath map[string]map[string]Seen // of folders that go, by path: all that is in one, by path
}

// Content opens what a changed file holds.
type Content func(path string) (io.ReadCloser, error)

// ErrStageFull says that there was no room left for what the commands wrote.
var ErrStageFull = errors.New("the memory for what is written is full")
