package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

func startDirect(argv, env []string, dir string, files [3]*os.File) (Process, error) {
	if err := checkDirect(argv, env, dir); err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: !SharesGroup(files[0])},
	}
	defer runtime.KeepAlive(files)
	var reason error
	for _, path := range candidates(argv[0], env, dir) {
		pid, err := syscall.ForkExec(path, argv, attr)
		if err == nil {
			return &direct{pid: pid, group: attr.Sys.Setpgid}, nil
		}
		err = startError(argv[0], path, dir, err)
		if _, ok := errors.AsType[*StartError](err); !ok {
			return nil, err
		}
		if reason == nil {
			reason = err
		}
		// As in a shell, a file that may not be executed does not hide one of the same name
		// in a later place of PATH.
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
			break
		}
	}
	return nil, cmp.Or(reason, error(&StartError{argv[0], NotFound, syscall.ENOENT}))
}

// checkDirect finds the errors that fork and exec would report as errors of the command.
func checkDirect(argv, env []string, dir string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("starting a command: it is empty")
	}
	for _, list := range [][]string{argv, env, {dir}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("starting command %q: %q holds a zero byte", argv[0], s)
			}
		}
	}
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err == nil {
		if e := syscall.Access(dir, 1); e != nil {
			err = &fs.PathError{Op: "chdir", Path: dir, Err: e}
		}
	}
	if err != nil {
		return fmt.Errorf("starting command %q: working directory: %w", argv[0], err)
	}
	return nil
}

// candidates returns the paths to try: the name itself if it has a slash, otherwise each
// place of PATH that has a file of that name. A relative path starts from dir, as the
// command does.
func candidates(name string, env []string, dir string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var found []string
	for _, place := range filepath.SplitList(pathOf(env)) {
		path := filepath.Join(cmp.Or(place, "."), name)
		if info, err := os.Stat(from(dir, path)); err == nil && !info.IsDir() {
			found = append(found, path)
		}
	}
	return found
}

// pathOf returns the PATH that the command sees, which is the first one.
func pathOf(env []string) string {
	for _, s := range env {
		if path, ok := strings.CutPrefix(s, "PATH="); ok {
			return path
		}
	}
	return ""
}

func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// startError distinguishes a command that does not exist or is not executable from a machine
// that lacks resources.
func startError(name, path, dir string, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("starting command %q: %w", name, err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		if _, e := os.Stat(from(dir, path)); e == nil {
			return &StartError{name, NotExecutable, fmt.Errorf("its interpreter: %w", err)}
		}
		return &StartError{name, NotFound, err}
	case errors.Is(err, syscall.EACCES):
		if info, e := os.Stat(from(dir, path)); e == nil && info.IsDir() {
			return &StartError{name, NotExecutable, syscall.EISDIR}
		}
	}
	return &StartError{name, NotExecutable, err}
}

// SharesGroup says whether a command of Direct with this standard input stays in the
// caller's process group. The terminal's own signals then reach the command too. Only the
// controlling terminal stops a group that reads from it, or sends signals to a group.
func SharesGroup(stdin *os.File) bool {
	_, ok := foreground(stdin.Fd())
	return ok
}

// Foreground says whether this process, and a command that shares its group, now receives
// the signals of its controlling terminal's keyboard.
func Foreground(terminal *os.File) bool {
	group, ok := foreground(terminal.Fd())
	return ok && group == syscall.Getpgrp()
}

// foreground returns the foreground group of the terminal fd. ok is false unless fd is the
// controlling terminal.
func foreground(fd uintptr) (group int, ok bool) {
	var id int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&id)))
	return int(id), errno == 0
}

// direct is a child of this process. It stays a zombie from its end to Close, so that no
// other process gets its id or the id of its group.
type direct struct {
	pid   int
	group bool // the child leads a process group

	mu    sync.Mutex // guards the fields below and therefore the meaning of pid
	ended bool       // Wait has seen the end
	gone  bool       // Close has released the id
}

// Signal also continues a stopped command after a signal that asks for its end, because a
// stopped command cannot act on the signal.
func (d *direct) Signal(sig syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return os.ErrProcessDone
	}
	err := d.send(sig)
	if err != nil {
		return err
	}
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		err = d.send(syscall.SIGCONT)
	}
	return err
}

func (d *direct) send(sig syscall.Signal) error {
	if d.group {
		// ESRCH: the command has moved to another group, and its old group is empty.
		if err := syscall.Kill(-d.pid, sig); err != syscall.ESRCH {
			return err
		}
	}
	return syscall.Kill(d.pid, sig)
}

// Kill sends SIGKILL to the group and to the command. After Close it does nothing, because the
// ids may belong to others then.
func (d *direct) Kill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	if d.group {
		syscall.Kill(-d.pid, syscall.SIGKILL) // succeeds if at least one process could be killed
	}
	if d.ended {
		return nil
	}
	return syscall.Kill(d.pid, syscall.SIGKILL)
}

// siginfo is the part of the kernel's siginfo_t that describes a child.
type siginfo struct {
	signo, errno, code int32
	child              struct {
		_      [0]uintptr // the kernel's union is aligned like a pointer
		pid    int32
		uid    uint32
		status int32
	}
	_ [128]byte // at least the size that the kernel writes
}

const (
	pPID      = 1 // P_PID
	cldExited = 1 // CLD_EXITED
)

// Wait returns when the command itself has ended. The command stays a zombie until Close.
func (d *direct) Wait() (Exit, error) {
	var info siginfo
	var usage syscall.Rusage
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(d.pid), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|syscall.WNOWAIT, uintptr(unsafe.Pointer(&usage)), 0)
		if errno == 0 {
			break
		}
		if errno != syscall.EINTR {
			return Exit{}, os.NewSyscallError("waitid", errno)
		}
	}
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	exit := Exit{MaxRSS: int64(usage.Maxrss) << 10}
	if info.code == cldExited {
		exit.Code = int(info.child.status)
	} else {
		exit.Signal = syscall.Signal(info.child.status)
	}
	return exit, nil
}

// Close releases the process id. Before the end of the command it returns an error.
func (d *direct) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.gone {
		pid, err := syscall.Wait4(d.pid, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			d.gone = true
			return os.NewSyscallError("wait4", err)
		case pid == 0:
			return errors.New("the command has not ended")
		default:
			d.gone = true
		}
	}
	return nil
}
