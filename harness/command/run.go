package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// patience is how long Run waits for a caller's reader or writer that should
// return by itself, before it takes it for blocked.
const patience = 100 * time.Millisecond

// run is one command under way. The result belongs to the goroutine of Run.
type run struct {
	spec    Spec
	proc    Process
	stdin   *feeder // nil: empty
	streams [2]*stream
	ended   chan ending
	hurry   bool // the time is up: a blocked Tee is not waited for
	result  Result
}

// ending is what Wait returned.
type ending struct {
	exit Exit
	err  error
}

// begin opens the streams, starts the command and everything that serves it.
func begin(start Start, spec Spec) (*run, error) {
	e, err := open(spec.Stdin == nil)
	if err != nil {
		return nil, fmt.Errorf("opening the streams of the command: %w", err)
	}
	proc, err := start(e.child[0], e.child[1], e.child[2])
	closeAll(e.child[:])
	if err != nil {
		closeAll(e.own[:])
		return nil, err
	}
	r := &run{spec: spec, proc: proc, ended: make(chan ending, 1)}
	r.result.Started = spec.Now()
	go func() {
		exit, err := proc.Wait()
		r.ended <- ending{exit, err}
	}()
	order := new(sync.Mutex)
	for i, s := range []Stream{spec.Stdout, spec.Stderr} {
		r.streams[i] = newStream(i+1, e.own[i+1], s, spec, order)
		go r.streams[i].read()
	}
	if spec.Stdin != nil {
		r.stdin = newFeeder(e.own[0], spec.Stdin)
		go r.stdin.feed()
	}
	return r, nil
}

// supervise returns when the process has ended, or when it cannot be ended.
func (r *run) supervise(ctx context.Context, expired <-chan time.Time) error {
	done, signals := ctx.Done(), r.spec.Signals
	var force, lost <-chan time.Time
	var killErr error
	for {
		var why *bool
		select {
		case e := <-r.ended:
			return r.end(e)
		case <-expired:
			why = &r.result.TimedOut
		case <-done:
			why = &r.result.Interrupted
		case <-force:
			if killErr = r.proc.Kill(); killErr != nil {
				lost = time.After(max(r.spec.Grace, patience))
			}
		case <-lost:
			r.result.Ended = r.spec.Now()
			go func() {
				<-r.ended
				release(r.proc)
			}()
			return fmt.Errorf("killing the command: %w", killErr)
		case s, ok := <-signals:
			if !ok {
				signals = nil
			}
			if sig, ok := s.(syscall.Signal); ok {
				r.proc.Signal(sig) // a command that has ended needs none
			}
		}
		if why == nil {
			continue
		}
		r.hurry = true
		select {
		case e := <-r.ended: // by itself, and the clock was only read later
			return r.end(e)
		default:
		}
		*why = true
		expired, done = nil, nil
		if r.spec.Grace > 0 {
			r.proc.Signal(syscall.SIGTERM) // Kill follows if it cannot be sent
		}
		force = time.After(r.spec.Grace)
	}
}

// end takes down how the process ended. After a timeout or an interruption
// whatever the command started and left behind is killed too.
func (r *run) end(e ending) error {
	r.result.Ended = r.spec.Now()
	r.result.Exit = e.exit
	var killErr error
	if r.result.TimedOut || r.result.Interrupted {
		killErr = r.proc.Kill()
	}
	release(r.proc)
	if e.err != nil {
		return fmt.Errorf("waiting for the command: %w", e.err)
	}
	if killErr != nil {
		return fmt.Errorf("killing what the command started: %w", killErr)
	}
	return nil
}

func release(p Process) {
	if c, ok := p.(io.Closer); ok {
		c.Close()
	}
}

// collect waits for the streams, for Drain and then as long as only a Tee holds
// them up and there is time, and fills in the rest of the result.
func (r *run) collect(ctx context.Context, expired <-chan time.Time) error {
	drain := max(r.spec.Drain, 0)
	for _, s := range r.streams {
		s.pipe.SetReadDeadline(time.Now().Add(drain))
	}
	t := time.NewTimer(drain)
	defer t.Stop()
	complete := r.finished(t.C, nil)
	if r.stdin != nil {
		r.result.StdinErr = r.stdin.stop()
	}
	if !complete && !r.hurry {
		r.finished(expired, ctx.Done())
	}
	var err error
	for i, out := range []*Captured{&r.result.Stdout, &r.result.Stderr} {
		s := r.streams[i]
		s.finish()
		s.pipe.Close()
		*out = s.captured()
		r.result.Held = r.result.Held || s.held
		if s.err != nil && err == nil {
			err = fmt.Errorf("reading %s of the command: %w", s.pipe.Name(), s.err)
		}
	}
	return err
}

// finished waits for the end of both streams, or until one of the two channels
// says that it is time.
func (r *run) finished(at <-chan time.Time, done <-chan struct{}) bool {
	for _, s := range r.streams {
		select {
		case <-s.done:
		case <-at:
			return false
		case <-done:
			return false
		}
	}
	return true
}

// ends are the descriptors of a run: the command's, and the other sides of those
// that are pipes. own[0] is nil when standard input is empty.
type ends struct {
	child, own [3]*os.File
}

func open(noInput bool) (ends, error) {
	var e ends
	var err error
	if noInput {
		e.child[0], err = os.Open(os.DevNull)
	} else {
		e.child[0], e.own[0], err = newPipe("standard input", true)
	}
	if err == nil {
		e.child[1], e.own[1], err = newPipe("standard output", false)
	}
	if err == nil {
		e.child[2], e.own[2], err = newPipe("standard error", false)
	}
	if err != nil {
		closeAll(e.child[:])
		closeAll(e.own[:])
	}
	return e, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
