package execute

import (
	"context"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// ToolCall is a call of a tool: the bound adapters in the order in which they are tried.
// The commands of the adapters follow each other in the sandbox's actions, and then comes
// the file with the answer.
type ToolCall []*adapter.Bound

// tool performs a call whose commands begin at action i of the sandbox. Attempts, waits and
// fallbacks together have the time of the first adapter, and of the budget.
func (w *performance) tool(i int, call ToolCall) error {
	at := w.task.intended(i)
	left := w.left
	if own := time.Duration(call[0].Adapter.Override.TimeoutMS) * time.Millisecond; own > 0 && (left == 0 || own < left) {
		left = own
	}
	var last attempt
	for n, bound := range call {
		if want := bound.Adapter.Interface.CLI.ExecutableSHA256; want != "" && ProgramHash(bound.Argv[0]) != want {
			w.p.Observed.Reject(reason.Refused(at))
			if w.failed = true; n > 0 {
				w.end(at, last.end)
			}
			return nil
		}
		var err error
		if last, err = w.adapter(i+n, bound, &left); err != nil {
			return err
		}
		if !bound.Adapter.Errors.Fallback.After(last.failure) {
			break
		}
	}
	w.end(at, last.end)
	if last.failure != "" {
		w.failed = true
		if last.failure == adapter.FailOutput {
			w.p.Observed.Reject(reason.Answer(at))
		}
		if last.cut {
			w.p.Observed.Reject(reason.StreamCut(at))
		}
		return nil
	}
	w.p.Calls = append(w.p.Calls, pack.CallEvidence{
		Action: at, AdapterID: last.by.Adapter.AdapterID, PromptHash: last.by.RequestHash, ResponseHash: canon.Sum(last.answer),
	})
	return w.give(i+len(call), w.task.Sandbox.Actions[i+len(call)], last.answer)
}

// attempt is the last attempt of an adapter. A failed one has no answer.
type attempt struct {
	by      *adapter.Bound
	end     evidence.End
	cut     bool // a stream was truncated
	answer  []byte
	failure string // one of the Fail constants of package adapter, or empty
}

// adapter tries one adapter as often as it allows, and takes the time from left.
func (w *performance) adapter(i int, bound *adapter.Bound, left *time.Duration) (attempt, error) {
	retry := bound.Adapter.Errors.Retry
	for n := 1; ; n++ {
		begun := time.Now()
		a, err := w.attempt(i, bound, *left)
		if err != nil {
			return a, err
		}
		took := time.Since(begun)
		w.p.Attempts = append(w.p.Attempts, pack.Attempt{
			Action: w.task.intended(i), AdapterID: bound.Adapter.AdapterID, ExitCode: a.end.Cause().ExitCode(), DurationMS: took.Milliseconds(),
		})
		wait := time.Duration(retry.Wait(n)) * time.Millisecond
		again := a.failure == adapter.FailExit && retry.Retryable(a.end.Code) && n < retry.Attempts()
		if again = again && (*left == 0 || took+wait < *left); !again {
			if *left > 0 {
				*left = max(*left-took, time.Millisecond)
			}
			return a, nil
		}
		if err := pause(w.ctx, wait); err != nil {
			return a, err
		}
		w.spend(wait)
		if *left > 0 {
			*left -= took + wait
		}
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

// attempt runs the command of an adapter once, and reads the answer.
func (w *performance) attempt(i int, bound *adapter.Bound, limit time.Duration) (attempt, error) {
	a := attempt{by: bound}
	var err error
	if a.end, a.cut, err = w.start(i, limit); err != nil {
		return a, err
	}
	switch {
	case a.end.TimedOut:
		a.failure = adapter.FailTimeout
	case a.end.NotFound, a.end.NotExecutable:
		a.failure = adapter.FailUnavailable
	case a.end.Failed():
		a.failure = adapter.FailExit
	case a.cut:
		a.failure = adapter.FailOutput
	default:
		if a.answer, err = answer.Output(bound.Adapter.Transforms.Output, w.p.Stdout.Bytes); err != nil {
			a.failure = adapter.FailOutput
		}
	}
	return a, nil
}
