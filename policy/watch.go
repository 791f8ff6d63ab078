package policy

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"
)

// WatchCompile runs f, which compiles, and gives it Limits.Compile. what names the work
// in messages. An error has the file of its module, if layers has the module. The error
// is an *Error; KindWatchdog means that the process must end.
func WatchCompile[T any](ctx context.Context, lim Limits, layers []Layer, what string, f func() (T, error)) (T, error) {
	lim = lim.orDefault()
	lim.Deadline = lim.Compile
	v, err := watched(ctx, lim, task{what: what, failed: KindModule, stop: func() {}}, f)
	return v, located(err, layers)
}

// WatchEval runs f, which evaluates until it is cancelled, and gives it
// Limits.Deadline. In all else it is like WatchCompile.
func WatchEval[T any](ctx context.Context, lim Limits, layers []Layer, what string, f func(topdown.Cancel) (T, error)) (T, error) {
	cancel := topdown.NewCancel()
	t := task{what: what, failed: KindEval, stop: cancel.Cancel}
	v, err := watched(ctx, lim.orDefault(), t, func() (T, error) { return f(cancel) })
	return v, located(err, layers)
}

// task is watched work. what names it in messages, failed is the kind of error after a
// panic, and stop asks the work to return.
type task struct {
	what   string
	failed Kind
	stop   func()
}

// outcome is the result of a watched goroutine.
type outcome[T any] struct {
	value    T
	err      error
	panicked bool
}

// watched runs f in a goroutine and returns its result. At the deadline, or when ctx
// ends, it calls t.stop and gives f lim.Grace to return. It leaves f running if f does
// not return, or if the process has mapped too much memory. The last resort is a limit
// of the process's data, which holds until watched returns.
//
// After a stop, watched discards the answer of f. Whether an answer came in time must
// not depend on how fast f notices the stop.
func watched[T any](ctx context.Context, lim Limits, t task, f func() (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, &Error{Kind: KindTimeout, Msg: t.what + " was cancelled by the caller"}
	}
	defer limitData()()
	done := make(chan outcome[T], 1)
	go func() {
		o := outcome[T]{panicked: true}
		defer func() {
			if o.panicked {
				recover()
			}
			done <- o
		}()
		reserveStack(0)
		o.value, o.err = f()
		o.panicked = false
	}()

	start := time.Now()
	poll := time.NewTimer(lim.Poll)
	defer poll.Stop()
	var stopped time.Time
	var reason *Error
	cancelled := ctx.Done()
	for {
		select {
		case o := <-done:
			switch {
			case reason != nil:
				return zero, reason
			case o.panicked:
				return zero, &Error{Kind: t.failed, Msg: t.what + " failed inside the policy engine"}
			}
			return o.value, o.err
		case <-cancelled:
			cancelled = nil
			if reason == nil {
				stopped, reason = time.Now(), &Error{Kind: KindTimeout, Msg: t.what + " was cancelled by the caller"}
				t.stop()
			}
		case <-poll.C:
			if err := overMemory(lim, t.what); err != nil {
				t.stop()
				return zero, err
			}
			now := time.Now()
			switch {
			case reason == nil && now.Sub(start) >= lim.Deadline:
				stopped, reason = now, &Error{Kind: KindTimeout, Msg: fmt.Sprintf("%s took longer than %v", t.what, lim.Deadline)}
				t.stop()
			case reason != nil && now.Sub(stopped) >= lim.Grace:
				return zero, &Error{Kind: KindWatchdog, Msg: reason.Msg + " and does not stop: the process must end"}
			}
			poll.Reset(lim.Poll)
		}
	}
}

// overMemory returns the error of KindWatchdog for a process that has mapped more memory than
// Limits.MemoryBytes, and nil otherwise.
func overMemory(lim Limits, what string) *Error {
	if n := mappedMemory(); n > lim.MemoryBytes {
		return &Error{Kind: KindWatchdog, Msg: fmt.Sprintf("%s took more than %d MiB of memory: the process must end", what, lim.MemoryBytes>>20)}
	}
	return nil
}

// mappedMemory returns the memory that the runtime holds from the system. It does not
// stop the world.
func mappedMemory() uint64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// stackBytes is the stack that an evaluation of the built-in policy needs, rounded up
// to a power of two.
const stackBytes = 64 << 10

// reserveStack grows the stack of a new goroutine once, while it is empty. If a stack
// grows step by step below a deep evaluation, each step copies it; the copies take a
// quarter of the time of a decision.
//
//go:noinline
func reserveStack(i int) byte {
	var frame [stackBytes]byte
	frame[i] = 1
	return frame[stackBytes-1-i]
}
