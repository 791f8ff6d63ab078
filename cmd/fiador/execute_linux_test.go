//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/runcmd"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/result"
)

// bench is a place for executions: a home, a folder for copies that must be empty at the
// end, and a work folder.
type bench struct {
	dir, home, temp, work string
}

// newBench skips the test where there is no full isolation.
func newBench(t *testing.T) bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "fiador-bench-")
	if err != nil {
		t.Fatal(err)
	}
	b := bench{dir, filepath.Join(dir, "home"), filepath.Join(dir, "temp"), filepath.Join(dir, "work")}
	for _, d := range []string{b.home, b.temp, b.work} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// Other users, and root's commands without a view of their own, must reach these.
	for _, d := range []string{dir, b.home, b.temp, b.work} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if list, err := os.ReadDir(b.temp); err != nil || len(list) > 0 {
			t.Errorf("left behind: %v (%v)", list, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	host := sandbox.NewHost(b.temp)
	defer host.Close()
	s, err := host.Start(t.Context(), sandbox.Request{Write: sandbox.Staged, Limits: sandbox.Limits{MemoryMB: 64, CPUCores: 1, OutputFiles: 1, OutputBytes: 1024}})
	if err != nil {
		t.Skipf("full isolation cannot be had here: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// command returns the command for the program at the bench, and its streams.
func (b bench) command(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = command(t, args...)
	cmd.Dir = b.work
	cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+b.home, "TMPDIR="+b.temp)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// run runs the program at the bench to its end.
func (b bench) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd, out, errs := b.command(t, args...)
	code = status(t, cmd.Run())
	return out.String(), errs.String(), code
}

// sh is exec of a shell script under the profile that allows it.
func sh(script string) []string { return []string{"exec", "--policy", "dev", "--", "sh", "-c", script} }

// intentOf makes an intent that writes a file and then runs a shell script.
func (b bench) intentOf(t *testing.T, script string) string {
	t.Helper()
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, b.dir, "intent.json", `{"goal":"Do it","constraints":["now"],"actions":[{"kind":"write","path":"out/first","content":""},{"kind":"run","argv":["sh","-c",`+string(text)+`]}]}`)
}

// runningWith returns the processes whose command line has a word.
func runningWith(t *testing.T, word string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && slices.Contains(strings.Split(string(b), "\x00"), word) {
			list = append(list, e.Name())
		}
	}
	return list
}

// gone waits until no process has a word in its command line.
func gone(t *testing.T, word string) {
	t.Helper()
	awaits(t, word+" no longer runs", func() bool {
		left := len(runningWith(t, word))
		if left > 0 {
			time.Sleep(10 * time.Millisecond) // to look at all processes takes time
		}
		return left == 0
	})
}

// running waits until a process has a word in its command line.
func running(t *testing.T, word string) {
	t.Helper()
	awaits(t, word+" runs", func() bool {
		found := len(runningWith(t, word))
		if found == 0 {
			time.Sleep(10 * time.Millisecond) // to look at all processes takes time
		}
		return found > 0
	})
}

// seconds returns a time to sleep that no other process has in its command line.
func seconds() string {
	return fmt.Sprintf("%d.%06d", 600+os.Getpid()%100, sleeps.Add(1))
}

var sleeps atomic.Int64

// cgroupsOf returns the cgroups that a process has made.
func cgroupsOf(pid int) []string {
	var list []string
	for _, pattern := range []string{"/sys/fs/cgroup/fiador-%d-*", "/sys/fs/cgroup/*/fiador-%d-*", "/sys/fs/cgroup/*/*/fiador-%d-*", "/sys/fs/cgroup/*/*/*/fiador-%d-*"} {
		found, _ := filepath.Glob(fmt.Sprintf(pattern, pid))
		list = append(list, found...)
	}
	return list
}

// TestInterruptedExecution: a signal ends an execution soon, however its command handles
// the signal, and however often it comes. One line says so. Nothing is left or applied.
func TestInterruptedExecution(t *testing.T) {
	b := newBench(t)
	for _, tc := range []struct {
		name    string
		signals []syscall.Signal
		script  string // SLEEP is a long time
	}{
		{"INT", []syscall.Signal{syscall.SIGINT}, "echo x >f; sleep SLEEP"},
		{"TERM", []syscall.Signal{syscall.SIGTERM}, "echo x >f; sleep SLEEP"},
		{"HUP", []syscall.Signal{syscall.SIGHUP}, "echo x >f; sleep SLEEP & setsid sleep SLEEP & wait"},
		{"a command that ignores it", []syscall.Signal{syscall.SIGTERM}, "trap '' INT TERM HUP; echo x >f; sleep SLEEP; sleep SLEEP"},
		{"twice, and a command that ignores it", []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGTERM}, "trap '' INT TERM HUP; echo x >f; sleep SLEEP; sleep SLEEP"},
		{"a command that ends well then", []syscall.Signal{syscall.SIGINT}, "trap 'exit 0' TERM; echo x >f; sleep SLEEP & wait"},
	} {
		for _, as := range []string{"exec", "run"} {
			t.Run(tc.name+"/"+as, func(t *testing.T) {
				t.Parallel()
				time0 := seconds()
				script := strings.ReplaceAll(tc.script, "SLEEP", time0)
				dir := t.TempDir()
				args, want := append([]string{"exec", "--policy", "dev", "--work", dir, "--"}, sh(script)[4:]...), runcmd.ExitOurs
				if as == "run" {
					at := bench{dir: t.TempDir()}
					args, want = []string{"run", at.intentOf(t, script), "--policy", "dev", "--mode", "execute-sandbox", "--work", dir, "--promote", dir}, cli.ExitError
				}
				cmd, stdout, stderr := b.command(t, args...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running(t, time0)
				begun := time.Now()
				for _, s := range tc.signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Error(err)
					}
					time.Sleep(50 * time.Millisecond)
				}
				got := status(t, cmd.Wait())
				if took := time.Since(begun); took > time.Minute {
					t.Errorf("it took %v", took)
				}
				if got != want || stdout.Len() > 0 || !strings.Contains(stderr.String(), `{"code":"RUN_E005","details":{"hint":"run it again"},"message":"interrupted`) {
					t.Errorf("exit status %d, want %d; stdout %q, stderr %q", got, want, stdout.String(), stderr.String())
				}
				gone(t, time0)
				if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
					t.Errorf("applied: %v (%v)", list, err)
				}
				if list := cgroupsOf(cmd.Process.Pid); len(list) > 0 {
					t.Errorf("cgroups left: %v", list)
				}
			})
		}
	}
}

// TestKilledSupervisor: when the program is killed, all processes that it started end. The
// next command removes the remains.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	b := newBench(t)
	for _, isolation := range []string{"full", "confined"} {
		for i := range 5 {
			t.Run(isolation+strconv.Itoa(i), func(t *testing.T) {
				time0 := seconds()
				cmd, _, stderr := b.command(t, "exec", "--policy", "dev", "--isolation", isolation, "--", "sh", "-c", "trap '' TERM; echo x >f; setsid sleep "+time0+" & sleep "+time0+"; sleep "+time0)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running(t, time0)
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				gone(t, time0)
				if stdout, errs, code := b.run(t, sh("echo next")...); stdout != "next\n" || errs != "" || code != 0 {
					t.Errorf("the next command: exit status %d, stdout %q, stderr %q", code, stdout, errs)
				}
				if list, err := os.ReadDir(b.temp); err != nil || len(list) > 0 {
					t.Errorf("left behind: %v (%v)", list, err)
				}
				// A sandbox of another test can be removing the cgroup. It stays while a process in it ends.
				for end := time.Now().Add(time.Minute); len(cgroupsOf(cmd.Process.Pid)) > 0 && time.Now().Before(end); {
					b.run(t, sh("true")...)
				}
				if list := cgroupsOf(cmd.Process.Pid); len(list) > 0 {
					t.Errorf("cgroups left: %v", list)
				}
				if list, err := os.ReadDir(b.work); err != nil || len(list) > 0 {
					t.Errorf("applied: %v (%v), %s", list, err, stderr)
				}
			})
		}
	}
}

// TestExitCodes: exec ends with the exit status of its command.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, code := range []int{0, 1, 2, 63, 64, 100, 124, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255} {
		if stdout, stderr, got := b.run(t, sh(fmt.Sprint("exit ", code))...); got != code || stdout+stderr != "" {
			t.Errorf("exit %d: exit status %d, stdout %q, stderr %q", code, got, stdout, stderr)
		}
	}
	for _, signal := range []int{1, 2, 3, 6, 9, 11, 13, 14, 15, 24, 31, 34, 64} {
		if stdout, stderr, got := b.run(t, sh(fmt.Sprint("kill -", signal, " $$"))...); got != 128+signal || stdout+stderr != "" {
			t.Errorf("signal %d: exit status %d, stdout %q, stderr %q", signal, got, stdout, stderr)
		}
	}
}

// TestNeverFlaky: a short command ends the same way every time.
func TestNeverFlaky(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	b := newBench(t)
	for i := range rehearsal.Count(15, 60) {
		if stdout, stderr, code := b.run(t, sh("echo hi")...); stdout != "hi\n" || stderr != "" || code != 0 {
			t.Fatalf("run %d: exit status %d, stdout %q, stderr %q", i, code, stdout, stderr)
		}
	}
}

// TestExecStreams: bytes pass unchanged, whatever kind of file the streams are.
func TestExecStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := make([]byte, 3<<20)
	for i := range all {
		all[i] = byte(i * i >> 3)
	}
	file := filepath.Join(b.dir, "bytes")
	if err := os.WriteFile(file, all, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("from a file to a file", func(t *testing.T) {
		cmd, _, stderr := b.command(t, sh("cat")...)
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := os.Create(filepath.Join(b.dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdin, cmd.Stdout = in, out
		if got := status(t, cmd.Run()); got != 0 {
			t.Fatalf("exit status %d, stderr %q", got, stderr)
		}
		if got, err := os.ReadFile(out.Name()); err != nil || !bytes.Equal(got, all) {
			t.Errorf("%d bytes came through (%v)", len(got), err)
		}
	})
	t.Run("from a pipe to a pipe", func(t *testing.T) {
		cmd, stdout, stderr := b.command(t, sh("cat >&2")...)
		cmd.Stdin = bytes.NewReader(all)
		if got := status(t, cmd.Run()); got != 0 || stdout.Len() > 0 || !bytes.Equal(stderr.Bytes(), all) {
			t.Errorf("exit status %d, %d bytes", got, stderr.Len())
		}
	})
	t.Run("from a pipe that stays open", func(t *testing.T) {
		cmd, stdout, _ := b.command(t, sh("echo done")...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		cmd.Stdin = r
		if got := status(t, cmd.Run()); got != 0 || stdout.String() != "done\n" {
			t.Errorf("exit status %d, %q", got, stdout)
		}
	})
	for name, redirect := range map[string]string{"closed input": "<&-", "no input": "</dev/null", "closed error": "2>&-"} {
		t.Run(name, func(t *testing.T) {
			cmd, stdout, _ := b.command(t)
			cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$0" "$@" ` + redirect, cmd.Path}, sh("cat; echo done; echo err >&2")...)
			if got := status(t, cmd.Run()); got != 0 || stdout.String() != "done\n" {
				t.Errorf("exit status %d, %q", got, stdout)
			}
		})
	}
	t.Run("closed output", func(t *testing.T) {
		cmd, _, stderr := b.command(t)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$0" "$@" >&-`, cmd.Path}, sh("echo hi; echo on >&2; exit 3")...)
		// The runtime opens a closed stream itself, so the bytes are lost.
		if got := status(t, cmd.Run()); got != 3 || stderr.String() != "on\n" {
			t.Errorf("exit status %d, stderr %q", got, stderr)
		}
	})
	t.Run("full output", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("no full device here: %v", err)
		}
		defer full.Close()
		cmd, _, stderr := b.command(t, sh("echo hi; exit 3")...)
		cmd.Stdout = full
		if got := status(t, cmd.Run()); got != runcmd.ExitOurs || !strings.Contains(stderr.String(), `"code":"RUN_E007"`) {
			t.Errorf("exit status %d, stderr %q", got, stderr)
		}
	})
	t.Run("a reader that goes away", func(t *testing.T) {
		cmd, _, _ := b.command(t, "exec", "--policy", "dev", "--timeout", "4m", "--", "yes")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		r.Close()
		got := status(t, cmd.Wait())
		if took := time.Since(begun); got == 0 || took > time.Minute {
			t.Errorf("exit status %d after %v", got, took)
		}
	})
}

// TestExecOnATerminal: the command has no terminal and cannot type there. Its output is
// unchanged, and the reason for its end is in words.
func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slave, master := rehearsal.Terminal(t)
	cmd, _, _ := b.command(t, sh("tty; test -t 0 || test -t 1 || test -t 2 || echo none; read line; echo \"read $?\"")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	screen, err := shown(t, cmd, slave, master)
	if got := status(t, err); got != 0 || screen != "not a tty\nnone\nread 1\n" {
		t.Errorf("exit status %d, screen %q", got, screen)
	}

	env := []string{"HOME=" + b.home, "TMPDIR=" + b.temp, "NO_COLOR=1"}
	for _, tc := range []struct {
		args []string
		want []string
		code int
	}{
		{[]string{"exec", "--policy", "dev", "--work", b.work, "--timeout", "1s", "--", "sleep", "30"}, []string{"fiador: ", "TIMEOUT"}, 143},
		{[]string{"exec", "--policy", "dev", "--work", b.work, "--", "no-such-command"}, []string{"fiador: ", "NOT_FOUND"}, 127},
		{[]string{"exec", "--policy", "dev", "--work", b.work, "--", "mkfifo", "p\x1b[2J"}, []string{"fiador: ", "OUTPUT_KIND"}, 125},
		{[]string{"exec", "--work", b.work, "--", "sh"}, []string{"REFUSE  exec  1 finding\n", "hint: use one of the profile's allowed_commands\n"}, 125},
		{[]string{"exec", "--policy", "dev", "--work", b.work, "--", "false"}, nil, 1},
	} {
		_, screen, code := onTerminal(t, env, tc.args...)
		if code != tc.code || strings.ContainsAny(screen, "\x1b") || tc.want == nil && screen != "" {
			t.Errorf("%q: exit status %d, screen %q", tc.args, code, screen)
		}
		for _, want := range tc.want {
			if !strings.Contains(screen, want) {
				t.Errorf("%q: %q is not on the screen %q", tc.args, want, screen)
			}
		}
	}
}

// TestInterruptOnATerminal: a Ctrl-C on the terminal reaches the program, which ends the
// command.
func TestInterruptOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slave, master := rehearsal.Terminal(t)
	time0 := seconds()
	cmd, _, _ := b.command(t, sh("sleep "+time0)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	seen := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master)
		seen <- string(text)
	}()
	running(t, time0)
	if _, err := master.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if got, screen := status(t, cmd.Wait()), <-seen; got != runcmd.ExitOurs || !strings.Contains(screen, "interrupted") {
		t.Errorf("exit status %d, screen %q", got, screen)
	}
	gone(t, time0)
}

// TestStepLine: a long execution shows the current action and its duration on a terminal,
// in one line that is cleared at the end.
func TestStepLine(t *testing.T) {
	t.Parallel() // it waits for six seconds
	b := newBench(t)
	intent := put(t, b.dir, "intent.json", `{"goal":"Wait","constraints":["now"],"actions":[{"kind":"run","argv":["sleep","1.6"]},{"kind":"run","argv":["sleep","1.6"]}]}`)
	var screen string
	code := 0
	for range 3 { // a program that stands still misses the moments to write the line
		_, screen, code = onTerminal(t, []string{"HOME=" + b.home, "TMPDIR=" + b.temp, "NO_COLOR=1"}, "run", intent, "--policy", "dev", "--mode", "execute-sandbox")
		if code != 0 || strings.Contains(screen, "action 1 of 2, ") && strings.Contains(screen, "action 2 of 2, ") {
			break
		}
	}
	if code != 0 || !strings.Contains(screen, "action 1 of 2, ") || !strings.Contains(screen, "action 2 of 2, ") || strings.Contains(screen, " s\n") {
		t.Errorf("exit status %d, screen %q", code, screen)
	}
	if _, errs, _ := b.run(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox"); errs != "" {
		t.Errorf("no terminal, and still %q", errs)
	}
}

// ordinary returns a copy of the program that another user can start.
func (b bench) ordinary(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	return installed(t, filepath.Join(b.dir, "fiador"))
}

// TestOrdinaryUser: another user, without a home, gets a message with the missing parts.
// Otherwise the results are those of root.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.ordinary(t)
	state := filepath.Join(b.dir, "state")
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(b.dir, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		env    string
		args   []string
		code   int
		stderr string
		stdout string
	}{
		{"no home", "A=", sh("echo x >f"), 125, "set HOME or XDG_STATE_HOME", ""},
		{"a state folder", "XDG_STATE_HOME=" + state, sh("id -u; echo x >f"), 0, "", "1000\n"},
		{"confined", "XDG_STATE_HOME=" + state, []string{"exec", "--policy", "dev", "--isolation", "confined", "--", "sh", "-c", "echo y >g"}, 0, "", ""},
		{"a folder that is not its own", "XDG_STATE_HOME=" + state, []string{"exec", "--policy", "dev", "--work", secret, "--", "true"}, 125, "permission denied", ""},
		{"doctor", "A=", []string{"doctor"}, 0, "", "yes  full"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd, stdout, stderr := b.command(t, tc.args...)
			cmd.Path, cmd.Env = path, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + b.temp, tc.env}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if got := status(t, cmd.Run()); got != tc.code || !strings.Contains(stderr.String(), tc.stderr) || (tc.stderr == "") != (stderr.Len() == 0) || !strings.HasPrefix(stdout.String(), tc.stdout) {
				t.Errorf("exit status %d, stdout %q, stderr %q", got, stdout, stderr)
			}
		})
	}
	for name, want := range map[string]string{"f": "x\n", "g": "y\n"} {
		if text, err := os.ReadFile(filepath.Join(b.work, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q (%v)", name, text, err)
		}
	}
}

// restrict changes a command so that its program runs in a user namespace that cannot have
// a further one, as on a machine where user.max_user_namespaces is 0. The shell that ends
// with 99 if it cannot set the limit becomes the program.
func restrict(cmd *exec.Cmd) {
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
}

// restricted runs the program as restrict changes it.
func (b bench) restricted(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd, out, errs := b.command(t, args...)
	restrict(cmd)
	err := cmd.Run()
	if code = status(t, err); code == 99 {
		t.Skipf("the limit of user namespaces cannot be set here: %s", errs)
	}
	return out.String(), errs.String(), code
}

// TestRestrictedMachine: without full isolation, a profile that demands it runs nothing
// and says why. Another profile runs with the available isolation.
func TestRestrictedMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	intent := b.intentOf(t, "touch out/second")
	written := put(t, b.dir, "written.json", `{"goal":"Write","constraints":["now"],"actions":[{"kind":"write","path":"out/a","content":""}]}`)
	stdout, _, code := b.restricted(t, "doctor")
	if code != 1 || !strings.HasPrefix(stdout, "no   full  full isolation: start: no space left on device") || !strings.Contains(stdout, "\nhint: ") || !strings.Contains(stdout, "\nyes  confined  writes are staged: copy\n") ||
		!strings.Contains(stdout, "\nprofiles that can execute here\n    no   strict      full      full isolation: start: ") || !strings.HasSuffix(stdout, "\n    yes  dev         confined\n") {
		t.Errorf("doctor: exit status %d\n%s", code, stdout)
	}
	for _, profile := range []string{"strict", "default"} {
		stdout, stderr, code := b.restricted(t, "run", written, "--policy", profile, "--mode", "execute-sandbox", "--promote", b.work)
		if code != 2 || stdout != "" || !strings.Contains(stderr, `{"code":"RUN_E005","details":{"cause":"userns-limit","errno":28,"hint":"ask the administrator for: sysctl -w user.max_user_namespaces=15000; or use a profile whose isolation is confined; built-in profiles that can execute here: dev","isolation":"full","step":"start"}`) {
			t.Errorf("run under %s: exit status %d, stdout %q, stderr %q", profile, code, stdout, stderr)
		}
	}
	if _, stderr, code := b.restricted(t, "exec", "--policy", "dev", "--isolation", "full", "--", "true"); code != 125 || !strings.Contains(stderr, `"cause":"userns-limit"`) {
		t.Errorf("exec --isolation full: exit status %d, stderr %q", code, stderr)
	}
	stdout, stderr, code := b.restricted(t, sh("pwd >f; echo hi")...)
	if code != 0 || stdout != "hi\n" || stderr != "" {
		t.Errorf("exec: exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(b.work, "f")); err != nil || strings.HasPrefix(string(text), "/work") {
		t.Errorf("f is %q (%v)", text, err)
	}

	// The canonical result does not depend on the machine.
	here, _, code := b.run(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox")
	if code != 0 {
		t.Fatalf("exit status %d", code)
	}
	there, _, code := b.restricted(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox")
	if code != 0 || !bytes.Equal(subset(t, []byte(here)), subset(t, []byte(there))) {
		t.Errorf("exit status %d\n got %s\nwant %s", code, there, here)
	}
}

// TestNarrowLimits: limits of the caller that are narrower than the sandbox's stay in
// force and cause no error.
func TestNarrowLimits(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	b := newBench(t)
	for _, limit := range []string{"-n 256", "-u 60", "-l 8", "-d 300000", "-c 0"} {
		t.Run(limit, func(t *testing.T) {
			cmd, stdout, stderr := b.command(t)
			cmd.Path, cmd.Args = "/bin/bash", append([]string{"bash", "-c", "ulimit " + limit + ` || exit 99; exec "$0" "$@"`, cmd.Path}, sh("ulimit -n; echo hi")...)
			if _, err := os.Stat(cmd.Path); err != nil {
				t.Skip("bash is not installed here")
			}
			if os.Getuid() != 0 && limit == "-u 60" {
				t.Skip("the limit counts all processes of the user")
			}
			if got := status(t, cmd.Run()); got != 0 || !strings.HasSuffix(stdout.String(), "\nhi\n") || stderr.Len() > 0 {
				t.Errorf("exit status %d, stdout %q, stderr %q", got, stdout, stderr)
			}
			if limit == "-n 256" && stdout.String() != "256\nhi\n" {
				t.Errorf("the limit has become wider: %q", stdout)
			}
		})
	}
}

// mounted runs the program with a file system in memory mounted on a folder. Only root can
// do that.
func (b bench) mounted(t *testing.T, options, dir string, args ...string) (listing, stderr string, code int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	cmd, stdout, errs := b.command(t)
	script := `d=$1 o=$2; shift 2; mount -t tmpfs -o size=64k none "$d" && mount -o remount,"$o" "$d" || exit 99
"$@" >/dev/null; code=$?; ls -AR "$d"; exit $code`
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh", dir, options, cmd.Path}, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if code = status(t, cmd.Run()); code == 99 {
		t.Skipf("no file system can be mounted here: %s", errs)
	}
	return strings.TrimSpace(strings.TrimPrefix(stdout.String(), dir+":")), errs.String(), code
}

// TestFolderThatTakesNothing: if the outputs cannot be applied because the folder is
// read-only or full, the folder is unchanged.
func TestFolderThatTakesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	intent := b.intentOf(t, "head -c 100000 /dev/zero >out/big")
	for _, options := range []string{"ro", "rw"} {
		for _, args := range [][]string{
			append([]string{"exec", "--policy", "dev", "--work", b.work}, sh("mkdir d; echo x >d/a; head -c 100000 /dev/zero >d/big; echo y >z")[3:]...),
			{"run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--promote", b.work, "--pack", filepath.Join(b.dir, "pack")},
		} {
			listing, stderr, code := b.mounted(t, options, b.work, args...)
			want := map[string]int{"exec": runcmd.ExitOurs, "run": cli.ExitError}[args[0]]
			if code != want || !strings.Contains(stderr, `"code":"RUN_E006"`) || listing != "" {
				t.Errorf("%s, %s: exit status %d, stderr %q, the folder now has %q", options, args[0], code, stderr, listing)
			}
		}
	}
	if list, err := filepath.Glob(filepath.Join(b.home, ".local/state/fiador/*")); err != nil || len(list) > 0 {
		t.Errorf("journals left: %v (%v)", list, err)
	}
	if list, err := filepath.Glob(filepath.Join(b.dir, "*pack*")); err != nil || len(list) > 0 {
		t.Errorf("a pack of what was not promoted: %v (%v)", list, err)
	}
}

// TestEvidenceIsNotTheCommands: a command that can write into the folder of its evidence
// cannot divert the evidence.
func TestEvidenceIsNotTheCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, script := range map[string]string{
		"a file":   "ln -s ../../victim/file ev/stdout; echo evil",
		"a folder": "rm -r ev; ln -s ../victim ev; echo evil",
	} {
		for _, write := range []string{"direct", "staged"} {
			t.Run(name+"/"+write, func(t *testing.T) {
				victim := filepath.Join(b.dir, "victim")
				if err := os.Mkdir(victim, 0o755); err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(victim)
				defer os.RemoveAll(filepath.Join(b.work, "ev"))
				put(t, victim, "file", "kept\n")
				stdout, stderr, code := b.run(t, "exec", "--policy", "dev", "--write", write, "--evidence", "ev", "--", "sh", "-c", script)
				if text, err := os.ReadFile(filepath.Join(victim, "file")); err != nil || string(text) != "kept\n" {
					t.Errorf("the victim is now %q (%v); exit status %d, stdout %q, stderr %q", text, err, code, stdout, stderr)
				}
				if list, err := os.ReadDir(victim); err != nil || len(list) != 1 {
					t.Errorf("the victim's folder has %v (%v)", list, err)
				}
			})
		}
	}
}

// TestPreservedIsBounded: the kept files take no more room than the profile allows to
// write.
func TestPreservedIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, stderr, code := b.run(t, "run", b.intentOf(t, "truncate -s 400M out/big; echo small >out/small"), "--policy", "dev", "--mode", "execute-sandbox", "--preserve-sandbox")
	kept, err := filepath.Glob(filepath.Join(b.temp, "fiador-work-*"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks int64
	for _, dir := range kept {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				blocks += info.Sys().(*syscall.Stat_t).Blocks
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	}
	if most := int64(104857600/512 + 1000); blocks > most {
		t.Errorf("%d blocks kept, more than %d; exit status %d, stderr %q", blocks, most, code, stderr)
	}
}

// TestExecOverTheNetwork: under no built-in profile can a command reach the host.
func TestExecOverTheNetwork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("python3 is not installed here")
	}
	server := rehearsal.Serve(t)
	connect := fmt.Sprintf("import socket; socket.create_connection(('127.0.0.1', %d), 2); print('connected')", server.Port)
	for _, isolation := range []string{"full", "confined"} {
		stdout, stderr, code := b.run(t, "exec", "--policy", "dev", "--isolation", isolation, "--", "/usr/bin/python3", "-c", connect)
		if code != 1 || stdout != "" {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", isolation, code, stdout, stderr)
		}
	}
	if n := server.Calls.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}

// TestPanicIsOurs: every failure in exec itself is status 125, and so is a help text that
// cannot be written.
func TestPanicIsOurs(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no full device here: %v", err)
	}
	defer full.Close()
	cmd := command(t, "exec", "--help")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &stderr
	if got := status(t, cmd.Run()); got != runcmd.ExitOurs || !strings.Contains(stderr.String(), string(result.CodeInternal)) {
		t.Errorf("exit status %d, stderr %q", got, &stderr)
	}
}
