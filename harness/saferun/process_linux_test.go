package saferun_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for code := range 256 {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel() // every log is synced
			r := run(t, options{}, sh("echo out; echo err >&2; exit "+strconv.Itoa(code))...)
			if code == 0 {
				r.succeeded(t)
			} else {
				r.failed(t, code)
			}
			if r.stdout != "out\n" || !strings.HasPrefix(r.stderr, "err\n") {
				t.Errorf("%q and %q", r.stdout, r.stderr)
			}
		})
	}
}

// TestSuccess: a run that succeeds leaves nothing, not even the folder. This holds for a
// large output, and for a folder of logs that could not be made.
func TestSuccess(t *testing.T) {
	run(t, options{}, "true").succeeded(t)
	run(t, options{}, sh("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")...).succeeded(t)
	run(t, options{env: []string{"SAFE_LOG_DIR=/dev/null/logs"}}, "true").succeeded(t)
	tmp := t.TempDir()
	run(t, options{env: []string{"TMPDIR=" + tmp}}, sh("head -c 3000000 /dev/zero")...).succeeded(t)
	if list, err := os.ReadDir(tmp); err != nil || len(list) > 0 {
		t.Errorf("%v was left, %v", list, err)
	}
}

// TestDeathsBySignal: a signal that is not sent to safe-run and ends the command is no
// interruption.
func TestDeathsBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGPIPE,
		syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGXFSZ, 34, 64,
	} {
		r := run(t, options{}, sh("echo before; kill -$1 $$; sleep 1000", strconv.Itoa(int(sig)))...)
		if l := r.failed(t, 128+int(sig)); l.stdout != "before\n" {
			t.Errorf("signal %d: %q", sig, l.stdout)
		}
	}
}

// TestNotStarted: a command that cannot be started has a log that says why.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := file(t, filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		argv []string
		code int
		note string
	}{
		{nil, []string{"no-such-command", "a b"}, 127, "safe-run not found: no such file or directory"},
		{nil, []string{"/no/such/command"}, 127, "safe-run not found: no such file or directory"},
		{nil, []string{plain + "/command"}, 127, "safe-run not found: not a directory"},
		{nil, []string{""}, 127, "safe-run not found: no such file or directory"},
		{nil, []string{"", "a"}, 127, "safe-run not found: no such file or directory"},
		{[]string{"PATH=" + dir}, []string{"folder"}, 127, "safe-run not found: no such file or directory"},
		{[]string{"PATH="}, []string{"sh"}, 127, "safe-run not found: no such file or directory"},
		{nil, []string{plain}, 126, "safe-run not executable: permission denied"},
		{[]string{"PATH=" + dir}, []string{"plain"}, 126, "safe-run not executable: permission denied"},
		{nil, []string{folder}, 126, "safe-run not executable: is a directory"},
		{nil, []string{"./."}, 126, "safe-run not executable: is a directory"},
		{nil, []string{file(t, filepath.Join(dir, "text"), "exit 3\n", 0o755)}, 126, "safe-run not executable: exec format error"},
		{nil, []string{file(t, filepath.Join(dir, "empty"), "", 0o755)}, 126, "safe-run not executable: exec format error"},
		{nil, []string{"./" + strings.Repeat("x", 300)}, 126, "safe-run not executable: file name too long"},
	} {
		r := run(t, options{env: c.env}, append([]string{"--"}, c.argv...)...)
		l := r.failed(t, c.code, c.note)
		if l.stdout != "" || l.stderr != "" {
			t.Errorf("%q and %q", l.stdout, l.stderr)
		}
	}
}

// TestInterpreterMissing: the script exists, its interpreter does not, and the log names
// the interpreter.
func TestInterpreterMissing(t *testing.T) {
	script := file(t, filepath.Join(t.TempDir(), "script"), "#!/no/such/interpreter\n", 0o755)
	l := run(t, options{}, script).log(t)
	if notes := l.Notes(); l.Code() != 126 || len(notes) != 1 || !strings.Contains(notes[0], "interpreter") {
		t.Errorf("code %d, %q", l.Code(), notes)
	}
}

// TestLookup: a name is looked up as a shell does, and the command gets its name as the
// caller gave it.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"first", "second", "second/other"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file(t, filepath.Join(dir, "first", "tool"), "#!/bin/sh\necho first\n", 0o644)
	file(t, filepath.Join(dir, "second", "tool"), "#!/bin/sh\necho second\n", 0o755)
	file(t, filepath.Join(dir, "second", "other", "tool"), "#!/bin/sh\necho other\n", 0o755)
	for _, c := range []struct{ name, path, want string }{
		{"tool", dir + "/first:" + dir + "/second", "second\n"},
		{"tool", dir + "/second/other:" + dir + "/second", "other\n"},
		{"tool", "first:second", "second\n"},
		{"tool", "/no/such/folder:" + dir + "/first/tool:" + dir + "/second", "second\n"},
		{"./second/tool", "", "second\n"},
		{dir + "/second/other/tool", "", "other\n"},
	} {
		r := run(t, options{dir: dir, env: []string{"PATH=" + c.path}}, c.name)
		if r.code != 0 || r.stdout != c.want {
			t.Errorf("%s in %s: %d, %q, %q", c.name, c.path, r.code, r.stdout, r.stderr)
		}
	}
	r := run(t, options{}, "sh", "-c", `tr '\0' '|' </proc/$$/cmdline`)
	r.succeeded(t)
	if want := `sh|-c|tr '\0' '|' </proc/$$/cmdline|`; r.stdout != want {
		t.Errorf("%q, want %q", r.stdout, want)
	}
}

// TestInherits: the command has the same arguments, environment, current folder,
// descriptors, limits, mask and handling of signals as without safe-run.
func TestInherits(t *testing.T) {
	odd := []string{"", "a b", "*", "$HOME", "'", "--", "-x", "new\nline", "\xff\xfe", "\u2028"}
	shared, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	for name, argv := range map[string][]string{
		"arguments":   append([]string{"printf", "<%s>"}, odd...),
		"environment": {"cat", "/proc/self/environ"},
		"folder":      {"/bin/pwd"},
		"descriptors": sh("ls /proc/$$/fd; for i in 0 1 2 3 4; do grep flags /proc/$$/fdinfo/$i; done"),
		"limits":      {"cat", "/proc/self/limits"},
		"mask":        sh("umask; nice"),
		"signals":     {"grep", "^Sig[BI]", "/proc/self/status"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options{dir: t.TempDir(), env: []string{"A=1", "B=", "C=\xff new\nline", "SAFE_RUN_VIEW=merged"}}
			o.under = sh(`umask 027; exec nice -n 5 "$@"`)
			o.extra = []*os.File{shared, shared}
			got := run(t, o, argv...)
			got.succeeded(t)
			if want := direct(t, o, argv...); got.stdout != want || want == "" {
				t.Errorf("%q, without safe-run %q", got.stdout, want)
			}
		})
	}
}

// direct returns the standard output of a command without safe-run.
func direct(t *testing.T, o options, argv ...string) string {
	t.Helper()
	return prepared(t, o, argv).start().wait().stdout
}

// TestSignalsStayIgnored: the command ignores the signals that the caller ignores, and no
// others. A program in Go cannot know some ignored signals, see [saferun.Notify].
func TestSignalsStayIgnored(t *testing.T) {
	for _, traps := range []string{"", "trap '' HUP; ", "trap '' INT; ", "trap '' HUP INT TSTP TTIN TTOU; "} {
		o := options{under: sh(traps + `exec "$@"`)}
		argv := []string{"grep", "^Sig[BI]", "/proc/self/status"}
		got := run(t, o, argv...)
		got.succeeded(t)
		o.dir = got.dir
		if want := direct(t, o, argv...); got.stdout != want {
			t.Errorf("%s: %q, without safe-run %q", traps, got.stdout, want)
		}
	}
}

// TestHeldOutput: a process that the command has left behind holds both its streams, and
// writes before the end.
func TestHeldOutput(t *testing.T) {
	for _, where := range []string{"this session", "other session"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := run(t, options{}, sh(`"$@"; echo end; exit 3`, as(t, "leave", where)...)...)
			l := r.failed(t, 3, "safe-run output held: closed=2s")
			pid, rest, _ := strings.Cut(l.stdout, "\n")
			killed(t, pid)
			if rest != "end\n" || l.stderr != "lingers\n" {
				t.Errorf("%q and %q", l.stdout, l.stderr)
			}
			r = run(t, options{}, as(t, "leave", where)...)
			killed(t, r.stdout)
			r.succeeded(t)
		})
	}
}

// TestLateOutput: the early output of a process that was left behind is not lost.
func TestLateOutput(t *testing.T) {
	l := prompt(t, held, func() result {
		return run(t, options{}, sh("(sleep 0.1; echo late; echo late >&2) & echo early; exit 4")...)
	}).failed(t, 4)
	if l.stdout != "early\nlate\n" || l.stderr != "late\n" {
		t.Errorf("%q and %q", l.stdout, l.stderr)
	}
}

// TestClosedByTheCommand: a command may close its outputs long before it ends.
func TestClosedByTheCommand(t *testing.T) {
	l := run(t, options{}, sh("echo one; exec >&- 2>&-; sleep 0.2; exit 5")...).failed(t, 5)
	if l.stdout != "one\n" {
		t.Errorf("%q", l.stdout)
	}
}

// leave starts a process in a role, and returns when that process has closed descriptor 3.
func leave(role string, otherSession bool) int {
	read, write, err := os.Pipe()
	if err == nil {
		_, err = os.StartProcess("/proc/self/exe", os.Args[:1], &os.ProcAttr{
			Env:   []string{roleName + "=" + role, race},
			Files: []*os.File{nil, os.Stdout, os.Stderr, write},
			Sys:   &syscall.SysProcAttr{Setsid: otherSession},
		})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	write.Close()
	io.Copy(io.Discard, read)
	return 0
}

// inBackground runs safe-run in a process group of its own and ends with its status. Its
// process id comes first on standard output.
func inBackground(args []string) int {
	p, err := os.StartProcess("/proc/self/exe", append(os.Args[:1:1], args...), &os.ProcAttr{
		Env:   append(os.Environ(), roleName+"=safe-run", race),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.Pid)
	state, err := p.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return state.ExitCode()
}

// busy writes so many lines to each stream, from two goroutines.
func busy(lines string) int {
	n, err := strconv.Atoi(lines)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	done := make(chan bool)
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		go func() {
			var b bytes.Buffer
			for i := range n {
				fmt.Fprintf(&b, "%d of %s\n", i, f.Name())
				if i%7 == 0 || i == n-1 {
					f.Write(b.Bytes())
					b.Reset()
				}
			}
			done <- true
		}()
	}
	<-done
	<-done
	return 9
}

// nonblocking makes standard input non-blocking, and with it every stream that shares its
// file.
func nonblocking(size string) int {
	n, err := strconv.Atoi(size)
	if err == nil {
		err = syscall.SetNonblock(0, true)
	}
	if err == nil {
		fmt.Fprintln(os.Stderr, "nonblocking")
		_, err = os.Stdout.Write(make([]byte, n))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func file(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}
