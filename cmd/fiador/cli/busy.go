package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Busy counts the operations whose end a Ctrl-C waits for. A nil Busy counts
// nothing.
type Busy struct {
	mu   sync.Mutex
	n    int
	free *sync.Cond
}

// NewBusy returns a Busy that counts nothing yet.
func NewBusy() *Busy {
	o := &Busy{}
	o.free = sync.NewCond(&o.mu)
	return o
}

// Enter counts an operation that begins.
func (o *Busy) Enter() { o.add(1) }

// Leave counts an operation that has ended.
func (o *Busy) Leave() { o.add(-1) }

// LeaveSoon counts an operation that has ended, after a Ctrl-C one second later: the
// command has this second to end with its own status.
func (o *Busy) LeaveSoon(ctx context.Context) {
	if ctx.Err() == nil {
		o.Leave()
		return
	}
	time.AfterFunc(time.Second, o.Leave)
}

func (o *Busy) add(n int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n += n
	o.free.Broadcast()
}

// wait returns when the count is zero.
func (o *Busy) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.n > 0 {
		o.free.Wait()
	}
}

// Interruptible returns a context that ends with the first signal that asks the process to
// end. One second later the process exits, even if a write without a reader still blocks.
// It first waits for the executions and records that the Busy counts.
func Interruptible() (context.Context, *Busy) {
	busy := NewBusy()
	// nohup ignores such a signal
	heeded := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	ctx, _ := signal.NotifyContext(context.Background(), heeded...)
	context.AfterFunc(ctx, func() {
		time.Sleep(time.Second)
		busy.wait()
		os.Exit(ExitError)
	})
	return ctx, busy
}

// Undisturbed calls do, and a Ctrl-C waits for its end.
func Undisturbed[T any](ctx context.Context, a *App, do func() (T, error)) (T, error) {
	a.Busy.Enter()
	defer a.Busy.LeaveSoon(ctx)
	return do()
}
