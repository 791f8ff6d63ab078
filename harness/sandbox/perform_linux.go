//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/sandbox/initproc"
)

// Command is how action i is started, for package command. It has the time given, or
// with 0 as much as it takes. After its Wait the action is over: everything that it
// started is dead. end, unless nil, is filled in then.
func (s *Sandbox) Command(i int, timeout time.Duration, end *End) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p := &performed{s: s, at: i, end: end}
		if s.group != nil {
			p.kills = s.group.OOMKills()
		}
		if s.id != 0 {
			giveStreams(s.id, stdin, stdout, stderr)
		}
		if err := s.send(initproc.Message(initproc.Perform, i, int(timeout.Milliseconds())), []*os.File{stdin, stdout, stderr}); err != nil {
			return nil, &Error{Isolation: s.Isolation, Step: StepReport, Msg: "the sandbox is gone"}
		}
		if s.watched {
			p.over = make(chan struct{})
			p.watching.Go(p.watch)
		}
		if timeout > 0 {
			// The init keeps the time itself; this is for one that does not.
			p.late = time.AfterFunc(timeout+s.req.grace()+killTime, func() { _ = p.Kill() })
		}
		return p, nil
	}
}

// giveStreams makes an id the owner of pipes, so that a command can open its streams by
// name, as in /dev/stdout. What is no pipe is not ours to give away.
func giveStreams(id int, files ...*os.File) {
	for _, f := range files {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			_ = f.Chown(id, id)
		}
	}
}

// performed is an action under way.
type performed struct {
	s     *Sandbox
	at    int
	end   *End
	kills int
	late  *time.Timer
	over  chan struct{} // closed when the action is over; nil where nothing watches it

	watching     sync.WaitGroup
	killed, full atomic.Bool // full: for lack of memory
}

// Signal reaches everything inside. SIGTERM is the only signal that does.
func (p *performed) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		return p.Kill()
	}
	return p.s.send(initproc.Message(initproc.Terminate, 0, 0), nil)
}

// Kill ends the sandbox as a whole. Where its process is the first of a namespace,
// everything goes with it; otherwise it kills all that it started when its socket
// closes.
func (p *performed) Kill() error {
	p.killed.Store(true)
	return p.s.kill()
}

func (s *Sandbox) kill() error {
	if s.group != nil {
		s.group.Kill()
	}
	if s.Isolation == Full {
		err := s.process.Kill()
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	if err := shutdown(s.socket); err != nil && !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.EBADF) {
		return err
	}
	return nil
}

// Wait waits for the init's report of the action. An init that is gone without one
// because it was killed, here or for lack of memory, is an end by SIGKILL; that nobody
// knows how the action ended is an error.
func (p *performed) Wait() (command.Exit, error) {
	rep, ok := <-p.s.reports
	if p.late != nil {
		p.late.Stop()
	}
	if p.over != nil {
		close(p.over)
		p.watching.Wait()
	}
	e := End{OutOfMemory: p.full.Load()}
	if p.s.group != nil {
		e.OutOfMemory = e.OutOfMemory || p.s.group.OOMKills() > p.kills
	}
	defer func() {
		if p.end != nil {
			*p.end = e
		}
	}()
	if p.full.Load() || !ok && (p.killed.Load() || e.OutOfMemory) {
		if !p.s.waits(killTime) { // its end of the socket closes before it has killed what is inside
			return command.Exit{Signal: syscall.SIGKILL}, p.survivors()
		}
		return command.Exit{Signal: syscall.SIGKILL}, nil
	}
	if !ok {
		return command.Exit{}, &Error{Isolation: p.s.Isolation, Step: StepReport, Msg: "the sandbox ended without a report"}
	}
	if rep.Kind != initproc.Done || int(rep.At) != p.at {
		return command.Exit{}, &Error{Isolation: p.s.Isolation, Step: StepReport, Msg: "an unexpected report"}
	}
	e.MaxRSS = int64(rep.MaxRSS)
	e.TimedOut = rep.Flags&initproc.TimedOut != 0
	e.NotFound = rep.Flags&initproc.NotFound != 0
	e.NotExecutable = rep.Flags&initproc.NotRunnable != 0
	exit := command.Exit{Code: int(rep.Code), Signal: syscall.Signal(rep.Signal), MaxRSS: e.MaxRSS}
	switch {
	case rep.Flags&initproc.Survivors != 0:
		return exit, p.survivors()
	case rep.Errno != 0:
		return exit, &Error{Isolation: p.s.Isolation, Step: StepGiveUp, Errno: syscall.Errno(rep.Errno)}
	case e.NotFound:
		exit.Code = 127
	case e.NotExecutable:
		exit.Code = 126
	}
	return exit, nil
}

func (p *performed) survivors() error {
	return &Error{Isolation: p.s.Isolation, Step: StepReport, Msg: "something that the command started could not be killed"}
}

// Write performs action i, which is a file. The errno says why the file could not be
// written; err that the sandbox is gone.
func (s *Sandbox) Write(i int) (syscall.Errno, error) { return s.write(i, nil) }

func (s *Sandbox) write(i int, given []*os.File) (syscall.Errno, error) {
	if err := s.send(initproc.Message(initproc.Perform, i, 0), given); err != nil {
		return 0, &Error{Isolation: s.Isolation, Step: StepReport, Msg: "the sandbox is gone"}
	}
	rep, ok := <-s.reports
	if !ok || rep.Kind != initproc.Done || int(rep.At) != i {
		return 0, &Error{Isolation: s.Isolation, Step: StepReport, Msg: "the sandbox is gone"}
	}
	return syscall.Errno(rep.Errno), nil
}

// PeakMemory is the most memory that everything inside had at once, in bytes; 0 where
// no cgroup tells.
func (s *Sandbox) PeakMemory() int64 {
	if s.group == nil {
		return 0
	}
	return s.group.Peak()
}

// Dir is the host folder that holds the work folder where there is one: for a copy
// and for direct writes.
func (s *Sandbox) Dir() string { return s.work }
