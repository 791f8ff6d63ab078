package remote

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
)

// box is what a worker did, as an execute.Box. Its actions were performed: Run and Write say how
// each ended.
type box struct {
	known   sandbox.Facts
	result  *job.Result
	changes []change.Change
	streams [][2][]byte       // of each step
	files   map[string]string // of each written file, its name beneath dir
	dir     string            // of the answer
	was     *originals
	done    int // actions that were asked for
	inputs  sandbox.Inputs
}

var errCalls = errors.New("no calls are made on a worker")

func (b *box) Facts() sandbox.Facts                          { return b.known }
func (b *box) Connections() []evidence.Connection            { return slices.Clone(b.result.Contacts) }
func (b *box) PeakMemory() int64                             { return b.result.PeakMemory }
func (b *box) Owns(in sandbox.Inputs)                        { b.inputs = in }
func (b *box) Foreign() (string, int, bool)                  { return "", 0, false }
func (b *box) Reserved(string, string) (string, bool)        { return "", false }
func (b *box) End(bool) error                                { return errCalls }
func (b *box) WriteGiven(int, []byte) (syscall.Errno, error) { return 0, errCalls }
func (b *box) ChangesSoFar() ([]change.Change, error)        { return nil, errCalls }
func (b *box) Below(folder string) iter.Seq[string]          { return b.was.below(folder) }

// step returns what the next action did.
func (b *box) step(i int) (job.Step, error) {
	if i != b.done || i >= len(b.result.Steps) {
		return job.Step{}, broken("action %d was not performed, and the one before it has not failed", i)
	}
	b.done++
	return b.result.Steps[i], nil
}

func (b *box) Write(i int) (syscall.Errno, error) {
	step, err := b.step(i)
	return syscall.Errno(step.Errno), err
}

// Run returns how a command ended, and passes its streams on. What a stream had beyond the bytes
// that are kept has stayed on the worker.
func (b *box) Run(_ context.Context, i int, _ time.Duration, spec command.Spec, end *sandbox.End, _ ...string) (command.Result, error) {
	step, err := b.step(i)
	if err != nil {
		return command.Result{}, err
	}
	e, now := step.End, time.Now()
	*end = sandbox.End{TimedOut: e.TimedOut, OutOfMemory: e.OutOfMemory, NotFound: e.NotFound, NotExecutable: e.NotExecutable, MaxRSS: e.MaxRSS}
	return command.Result{
		Exit:    command.Exit{Code: e.Code, Signal: syscall.Signal(e.Signal), MaxRSS: e.MaxRSS},
		Stdout:  captured(e.Stdout, b.streams[i][0], spec.Stdout.Tee),
		Stderr:  captured(e.Stderr, b.streams[i][1], spec.Stderr.Tee),
		Started: now.Add(-time.Duration(e.DurationMS) * time.Millisecond), Ended: now,
	}, nil // the caller looks at its own context: ctx also ends when nobody reads a stream
}

func captured(s job.Stream, text []byte, tee io.Writer) command.Captured {
	sum, _ := sumOf(s.SHA256) // it was checked
	c := command.Captured{Bytes: text, SHA256: sum, Size: s.Size, Truncated: s.Size > s.Kept}
	if tee != nil && len(text) > 0 {
		_, c.TeeErr = tee.Write(text)
	}
	return c
}

// Changes returns the changes of all actions. An answer with actions that nobody asked for is
// broken: what they changed cannot be told apart.
func (b *box) Changes() ([]change.Change, error) {
	if b.done != len(b.result.Steps) {
		return nil, broken("the worker performed %d actions; the task ended after %d", len(b.result.Steps), b.done)
	}
	if b.result.Full {
		return b.changes, sandbox.ErrStageFull
	}
	return b.changes, nil
}

func (b *box) open(name string) (*os.File, error) {
	file, there := b.files[name]
	if !there {
		return nil, os.ErrNotExist
	}
	return os.Open(filepath.Join(b.dir, filepath.FromSlash(file)))
}

func (b *box) Content(name string) (io.ReadCloser, error) { return b.open(name) }

// Before returns what the work folder had at a path when it was sent.
func (b *box) Before(name string) (change.Kind, [32]byte, int64) {
	o := b.was.at[name]
	if o.kind != change.KindFile {
		return o.kind, [32]byte{}, 0
	}
	return o.kind, o.sum, o.size
}

func (b *box) MoveTo(dir string, leave func(path string) bool) error {
	return sandbox.WriteDelta(dir, b.changes, sandbox.Delta{
		Leave: leave, Open: b.open,
		Hides: func(name string) bool { _, there := b.was.at[name]; return there },
	})
}

// Close removes the answer and the inputs.
func (b *box) Close() error {
	return errors.Join(os.RemoveAll(filepath.Dir(b.dir)), b.inputs.Remove())
}
