package execute

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// ToolCall is a call of a tool: the bound adapters in the order in which they are tried.
// In the sandbox's actions, the commands of those adapters that start a process follow each
// other, and then comes the file with the answer.
type ToolCall []*adapter.Bound

// processes returns the number of adapters that start a process.
func (c ToolCall) processes() (n int) {
	for _, b := range c {
		if b.IsProcess() {
			n++
		}
	}
	return n
}

// asks says whether a call has an adapter that no process answers.
func asks(calls map[int]ToolCall) bool {
	for _, c := range calls {
		if c.processes() < len(c) {
			return true
		}
	}
	return false
}

// tool performs a call whose commands begin at action i of the sandbox. Attempts, waits and
// fallbacks together have the time of the first adapter, and of the budget.
func (w *performance) tool(i int, call ToolCall) error {
	at := w.task.intended(i)
	left := command.Budget(w.left.For(time.Duration(call[0].Adapter.Override.TimeoutMS) * time.Millisecond))
	key := w.cacheKey(call[0])
	if kept, ok := w.cached(key); ok {
		w.p.Attempts = append(w.p.Attempts, pack.Attempt{Action: at, AdapterID: call[0].Adapter.AdapterID, Cached: &kept.by})
		w.p.Stdout, w.p.Stderr = kept.stdout, kept.stderr
		w.end(at, kept.end)
		return w.answered(i, at, call, attempt{by: call[0], answer: kept.answer})
	}
	var last attempt
	tried := len(w.p.Attempts)
	for n, bound := range call {
		var err error
		if last, err = w.adapter(i+call[:n].processes(), bound, &left); err != nil {
			return err
		}
		if !bound.Adapter.Errors.Fallback.After(last.Failure) {
			break
		}
	}
	if last.end != nil {
		w.end(at, *last.end)
	}
	if last.Failure != "" {
		w.failed = true
		w.reject(at, last)
		return nil
	}
	if len(w.p.Attempts) == tried+1 {
		w.keep(key, at, last)
	}
	return w.answered(i, at, call, last)
}

// answered notes the answer of a call, and puts the file with the answer into the work folder.
func (w *performance) answered(i, at int, call ToolCall, last attempt) error {
	w.p.Calls = append(w.p.Calls, pack.CallEvidence{
		Action: at, AdapterID: last.by.Adapter.AdapterID, PromptHash: last.by.RequestHash, ResponseHash: canon.Sum(last.answer),
	})
	given := i + call.processes()
	return w.give(given, w.task.Sandbox.Actions[given], last.answer)
}

// reject adds the reasons of a call that failed. The end of its process, if it tells of a
// failure, is a reason by itself.
func (w *performance) reject(at int, last attempt) {
	switch {
	case last.Failure == adapter.FailRefused:
		w.p.Observed.Reject(reason.Refused(at))
	case last.Failure == adapter.FailOutput:
		w.p.Observed.Reject(reason.Answer(at))
	case last.end != nil && last.end.Failed():
	case last.Failure == adapter.FailTimeout:
		w.p.Observed.Reject(reason.Late(at))
	default:
		w.p.Observed.Reject(reason.Unanswered(at))
	}
	if last.cut {
		w.p.Observed.Reject(reason.StreamCut(at))
	}
}

// attempt is the last attempt of an adapter.
type attempt struct {
	adapter.Reply
	by     *adapter.Bound
	end    *evidence.End // of its process; nil: none was started
	cut    bool          // a stream was truncated
	answer []byte        // as the response has it; nil with a failure
}

// adapter tries one adapter as often as it allows, and takes the time from left.
func (w *performance) adapter(i int, bound *adapter.Bound, left *command.Budget) (attempt, error) {
	for n := 1; ; n++ {
		begun := time.Now()
		a, err := w.attempt(i, n, bound, time.Duration(*left))
		if err != nil {
			return a, err
		}
		took := time.Since(begun)
		code := a.Code
		if a.end != nil && a.end.Failed() {
			code = a.end.Cause().ExitCode()
		}
		w.p.Attempts = append(w.p.Attempts, pack.Attempt{
			Action: w.task.intended(i), AdapterID: bound.Adapter.AdapterID, Failure: a.Failure, Code: code, DurationMS: took.Milliseconds(),
		})
		waitMS, again := bound.Next(n, a.Reply)
		wait := time.Duration(waitMS) * time.Millisecond
		if player, ok := w.task.Asker.(replayer); ok && !bound.IsProcess() {
			wait, again = 0, again && player.Replays(w.task.intended(i), n+1, bound)
		}
		if again = again && (*left == 0 || took+wait < time.Duration(*left)); !again {
			left.Spend(took)
			return a, nil
		}
		if err := pause(w.ctx, wait); err != nil {
			return a, err
		}
		w.left.Spend(wait)
		left.Spend(took + wait)
	}
}

// pause waits, unless the run is stopped.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return runerr.Stopped()
	}
}

// attempt tries an adapter once, and reads the answer.
func (w *performance) attempt(i, n int, bound *adapter.Bound, limit time.Duration) (a attempt, err error) {
	switch {
	case !w.pinned(bound):
		a.Failure = adapter.FailRefused
	case bound.IsProcess() && bound.Adapter.Type == adapter.MCP:
		a, err = w.converse(i, bound, limit)
	case bound.IsProcess():
		a, err = w.process(i, bound, limit)
	default:
		a, err = w.ask(i, n, bound, limit)
	}
	if a.by = bound; err != nil || a.Failure != "" {
		return a, err
	}
	if a.answer, err = answer.Output(bound.Adapter.Transforms.Output, a.Answer); err != nil {
		a.Failure = adapter.FailOutput
	}
	return a, nil
}

// pinned says whether the program of a command is the file that its adapter names, if it
// names one.
func (w *performance) pinned(bound *adapter.Bound) bool {
	cli := bound.Adapter.Interface.CLI
	return cli == nil || cli.ExecutableSHA256 == "" || ProgramHash(bound.Argv[0]) == cli.ExecutableSHA256
}

// process runs the command of an adapter once.
func (w *performance) process(i int, bound *adapter.Bound, limit time.Duration) (a attempt, err error) {
	var secrets []string
	if len(bound.Secrets) > 0 {
		secrets = w.task.Secrets.Variables(bound)
	}
	end, cut, err := w.start(i, limit, secrets...)
	if err != nil {
		return a, err
	}
	a.end, a.cut, a.Code = &end, cut, end.Code
	switch {
	case w.leaked:
		a.Failure = adapter.FailOutput
	case end.TimedOut:
		a.Failure = adapter.FailTimeout
	case end.NotFound, end.NotExecutable:
		a.Failure = adapter.FailUnavailable
	case end.Failed():
		a.Failure = adapter.FailExit
	case cut:
		a.Failure = adapter.FailOutput
	case bound.Adapter.Type == adapter.SDK:
		a.Reply = bound.Answered(w.p.Stdout.Bytes)
	default:
		a.Answer = w.p.Stdout.Bytes
	}
	return a, nil
}

// ask asks a service once, outside the sandbox.
func (w *performance) ask(i, n int, bound *adapter.Bound, limit time.Duration) (a attempt, err error) {
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(w.ctx, limit)
	}
	defer cancel()
	begun := time.Now()
	a.Reply, err = w.task.Asker.Ask(ctx, w.task.intended(i), n, bound)
	w.left.Spend(time.Since(begun))
	switch {
	case w.ctx.Err() != nil:
		return a, runerr.Stopped()
	case err != nil:
		return a, askError(w.task.intended(i), bound, err)
	}
	return a, nil
}

// askError is the error for an attempt that the recording does not have, or cannot hold. An
// error that is a *result.RunError stays as it is.
func askError(at int, bound *adapter.Bound, err error) error {
	if e, ok := errors.AsType[*result.RunError](err); ok {
		return e
	}
	pointer, id := "/actions/"+strconv.Itoa(at), bound.Adapter.AdapterID
	return runerr.New(result.CodeEvidence, pointer+": adapter "+strconv.Quote(id)+": "+err.Error(), hintOf(err),
		runerr.At(pointer), runerr.With("adapter_id", id), runerr.With("request_hash", string(bound.RequestHash)), runerr.Because(err))
}
