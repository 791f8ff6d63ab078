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
	"encoding/hex"
	"slices"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
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
	Test           bool // it was the test of a work item
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

// SandboxID is the id of the sandbox that executes a bundle under a policy.
func SandboxID(bundle canon.ContentHash, policy kernel.PolicyProfile) (string, error) {
	return sandboxPlan.ID(nil, "sbx_", &sandboxDomain{bundle, policy})
}

// sandboxDomain is what the id of a sandbox covers.
type sandboxDomain struct {
	BundleSHA256 canon.ContentHash    `json:"bundle_sha256"`
	Policy       kernel.PolicyProfile `json:"policy"`
}

var sandboxPlan canon.Plan[sandboxDomain]

// Execution is what a RunResult says of an execution of a bundle under a policy.
func Execution(bundle canon.ContentHash, policy kernel.PolicyProfile, o Observed) (kernel.Execution, error) {
	id, err := SandboxID(bundle, policy)
	if err != nil {
		return kernel.Execution{}, err
	}
	emptySum := sha256.Sum256(nil)
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
	if o.Command != nil {
		if why := o.Command.Cause(); why.ID != "" {
			reasons = append(reasons, why.String())
		}
	}
	slices.SortFunc(reasons, canon.Compare)
	code := reason.Read(reasons).ExitCode()
	if code == 0 && len(reasons) > 0 { // a command was to end otherwise
		code = contract.ExitForbidden
	}
	return code, slices.Compact(reasons)
}

// Reject adds reasons for which the execution is rejected.
func (o *Observed) Reject(list ...reason.Reason) {
	for _, r := range list {
		o.Reasons = append(o.Reasons, r.String())
	}
}

// Cause is the reason that the end of a command is, and the zero value where the command
// ended well.
func (e End) Cause() reason.Reason {
	if e.Test {
		e.Test = false
		if why := e.Cause(); why.ID != "" {
			return reason.Tested(why.ExitCode())
		}
	}
	switch {
	case e.OutOfMemory && (e.Code != 0 || e.Signal != 0):
		return reason.Reason{ID: reason.OOM}
	case e.TimedOut:
		return reason.Reason{ID: reason.Timeout}
	case e.NotFound:
		return reason.Reason{ID: reason.NotFound}
	case e.NotExecutable:
		return reason.Reason{ID: reason.NotExecutable}
	case e.Signal != 0:
		return reason.Signalled(e.Signal)
	case e.Code != 0:
		return reason.Exited(e.Code)
	}
	return reason.Reason{}
}

// Exited says whether the command ended by itself.
func (e End) Exited() bool {
	return e.Signal == 0 && !e.TimedOut && !e.OutOfMemory && !e.NotFound && !e.NotExecutable
}

// Failed says whether the command ended in a way that ends the execution.
func (e End) Failed() bool {
	return e.Cause().ID != ""
}

// FailedBut is Failed, except for a command that exited by itself with a code that is no
// failure. Code 0 excepts nothing.
func (e End) FailedBut(code int) bool {
	return e.Failed() && !(code != 0 && e.Exited() && e.Code == code)
}

// Hash is a sum as documents write it.
func Hash(sum [32]byte) canon.ContentHash {
	return canon.ContentHash("sha256:" + hex.EncodeToString(sum[:]))
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
