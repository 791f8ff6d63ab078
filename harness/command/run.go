package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// patience is how long Run waits for a caller's reader or writer that should
// return by itself, before it takes it for blocked.
const patience = 100 * time.Millisecond

// echo is within which a signal of Insist is the one before it once more: timeout(1)
// for one sends its signal to a process and to its group.
const echo = 50 * time.Millisecond

// run is one command under way. The result belongs to the goroutine of Run.
type run struct {
	spec       Spec
	proc       Process
	stdin      *feeder // nil: empty
	output     *reader
	ended      chan ending
	hurry      bool           // the time is up: a blocked Tee is not waited for
	interrupts int            // how many SIGINT were forwarded
	given      bool           // somebody else releases the process
	draining   bool           // the streams have some time yet
	lastSignal syscall.Signal // forwarded
	lastAt     time.Time
	early      int // signals that came before the start and are not forwarded yet
	result     Result
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
	pipes := [2]*os.File(e.own[1:])
	ready, err := newReadiness(pipes)
	if err != nil {
		closeAll(e.child[:])
		closeAll(e.own[:])
		return nil, fmt.Errorf("opening the streams of the command: %w", err)
	}
	early := len(spec.Signals)
	proc, err := start(e.child[0], e.child[1], e.child[2])
	closeAll(e.child[:])
	if err != nil {
		ready.close()
		closeAll(e.own[:])
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
		r.stdin = newFeeder(e.own[0], spec.Stdin)
		go r.stdin.feed()
	}
	return r, nil
}

// supervise returns when the process has ended, or when it cannot be ended.
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

// forward sends a signal on, and says when to kill a command that stays.
func (r *run) forward(sig syscall.Signal, insist, force <-chan time.Time) (_, _ <-chan time.Time) {
	if r.early--; r.early < 0 && r.isKey(sig) {
		r.result.Key = sig
		return insist, force
	}
	if r.spec.Insist > 0 && sig == r.lastSignal && time.Since(r.lastAt) < echo {
		return insist, force
	}
	r.lastSignal, r.lastAt = sig, time.Now()
	r.proc.Signal(sig) // a command that has ended needs none
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

// kill has supervise kill the command next.
func (r *run) kill(why Killed) <-chan time.Time {
	if r.result.Killed == NotKilled {
		r.result.Killed = why
	}
	r.hurry = true
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// end takes down how the process ended. After a timeout, an interruption or a
// signal to end whatever the command started and left behind is killed too.
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
		release(r.proc) // else collect does, which may have to kill what is left
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

// collect waits for the streams, for Drain and then as long as only a Tee holds
// them up and there is time, and fills in the rest of the result.
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

// finished waits for the end of both streams, and until their Tees have returned,
// or until one of the two channels says that it is time, or a signal to end. A key
// is one to what the command has left as well, which has the time of at.
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

// tooLate takes down a signal that came when the command had ended, and kills what
// that has left behind. A key is true: the terminal has sent it to that as well.
func (r *run) tooLate(sig syscall.Signal) (key bool) {
	if r.isKey(sig) {
		r.result.Key = sig
		return true
	}
	if r.result.Forwarded == 0 {
		r.result.Forwarded = sig
	}
	r.proc.Kill() // what is out of reach is given up after Drain, too
	return false
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
