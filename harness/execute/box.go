package execute

import (
	"context"
	"io"
	"iter"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
)

// Runner sets up sandboxes on this machine.
type Runner interface {
	Start(ctx context.Context, r sandbox.Request) (*sandbox.Sandbox, error)
	StageInputs(tree string, paths []string, files int, bytes int64) (sandbox.Inputs, error)
}

// Place is where tasks are carried out: on this machine (Here), or on a worker (package remote).
type Place interface {
	// Open returns the box of a task, in which its actions are performed next. The error is a
	// *result.RunError; nothing is left then.
	Open(ctx context.Context, task Task) (Box, error)
}

// Box is the sandbox of one task. *sandbox.Sandbox, whose methods say what each of these does, is
// the box of this machine.
type Box interface {
	Facts() sandbox.Facts
	Run(ctx context.Context, i int, limit time.Duration, spec command.Spec, end *sandbox.End, secrets ...string) (command.Result, error)
	End(kill bool) error
	Write(i int) (syscall.Errno, error)
	WriteGiven(i int, content []byte) (syscall.Errno, error)
	Changes() ([]change.Change, error)
	ChangesSoFar() ([]change.Change, error)
	Content(path string) (io.ReadCloser, error)
	Before(path string) (change.Kind, [32]byte, int64)
	Below(folder string) iter.Seq[string]
	MoveTo(dir string, leave func(path string) bool) error
	Connections() []evidence.Connection
	PeakMemory() int64
	Foreign() (name string, group int, found bool)
	Reserved(name, dir string) (file string, found bool)
	Owns(in sandbox.Inputs)
	Close() error
}

// Here is the place whose boxes are sandboxes of this machine.
type Here struct{ Runner Runner }

// Open sets up a sandbox.
func (h Here) Open(ctx context.Context, task Task) (Box, error) {
	box, err := h.Runner.Start(ctx, task.Sandbox)
	if err != nil {
		return nil, runerr.Sandbox(ctx, err)
	}
	return box, nil
}
