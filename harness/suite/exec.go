package suite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/trial"
)

// Exec is an agent that is a command: it runs in a sandbox of its own for every attempt, reads
// the request on standard input, and writes its answer to standard output. What it writes to
// files is thrown away.
type Exec struct {
	Name    string          // of the agent's file
	Task    execute.Task    // of one command, as the policy has allowed it
	Perform harness.Perform // performs the task
	Where   execute.Place   // where the command runs

	isolation sandbox.Isolation // that Probe has found
}

// keptStderr is how much of standard error is kept.
const keptStderr = 16 << 10

// Probe sets up a sandbox and ends it. The error says what cannot be enforced there.
func (x *Exec) Probe(ctx context.Context) error {
	t := x.Task
	t.Sandbox.Actions = nil
	box, err := x.Where.Open(ctx, t)
	if err != nil {
		return err
	}
	x.isolation = box.Facts().Isolation
	return box.Close()
}

// Place names the agent's file.
func (x *Exec) Place() (base, url string) { return "exec:" + x.Name, "exec:" + x.Name }

// Kind returns exec and the isolation of the sandbox.
func (x *Exec) Kind() trial.Agent {
	return trial.Agent{Transport: "exec", Isolation: string(x.isolation)}
}

// Ask runs the command once.
func (x *Exec) Ask(ctx context.Context, q Request) (o Observed) {
	t := x.Task
	if end, ok := ctx.Deadline(); ok {
		t.Budget = max(time.Millisecond, min(t.Budget, time.Until(end)))
	}
	t.Stdin = []io.Reader{io.MultiReader(bytes.NewReader(q.Text), strings.NewReader("\n"))}
	most := int64(q.Most) + beyond
	t.Stdout, t.Stderr, t.Cut = command.Stream{Keep: most, Tee: &bound{most}}, command.Stream{Keep: keptStderr + beyond}, true
	t.Ignore = func(string) bool { return true }
	_, here := x.Where.(execute.Here)
	run, stop := undated(ctx, here)
	defer stop()
	if !here {
		ctx = run // the time is over when the worker says so
	}
	p, err := x.Perform(run, t)
	o.Sent = true
	if err != nil {
		if o.ended(ctx, "spawn_failed"); o.Fault != "" {
			o.Stderr = []byte(err.Error() + "\n")
		}
		return o
	}
	defer p.Close()
	o.Body, o.Stderr, o.StderrCut = p.Stdout.Bytes, p.Stderr.Bytes, p.Stderr.Truncated || len(p.Stderr.Bytes) > keptStderr
	o.Whole, o.TooLarge = !p.Stdout.Truncated, len(o.Body) > q.Most
	end := p.Observed.Command
	switch {
	case end == nil:
		o.ended(ctx, "spawn_failed")
	case end.Failed():
		o.ended(ctx, word(end.Cause().ID))
	case len(p.Observed.Reasons) > 0:
		o.ended(ctx, word(reason.ID(p.Observed.Reasons[0])))
	}
	return o
}

// bound is a Tee that ends a command when it has written more than is read.
type bound struct{ left int64 }

func (b *bound) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errors.New("the answer is too large")
	}
	return len(p), nil
}

// undated returns a context that is cancelled with ctx and has no deadline: the budget of the
// command ends an attempt, so that what came until then is known. The context ends all the same
// if a command of this machine outlives its budget for long. Uploads to a cluster and its queues
// are not the command's time; the place has limits for them.
func undated(ctx context.Context, here bool) (context.Context, context.CancelFunc) {
	const grace = 10 * time.Second
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if end, ok := ctx.Deadline(); ok && here {
		run, cancel = context.WithDeadline(context.WithoutCancel(ctx), end.Add(grace))
	}
	detach := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return run, func() { detach(); cancel() }
}

// ended notes why a command has no answer: the end of the attempt's time, or a word.
func (o *Observed) ended(ctx context.Context, word string) {
	switch {
	case word == "timeout" || errors.Is(ctx.Err(), context.DeadlineExceeded) && word == "spawn_failed":
		o.Deadline, o.Whole = "run", false
	case errors.Is(ctx.Err(), context.Canceled):
		o.Cancelled = true
	default:
		o.Fault = word
	}
}

// word returns the name of a failure for the reason of an execution.
func word(id string) string {
	switch id {
	case reason.NotFound, reason.NotExecutable:
		return "spawn_failed"
	case reason.Signal:
		return "exit_signal"
	case reason.Exit:
		return "exit_status"
	}
	return strings.ToLower(id)
}
