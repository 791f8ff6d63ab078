package sandbox

import (
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/tree"
)

// Inputs are copies of files of a tree. A change in the tree does not change the copies.
type Inputs struct {
	Dir   string
	Files []Input
}

// Input is one copied file.
type Input struct {
	Path   string
	Size   int64
	SHA256 [32]byte
}

// InputError says which input could not be read.
type InputError struct {
	Path  string
	Msg   string
	Limit bool // there are more files or bytes than an execution may read
}

// Error names the path and the reason.
func (e *InputError) Error() string { return e.Path + ": " + e.Msg }

// Remove removes the copies.
func (in Inputs) Remove() error {
	if in.Dir == "" {
		return nil
	}
	return tree.RemoveAll(in.Dir)
}

// End is the part of a command's end that only the sandbox knows.
type End struct {
	TimedOut      bool
	OutOfMemory   bool // a process inside was killed because all processes together exceeded the memory limit
	NotFound      bool
	NotExecutable bool
	MaxRSS        int64 // bytes
}

// Probe is the result of trying one tier.
type Probe struct {
	Isolation Isolation
	Err       *Error // nil: the tier is available
	Clauses   []evidence.Clause
	Staging   string // how written files are kept apart from the work folder
}
