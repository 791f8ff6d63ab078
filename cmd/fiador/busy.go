package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// occupied counts the operations whose end a Ctrl-C waits for. A nil occupied counts
// nothing.
type occupied struct {
	mu   sync.Mutex
	n    int
	free *sync.Cond
}

func newOccupied() *occupied {
	o := &occupied{}
	o.free = sync.NewCond(&o.mu)
	return o
}

func (o *occupied) enter() { o.add(1) }

func (o *occupied) leave() { o.add(-1) }

func (o *occupied) add(n int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n += n
	o.free.Broadcast()
}

// wait returns when the count is zero.
func (o *occupied) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.n > 0 {
		o.free.Wait()
	}
}

// interruptible returns a context that ends with the first signal that asks the process to
// end. One second later the process exits, even if a write without a reader still blocks.
// It first waits for an execution or a record under way.
func interruptible(busy *occupied) (context.Context, func()) {
	var heeded []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup ignores such a signal
			heeded = append(heeded, s)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), heeded...)
	context.AfterFunc(ctx, func() {
		time.Sleep(time.Second)
		busy.wait()
		os.Exit(exitError)
	})
	return ctx, stop
}

// undisturbed calls do, and a Ctrl-C waits for its end. After a Ctrl-C the command has one
// second to end with its own status.
func undisturbed(ctx context.Context, a *app, do func() error) error {
	a.busy.enter()
	err := do()
	if ctx.Err() != nil {
		time.AfterFunc(time.Second, a.busy.leave)
	} else {
		a.busy.leave()
	}
	return err
}
