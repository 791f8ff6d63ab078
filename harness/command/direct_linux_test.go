package command_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/fiador/fiador/harness/command"
)

// terminal opens a pseudo terminal: the side that a program reads, and the far side, where
// the test types.
func terminal(t *testing.T) (in, far *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	var number, unlock int32
	for _, call := range []struct {
		request uintptr
		arg     *int32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, far.Fd(), call.request, uintptr(unsafe.Pointer(call.arg))); errno != 0 {
			t.Skip(errno)
		}
	}
	in, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		far.Close()
		t.Skip(err)
	}
	return in, far
}

func write(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv0 string
		env   []string
		code  int
		why   error
	}{
		{"no-such-command", path, command.NotFound, fs.ErrNotExist},
		{"sh", nil, command.NotFound, fs.ErrNotExist},
		{"sh", []string{"PATH=", "PATH=/bin"}, command.NotFound, fs.ErrNotExist},
		{"/no/such/command", path, command.NotFound, fs.ErrNotExist},
		{plain + "/command", path, command.NotFound, syscall.ENOTDIR},
		{plain, path, command.NotExecutable, fs.ErrPermission},
		{"plain", []string{"PATH=" + dir}, command.NotExecutable, fs.ErrPermission},
		{"./plain", path, command.NotExecutable, fs.ErrPermission},
		{dir, path, command.NotExecutable, syscall.EISDIR},
		{"folder", []string{"PATH=" + dir}, command.NotFound, fs.ErrNotExist},
		{write(t, filepath.Join(dir, "interpreter"), "#!/no/such/interpreter\n", 0o755), path, command.NotExecutable, fs.ErrNotExist},
		{write(t, filepath.Join(dir, "text"), "exit 3\n", 0o755), path, command.NotExecutable, syscall.ENOEXEC},
	} {
		_, err := try(t, t.Context(), command.Direct([]string{c.argv0}, c.env, dir), command.Spec{})
		var se *command.StartError
		if !errors.As(err, &se) || se.Code != c.code || se.Name != c.argv0 || !errors.Is(err, c.why) {
			t.Errorf("%s with %q: %v", c.argv0, c.env, err)
		}
	}
}

func TestNotTried(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, filepath.Join(dir, "plain"), "", 0o644)
	for name, start := range map[string]command.Start{
		"no argv":               command.Direct(nil, path, ""),
		"no name":               command.Direct([]string{""}, path, ""),
		"zero byte in argv":     command.Direct([]string{"sh", "a\x00b"}, path, ""),
		"zero byte in env":      command.Direct([]string{"sh"}, []string{"A=\x00"}, ""),
		"no directory":          command.Direct([]string{"sh"}, path, filepath.Join(dir, "none")),
		"not a directory":       command.Direct([]string{"sh"}, path, plain),
		"argument list too big": command.Direct([]string{"sh", "-c", strings.Repeat("x", 8<<20)}, path, ""),
	} {
		_, err := try(t, t.Context(), start, command.Spec{})
		var se *command.StartError
		if err == nil || errors.As(err, &se) != (name == "argument list too big") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "first", "tool"), "#!/bin/sh\necho first\n", 0o644)
	write(t, filepath.Join(dir, "second", "tool"), "#!/bin/sh\necho second $0\n", 0o755)
	write(t, filepath.Join(dir, "here"), "#!/bin/sh\necho here\n", 0o755)
	for _, c := range []struct{ argv0, path, want string }{
		{"tool", dir + "/first:" + dir + "/second", "second " + dir + "/second/tool\n"},
		{"tool", "first:second", "second second/tool\n"},
		{"here", ":/bin", "here\n"},
		{"./here", "", "here\n"},
		{"second/tool", "", "second second/tool\n"},
	} {
		r := run(t, t.Context(), command.Direct([]string{c.argv0}, []string{"PATH=" + c.path}, dir), command.Spec{Stdout: command.Stream{Keep: 1000}})
		if string(r.Stdout.Bytes) != c.want {
			t.Errorf("%s in %s: %q", c.argv0, c.path, r.Stdout.Bytes)
		}
	}
}

// TestInherits: a command gets its argv, its environment, its directory and three
// descriptors in blocking mode. It gets no descriptor that is open here.
func TestInherits(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keep := command.Spec{Stdin: strings.NewReader(""), Stdout: command.Stream{Keep: 1 << 16}}
	for _, c := range []struct {
		argv, env []string
		want      string
	}{
		{[]string{"/usr/bin/env"}, []string{"A=1", "B=", "A=2"}, "A=1\nB=\nA=2\n"},
		{[]string{"/usr/bin/env"}, nil, ""},
		{[]string{"/bin/pwd"}, nil, dir + "\n"},
		{[]string{"/bin/sh", "-c", `printf '<%s>' "$0" "$@"`, "a b", "$HOME", "*", ""}, nil, "<a b><$HOME><*><>"},
		{[]string{"/bin/ls", "/proc/self/fd"}, nil, "0\n1\n2\n3\n"},
		{[]string{"/bin/sh", "-c", `grep -h flags /proc/self/fdinfo/0 /proc/self/fdinfo/1 /proc/self/fdinfo/2 | tr -d '\t0'`}, path, "flags:\nflags:1\nflags:1\n"},
	} {
		keep.Stdin = strings.NewReader("")
		r := run(t, t.Context(), command.Direct(c.argv, c.env, dir), keep)
		if string(r.Stdout.Bytes) != c.want {
			t.Errorf("%q: %q", c.argv, r.Stdout.Bytes)
		}
	}
}

func TestProcessGroup(t *testing.T) {
	group := func(start command.Start) string {
		r := run(t, t.Context(), start, command.Spec{Stdout: command.Stream{Keep: 1000}})
		return string(r.Stdout.Bytes)
	}
	leads := sh(`read pid comm state parent group rest </proc/self/stat; [ $group = $pid ] && echo own || echo $group`)
	if got := group(leads); got != "own\n" {
		t.Errorf("group %q", got)
	}
	in, far := terminal(t)
	defer in.Close()
	defer far.Close()
	if command.SharesGroup(in) {
		t.Error("a terminal that is not the controlling one")
	}
	if got := group(func(_, stdout, stderr *os.File) (command.Process, error) { return leads(in, stdout, stderr) }); got != "own\n" {
		t.Errorf("group %q with a terminal of somebody else", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{roleName + "=terminal", path[0]}
	cmd.Stdin, cmd.SysProcAttr = in, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("shares true\n%d\nended by TERM\n", cmd.Process.Pid); err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

func TestAfterTheEnd(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := sh("exec sleep 1000")(null, null, null)
	if err != nil {
		t.Fatal(err)
	}
	c := p.(io.Closer)
	if c.Close() == nil {
		t.Error("closed before the end")
	}
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	exit, err := p.Wait()
	if err != nil || exit.Signal != syscall.SIGKILL {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
