package suite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

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
	Name   string         // of the agent's file
	Task   execute.Task   // of one command, as the policy has allowed it
	Runner execute.Runner // sets up the sandboxes

	mu        sync.Mutex
	isolation sandbox.Isolation
}

// keptStderr is how much of standard error is kept.
const keptStderr = 16 << 10

// Probe sets up a sandbox and ends it. The error says what this machine cannot enforce.
func (x *Exec) Probe(ctx context.Context) error {
	box, err := x.Runner.Start(ctx, x.Task.Sandbox)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.isolation = box.Isolation
	x.mu.Unlock()
	return box.Close()
}

// Place names the agent's file.
func (x *Exec) Place() (base, url string) { return "exec:" + x.Name, "exec:" + x.Name }

// Kind returns exec and the isolation of the sandbox.
func (x *Exec) Kind() trial.Agent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return trial.Agent{Transport: "exec", Isolation: string(x.isolation)}
}

// Ask runs the command once.
func (x *Exec) Ask(ctx context.Context, q Request) (o Observed) {
	t := x.Task
	t.Stdin = []io.Reader{io.MultiReader(bytes.NewReader(q.Text), strings.NewReader("\n"))}
	t.Stdout, t.Stderr, t.Cut = command.Stream{Keep: int64(q.Most) + beyond}, command.Stream{Keep: keptStderr}, true
	t.Ignore = func(string) bool { return true }
	p, err := execute.Perform(ctx, x.Runner, t)
	o.Sent = true
	if err != nil {
		o.ended(ctx, "spawn_failed")
		return o
	}
	defer p.Close()
	o.Body, o.Stderr = p.Stdout.Bytes, p.Stderr.Bytes
	o.Whole = !p.Stdout.Truncated
	if len(o.Body) > q.Most || p.Stdout.Truncated {
		o.TooLarge, o.Whole = true, false
	}
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

// ended notes why a command has no answer: the end of the attempt's time, or a word.
func (o *Observed) ended(ctx context.Context, word string) {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) || word == "timeout":
		o.Deadline, o.Whole = "run", false
	case ctx.Err() != nil:
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
