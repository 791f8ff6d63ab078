package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/command"
)

// launch starts a program as the leader of its own session, with the streams that the
// vector wants. mark is a variable of its environment that no other call has. A process
// with this variable was started by this call.
func launch(argv, env []string, dir, mark string, c invocation) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		if c.noStdin {
			stdin = nil
		}
		for _, gone := range []struct {
			want bool
			file **os.File
		}{{c.goneOut, &stdout}, {c.goneErr, &stderr}} {
			if !gone.want {
				continue
			}
			read, write, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			defer write.Close()
			read.Close()
			*gone.file = write
		}
		p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
			Dir: dir, Env: env, Files: []*os.File{stdin, stdout, stderr},
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return nil, fmt.Errorf("starting %q: %w", argv[0], errors.Unwrap(err))
		}
		return &process{p, mark}, nil
	}
}

// process is a program under test. Only this process gets the signals.
type process struct {
	p    *os.Process
	mark string
}

func (p *process) Signal(sig syscall.Signal) error { return p.p.Signal(sig) }

// Kill ends the program and all processes with its mark.
func (p *process) Kill() error {
	err := p.p.Kill()
	sweep(p.mark, 0)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *process) Wait() (command.Exit, error) {
	state, err := p.p.Wait()
	if err != nil {
		return command.Exit{}, err
	}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return command.Exit{Signal: status.Signal()}, nil
	}
	return command.Exit{Code: status.ExitStatus()}, nil
}

// sweep kills every process with a mark, after the time patience, and returns their
// names. It ends when no such process is left, or when there were so many that more will
// come.
func sweep(mark string, patience time.Duration) []string {
	for end := time.Now().Add(patience); len(marked(mark)) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	var names []string
	seen := map[int]bool{}
	for range 1000 {
		list := marked(mark)
		if len(list) == 0 {
			break
		}
		for _, pid := range list {
			name := commandLine(pid)
			if killMarked(pid, mark) && !seen[pid] && len(names) < 10 {
				names = append(names, name)
			}
			seen[pid] = true // a kill takes some time
		}
		time.Sleep(time.Millisecond)
	}
	return names
}

// marked lists the living processes with a mark, except this one.
func marked(mark string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && carries(pid, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// carries returns false for a process that has ended, because it has no environment.
func carries(pid int, mark string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00"))
}

// killMarked opens a handle of a process and checks its mark again before it kills. So a
// process that has got the same number later is not killed.
func killMarked(pid int, mark string) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return carries(pid, mark) && p.Kill() == nil
}

func commandLine(pid int) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return strings.Join(strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), " ")
}
