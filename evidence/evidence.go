// Package evidence turns what was observed of an execution into the value that a
// RunResult carries. It observes nothing itself.
//
// An execution is accepted or not by one number, its exit code (RS8). In the order in
// which they are looked at (specs/execution.md):
//
//	137 OOM             ended for lack of memory
//	143 TIMEOUT         it was over its time
//	127 NOT_FOUND       there is no such command
//	126 NOT_EXECUTABLE  the command cannot be executed
//	128+n SIGNAL n      signal n ended it
//	n EXIT n            it ended with n by itself
//	125                 it did what evidence or limits forbid; the other reasons say what
package evidence

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// Stream is what was kept of a standard stream.
type Stream struct {
	SHA256    [32]byte // over the bytes kept
	Size      int64    // all bytes that came
	Truncated bool     // not all were kept
}

// File is one file that was read or left behind.
type File struct {
	Path   string
	SHA256 [32]byte
	Size   int64
}

// End is how the command that counts ended: the one that failed, else the last.
type End struct {
	Argv           []string
	Code           int // 0..255
	Signal         int // 0: it exited
	TimedOut       bool
	OutOfMemory    bool
	NotFound       bool
	NotExecutable  bool
	Stdout, Stderr Stream
}

// Observed is everything that was observed of an execution.
type Observed struct {
	Command *End // nil: there was no command
	Inputs  []File
	Outputs []File
	Reasons []string // what evidence or limits forbid, in the vocabulary of specs/run-result.md
	Cut     bool     // not all outputs are listed
}

var emptySum = sha256.Sum256(nil)

// SandboxID is the id of the sandbox that executes a bundle under a policy.
func SandboxID(bundle canon.ContentHash, policy kernel.PolicyProfile) (string, error) {
	return canon.ID("sbx_", map[string]any{"bundle_sha256": string(bundle), "policy": policy.Plain()})
}

// Execution is what a RunResult says of an execution of a bundle under a policy.
func Execution(bundle canon.ContentHash, policy kernel.PolicyProfile, o Observed) (kernel.Execution, error) {
	id, err := SandboxID(bundle, policy)
	if err != nil {
		return kernel.Execution{}, err
	}
	end := End{Stdout: Stream{SHA256: emptySum}, Stderr: Stream{SHA256: emptySum}}
	if o.Command != nil {
		end = *o.Command
	}
	code, reasons := o.Judge()
	e := kernel.Execution{
		SandboxID: id, Cmd: append([]string{}, end.Argv...), ExitCode: code,
		StdoutSHA256: Hash(end.Stdout.SHA256), StderrSHA256: Hash(end.Stderr.SHA256),
		Inputs: refs(o.Inputs), Outputs: refs(o.Outputs),
		OutputTruncated: o.Cut || end.Stdout.Truncated || end.Stderr.Truncated,
		Reasons:         reasons,
	}
	for _, f := range o.Outputs {
		e.TotalOutputBytes += int(f.Size)
	}
	return e, nil
}

// Judge is the exit code and the reasons of what was observed, sorted by code unit;
// none with code 0.
func (o Observed) Judge() (int, []string) {
	reasons := slices.Clone(o.Reasons)
	code := 0
	if o.Command != nil {
		c, reason := o.Command.Cause()
		if code = c; reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if code == 0 && len(reasons) > 0 {
		code = contract.ExitForbidden
	}
	slices.SortFunc(reasons, canon.Compare)
	return code, slices.Compact(reasons)
}

// Cause is the exit code that stands for the end of a command, and the reason that goes
// with it; none with code 0.
func (e End) Cause() (code int, reason string) {
	switch {
	case e.OutOfMemory && (e.Code != 0 || e.Signal != 0):
		return contract.ExitOOM, "OOM"
	case e.TimedOut:
		return contract.ExitTimeout, "TIMEOUT"
	case e.NotFound:
		return contract.ExitNotFound, "NOT_FOUND"
	case e.NotExecutable:
		return contract.ExitNotExecutable, "NOT_EXECUTABLE"
	case e.Signal != 0:
		return 128 + e.Signal, "SIGNAL " + strconv.Itoa(e.Signal)
	case e.Code != 0:
		return e.Code, "EXIT " + strconv.Itoa(e.Code)
	}
	return 0, ""
}

// Exited says whether the command ended by itself.
func (e End) Exited() bool {
	return e.Signal == 0 && !e.TimedOut && !e.OutOfMemory && !e.NotFound && !e.NotExecutable
}

// Failed says whether the command ended in a way that ends the execution.
func (e End) Failed() bool {
	code, _ := e.Cause()
	return code != 0
}

// Hash is a sum as documents write it.
func Hash(sum [32]byte) canon.ContentHash {
	const digits = "0123456789abcdef"
	b := []byte("sha256:")
	for _, c := range sum {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return canon.ContentHash(b)
}

// refs are files as documents list them, by path.
func refs(files []File) []kernel.FileRef {
	list := make([]kernel.FileRef, 0, len(files))
	for _, f := range files {
		list = append(list, kernel.FileRef{Path: f.Path, SHA256: Hash(f.SHA256), SizeBytes: int(f.Size)})
	}
	slices.SortFunc(list, func(a, b kernel.FileRef) int { return canon.Compare(a.Path, b.Path) })
	return list
}
