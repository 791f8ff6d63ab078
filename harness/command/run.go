package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// patience is how long Run waits for a caller's reader or writer that should return by
// itself. After that, Run treats it as blocked.
const patience = 100 * time.Millisecond

// echo is the time within which the same signal counts as one signal with Insist.
// timeout(1), for example, sends its signal to a process and to its group.
const echo = 50 * time.Millisecond

// run is one command that runs. The result belongs to the goroutine of Run.
type run struct {
	spec       Spec
	proc       Process
	stdin      *feeder // nil: empty
	output     *reader
	ended      chan ending
	hurry      bool           // the time is over: Run does not wait for a blocked Tee
	interrupts int            // number of forwarded SIGINT
	given      bool           // another goroutine releases the process
	draining   bool           // the streams still have time
	lastSignal syscall.Signal // the last forwarded signal
	lastAt     time.Time
	early      int // number of signals that arrived before the start and are not yet forwarded
	result     Result
}

// ending is the result of Wait.
type ending struct {
	exit Exit
	err  error
}

// begin opens the streams and starts the command and the goroutines that serve it.
func begin(start Start, spec Spec) (*run, error) {
	e, err := open(spec.Stdin == nil)
	if err != nil {
		return nil, fmt.Errorf("opening the streams of the command: %w", err)
	}
	pipes := [2]*os.File(e.own[1:])
	ready, err := newReadiness(pipes)
	if err != nil {
		closeAll(e.child, e.own)
		return nil, fmt.Errorf("opening the streams of the command: %w", err)
	}
	early := len(spec.Signals)
	proc, err := start(e.child[0], e.child[1], e.child[2])
	closeAll(e.child)
	if err != nil {
		ready.close()
		closeAll(e.own)
		return nil, err
	}
	r := &run{spec: spec, proc: proc, early: early, ended: make(chan ending, 1)}
	r.result.Started = spec.Now()
	go func() {
		exit, err := proc.Wait()
		r.ended <- ending{exit, err}
	}()
	r.output = newReader(ready, pipes, spec)
	for _, p := range r.output.passers {
		go p.run()
	}
	go r.output.read()
	if spec.Stdin != nil {
		r.stdin = &feeder{pipe: e.own[0], from: spec.Stdin, done: make(chan struct{})}
		go r.stdin.feed()
	}
	return r, nil
}

// supervise returns when the process has ended, or when Run cannot end it.
func (r *run) supervise(ctx context.Context, expired <-chan time.Time) error {
	done, signals := ctx.Done(), r.spec.Signals
	var insist, force, lost <-chan time.Time
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
			r.given = true
			return fmt.Errorf("killing the command: %w", killErr)
		case s, ok := <-signals:
			if !ok {
				signals = nil
			}
			if sig, ok := s.(syscall.Signal); ok {
				insist, force = r.forward(sig, insist, force)
			}
		case <-insist:
			insist, force = nil, r.kill(Overstayed)
		}
		if why == nil {
			continue
		}
		r.hurry = true
		select {
		case e := <-r.ended: // the command ended by itself before the clock was read
			return r.end(e)
		default:
		}
		*why = true
		expired, done = nil, nil
		if r.spec.Grace > 0 {
			r.proc.Signal(syscall.SIGTERM) // Kill follows if SIGTERM cannot be sent
		}
		force = time.After(r.spec.Grace)
	}
}

// forward sends a signal to the command, and says when to kill a command that does not end.
func (r *run) forward(sig syscall.Signal, insist, force <-chan time.Time) (_, _ <-chan time.Time) {
	if r.early--; r.early < 0 && r.isKey(sig) {
		r.result.Key = sig
		return insist, force
	}
	if r.spec.Insist > 0 && sig == r.lastSignal && time.Since(r.lastAt) < echo {
		return insist, force
	}
	r.lastSignal, r.lastAt = sig, time.Now()
	r.proc.Signal(sig) // a command that has ended needs no signal
	if r.result.Forwarded == 0 {
		r.result.Forwarded = sig
		if r.spec.Insist > 0 {
			insist = time.After(r.spec.Insist)
		}
	}
	if sig == syscall.SIGINT && r.spec.Insist > 0 {
		if r.interrupts++; r.interrupts == 2 {
			return nil, r.kill(InterruptedTwice)
		}
	}
	return insist, force
}

func (r *run) isKey(sig syscall.Signal) bool {
	return (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && r.spec.Keys != nil && r.spec.Keys()
}

// kill makes supervise kill the command next.
func (r *run) kill(why Killed) <-chan time.Time {
	if r.result.Killed == NotKilled {
		r.result.Killed = why
	}
	r.hurry = true
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// end records how the process ended. After a timeout, an interruption or a signal to end, it
// also kills what the command left running.
func (r *run) end(e ending) error {
	r.result.Ended = r.spec.Now()
	r.result.Exit = e.exit
	var killErr error
	asked := r.result.Forwarded != 0 && r.spec.Insist > 0
	if r.result.Key != 0 && r.result.Key == r.result.Signal {
		r.hurry = true
	}
	if r.result.TimedOut || r.result.Interrupted || asked {
		r.hurry = true
		killErr = r.proc.Kill()
	}
	if r.spec.Insist <= 0 {
		release(r.proc) // otherwise collect releases it, after it may have killed what is left
	}
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

// collect waits for the streams and fills in the rest of the result. It waits for Drain. If
// only a Tee delays the streams, it then waits as long as there is time.
func (r *run) collect(ctx context.Context, expired <-chan time.Time) error {
	if r.spec.Insist > 0 && !r.given {
		defer release(r.proc)
	}
	drain := max(r.spec.Drain, 0)
	r.output.ready.deadline(time.Now().Add(drain))
	t := time.NewTimer(drain)
	defer t.Stop()
	r.draining = true
	complete := r.finished(t.C, nil)
	r.draining = false
	if r.stdin != nil {
		r.result.StdinErr = r.stdin.stop()
	}
	if !complete && !r.hurry {
		r.finished(expired, ctx.Done())
	}
	r.output.ready.deadline(time.Now())
	close(r.output.hurry)
	<-r.output.done
	for _, p := range r.output.passers {
		p.ended()
	}
	var err error
	for i, out := range []*Captured{&r.result.Stdout, &r.result.Stderr} {
		s := r.output.streams[i]
		s.pipe.Close()
		*out = s.captured()
		r.result.Held = r.result.Held || s.held
		if s.err != nil && err == nil {
			err = fmt.Errorf("reading %s of the command: %w", s.pipe.Name(), s.err)
		}
	}
	return err
}

// finished waits until both streams have ended and their Tees have returned. It returns
// false earlier if one of the two channels says so, or on a signal to end. A key signal has
// also gone to what the command left running, which then has until at.
func (r *run) finished(at <-chan time.Time, done <-chan struct{}) bool {
	waits := []<-chan struct{}{r.output.done}
	for _, p := range r.output.passers {
		waits = append(waits, p.done)
	}
	signals := r.spec.Signals
	if r.spec.Insist <= 0 {
		signals = nil
	}
	for len(waits) > 0 {
		select {
		case <-waits[0]:
			waits = waits[1:]
		case <-at:
			return false
		case <-done:
			return false
		case s, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			sig, is := s.(syscall.Signal)
			if is && r.tooLate(sig) && r.draining {
				r.hurry = r.hurry || sig == r.result.Signal
				continue
			}
			r.hurry = true
			return false
		}
	}
	return true
}

// tooLate records a signal that arrived after the end of the command, and kills what the
// command left running. For a key signal it returns true and kills nothing: the terminal has
// sent the signal to those processes too.
func (r *run) tooLate(sig syscall.Signal) (key bool) {
	if r.isKey(sig) {
		r.result.Key = sig
		return true
	}
	if r.result.Forwarded == 0 {
		r.result.Forwarded = sig
	}
	r.proc.Kill() // processes out of reach of Kill are given up after Drain
	return false
}

// ends are the descriptors of a run: the command's ends, and the own ends of its pipes.
// own[0] is nil when standard input is empty.
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
		closeAll(e.child, e.own)
	}
	return e, err
}

func closeAll(lists ...[3]*os.File) {
	for _, files := range lists {
		for _, f := range files {
			f.Close() // a nil file only returns an error
		}
	}
}
