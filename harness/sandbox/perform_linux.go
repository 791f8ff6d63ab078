//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/sandbox/initproc"
)

// Command returns the function with which package command starts action i. A timeout of 0
// means no limit. When Wait of the process returns, the action is over and every process
// that it started is dead. Wait also fills in end unless end is nil. Secrets are variables,
// "NAME=value", for this command alone: they stand in no plan, and the init does not read
// them.
func (s *Sandbox) Command(i int, timeout time.Duration, end *End, secrets ...string) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p := &performed{s: s, at: i, end: end}
		if s.group != nil {
			p.kills = s.group.OOMKills()
		}
		if s.id != 0 {
			giveStreams(s.id, stdin, stdout, stderr)
		}
		var err error
		if p.unserve, err = s.serve(i); err != nil {
			return nil, s.fail(StepProxy, err)
		}
		files := []*os.File{stdin, stdout, stderr}
		if len(secrets) > 0 {
			f, err := inMemory("secrets", initproc.EncodeSecrets(secrets))
			if err != nil {
				p.unserve()
				return nil, s.fail(StepFiles, err)
			}
			defer f.Close()
			files = append(files, f)
		}
		if err := s.send(initproc.Message(initproc.Perform, i, int(timeout.Milliseconds())), files); err != nil {
			p.unserve()
			return nil, &Error{Isolation: s.Isolation, Step: StepReport, Msg: "the sandbox is gone"}
		}
		if s.meter != nil {
			p.over = make(chan struct{})
			p.watching.Go(p.watch)
		}
		if timeout > 0 {
			// The init enforces the timeout itself. This timer is for an init that fails to.
			p.late = time.AfterFunc(timeout+s.req.grace()+killTime, func() { _ = p.Kill() })
		}
		return p, nil
	}
}

// Run runs action i to its end, as command.Run does. Timeout, end and secrets are those of Command.
func (s *Sandbox) Run(ctx context.Context, i int, timeout time.Duration, spec command.Spec, end *End, secrets ...string) (command.Result, error) {
	return command.Run(ctx, s.Command(i, timeout, end, secrets...), spec)
}

// End asks everything inside to end, or with kill ends it. It does nothing between actions.
func (s *Sandbox) End(kill bool) error {
	n := 0
	if kill {
		n = 1
	}
	return s.send(initproc.Message(initproc.Terminate, n, 0), nil)
}

// giveStreams makes an id the owner of pipes, so that a command can open its streams by
// name, as in /dev/stdout. giveStreams leaves the owner of other files as it is.
func giveStreams(id int, files ...*os.File) {
	for _, f := range files {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			_ = f.Chown(id, id)
		}
	}
}

// performed is an action that runs.
type performed struct {
	s     *Sandbox
	at    int
	end   *End
	kills int
	late  *time.Timer

	unserve func() // ends the connections of the action

	over chan struct{} // closed when the action is over; nil where nothing watches it

	watching     sync.WaitGroup
	killed, full atomic.Bool // full: killed because the memory limit was exceeded
}

// Signal sends SIGTERM to everything inside, whatever sig is. For SIGKILL it calls Kill.
func (p *performed) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		return p.Kill()
	}
	return p.s.End(false)
}

// Kill ends the whole sandbox. If its process is process 1 of a namespace, the kernel kills
// everything in that namespace with it. Otherwise the init kills everything that it started
// when its socket closes.
func (p *performed) Kill() error {
	p.killed.Store(true)
	return p.s.kill()
}

func (s *Sandbox) kill() error {
	if s.group != nil {
		s.group.Kill()
	}
	if s.Isolation == Full {
		return unless(s.process.Kill(), os.ErrProcessDone)
	}
	return unless(shutdown(s.socket), syscall.ENOTCONN, syscall.EBADF)
}

// unless returns an error, or nil if it is one of those that say that nothing is left to do.
func unless(err error, done ...error) error {
	if slices.ContainsFunc(done, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

const (
	// lookEvery is the time between two measurements of a command's memory where no cgroup
	// counts it.
	lookEvery = 100 * time.Millisecond
	// lookAgain is the time between two measurements that must both exceed the limit. A new
	// process shares all its memory with its parent, so one measurement can be too high.
	lookAgain = 20 * time.Millisecond
)

// watch ends the sandbox when its processes together exceed the memory limit. It returns
// when the action is over.
func (p *performed) watch() {
	limit := int64(p.s.req.Limits.MemoryMB) * mib
	pause := lookEvery
	for {
		select {
		case <-p.over:
			return
		case <-time.After(pause):
		}
		start := time.Now()
		over := p.s.meter.Memory(initproc.Descendants(p.s.process.Pid), limit) > limit
		if over && pause == lookAgain {
			select {
			case <-p.over:
			default:
				p.full.Store(true)
				_ = p.Kill()
			}
			return
		}
		if pause = max(lookEvery, min(10*time.Since(start), 5*lookEvery)); over {
			pause = lookAgain
		}
	}
}

// Wait waits for the init's report of the action. If the init is gone without a report
// because it was killed, here or for lack of memory, the exit is SIGKILL. If the init is
// gone without a report for another reason, Wait returns an error.
func (p *performed) Wait() (command.Exit, error) {
	rep, ok := <-p.s.reports
	p.unserve()
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
	switch {
	case p.full.Load() || !ok && (p.killed.Load() || e.OutOfMemory):
		exit := command.Exit{Signal: syscall.SIGKILL}
		if !p.s.waits(killTime) { // the init closes its socket before it has killed everything inside
			return exit, p.survivors()
		}
		return exit, nil
	case !ok:
		return command.Exit{}, &Error{Isolation: p.s.Isolation, Step: StepReport, Msg: "the sandbox ended without a report"}
	case rep.Kind != initproc.Done || int(rep.At) != p.at:
		return command.Exit{}, &Error{Isolation: p.s.Isolation, Step: StepReport, Msg: "an unexpected report"}
	}
	e.MaxRSS = int64(rep.MaxRSS)
	e.TimedOut = rep.Flags&initproc.TimedOut != 0
	e.NotFound = rep.Flags&initproc.NotFound != 0
	e.NotExecutable = rep.Flags&initproc.NotRunnable != 0
	e.Scratch = rep.Flags&initproc.Scratch != 0
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
// written; err says that the sandbox is gone.
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

// PeakMemory returns the largest memory of everything inside at one time, in bytes. It
// returns 0 where no cgroup counts memory.
func (s *Sandbox) PeakMemory() int64 {
	if s.group == nil {
		return 0
	}
	return s.group.Peak()
}

// WriteGiven performs action i, a file whose content the caller passes now. The errno says
// why the file could not be written; err says that the sandbox is gone.
func (s *Sandbox) WriteGiven(i int, content []byte) (syscall.Errno, error) {
	f, err := unnamed("content", content)
	if err != nil {
		return 0, s.fail(StepFiles, err)
	}
	defer f.Close()
	return s.write(i, []*os.File{f})
}

// unnamed returns a file without a name that holds b. The file is in memory; where memfd is
// refused, it is in the folder for temporary files. A sandbox whose memory no cgroup counts
// refuses memfd.
func unnamed(purpose string, b []byte) (*os.File, error) {
	f, err := inMemory(purpose, b)
	if !errors.Is(err, unix.ENOSYS) {
		return f, err
	}
	if f, err = os.CreateTemp("", "fiador-"+purpose+"-"); err != nil {
		return nil, err
	}
	return filled(f, b, os.Remove(f.Name()))
}

// inMemory returns a file without a name, in memory, that holds b.
func inMemory(purpose string, b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(purpose, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return filled(os.NewFile(uintptr(fd), purpose), b, nil)
}

// filled writes b into a new file, unless there was an error before.
func filled(f *os.File, b []byte, err error) (*os.File, error) {
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// listen forwards the init's reports until the init is gone.
func (s *Sandbox) listen(reports chan<- initproc.Report, gone chan<- struct{}) {
	defer close(gone)
	defer close(reports)
	b, oob := make([]byte, initproc.ReportSize+1), make([]byte, 64)
	for {
		n, m, _, _, err := unix.Recvmsg(s.socket, b, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		rep, ok := initproc.Decode(b[:n])
		if !ok {
			return
		}
		if list, err := unix.ParseSocketControlMessage(oob[:m]); err == nil && len(list) == 1 {
			fds, _ := unix.ParseUnixRights(&list[0])
			for _, fd := range fds {
				s.take(fd)
			}
		}
		reports <- rep
	}
}

func (s *Sandbox) send(msg []byte, files []*os.File) error {
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(s.socket, msg, oob, nil, unix.MSG_NOSIGNAL)
}
