// Package change describes what an execution did to a folder, and judges it: all of it is
// accepted, or nothing (Judge). It owns the kinds of change and the rules for them; it
// changes no file.
package change

// Kind is the kind of the entry at a path after an execution.
type Kind string

// The kinds of change.
const (
	KindFile    Kind = "file"
	KindFolder  Kind = "folder"
	KindLink    Kind = "link"    // a symbolic link
	KindDeleted Kind = "deleted" // the path had an entry that is gone
	KindOther   Kind = "other"   // a device, a FIFO, a socket
)

// Change is one difference that an execution made to its work folder. A file that was
// written with its old content is not a change.
type Change struct {
	Path       string // slash path beneath the work folder, its bytes as found
	Kind       Kind
	Size       int64    // size of a file in bytes
	SHA256     [32]byte // SHA-256 of a file; zero where Size is over the limit on bytes
	Executable bool
	Target     string // target of a symbolic link
	Before     *Seen  // the old entry at the time of comparison, or nil
}

// Seen identifies an entry of the work folder in one state. It prevents Apply from
// overwriting a file that somebody else changed in the meantime.
type Seen struct {
	Kind      Kind
	Device    uint64
	Inode     uint64
	Size      int64
	ChangedNS int64 // ctime, nanoseconds since 1970
}
