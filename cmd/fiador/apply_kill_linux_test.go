//go:build amd64 || arm64

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// callInfo is struct ptrace_syscall_info for the start of a system call.
type callInfo struct {
	Op     uint8
	_      [3]uint8
	Arch   uint32
	IP, SP uint64
	Number uint64
	Args   [6]uint64
	_      [4]uint64
}

const (
	ptraceGetCallInfo = 0x420e
	callBegins        = 1
)

// changing names the system calls that change a file system, and the start of a program.
func changing(pid int, c callInfo) string {
	named := map[uint64]string{
		unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
		unix.SYS_SYMLINKAT: "symlink", unix.SYS_LINKAT: "link", unix.SYS_FCHMOD: "chmod", unix.SYS_FCHMODAT: "chmod",
		unix.SYS_FCHOWN: "chown", unix.SYS_FCHOWNAT: "chown", unix.SYS_FTRUNCATE: "truncate", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fsync",
		unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_SENDFILE: "copy", unix.SYS_SPLICE: "copy",
	}
	switch c.Number {
	case unix.SYS_OPENAT:
		if c.Args[2]&unix.O_CREAT != 0 {
			return "create"
		}
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, c.Args[0])); err == nil && strings.HasPrefix(to, "/") && c.Args[0] > 2 {
			return "write"
		}
	case unix.SYS_CLONE:
		if c.Args[0]&unix.CLONE_THREAD == 0 {
			return "start"
		}
	}
	return named[c.Number]
}

// stepped is signalled with SIGKILL.
func stepped(t *testing.T, cmd *exec.Cmd, n int) (calls []string, status int) {
	t.Helper()
	return signalled(t, cmd, n, syscall.SIGKILL)
}

// signalled runs a program and sends it a signal before its nth call that changes
// something, counted from 0 over all threads. It waits for the end of the program and of
// the programs that it has started. It returns the calls that were begun, up to the one
// that killed the program, and the exit status; -1: the program was killed.
func signalled(t *testing.T, cmd *exec.Cmd, n int, sig syscall.Signal) (calls []string, status int) {
	t.Helper()
	runtime.LockOSThread() // ptrace accepts requests only from the tracing thread
	defer runtime.UnlockOSThread()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	pid, err := syscall.ForkExec(cmd.Path, cmd.Args, &syscall.ProcAttr{
		Dir: cmd.Dir, Env: cmd.Env, Files: []uintptr{0, out.Fd(), out.Fd()},
		Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		t.Skipf("no process can be traced here: %v", err)
	}
	defer ended(t, pid, filepath.Dir(cmd.Dir))
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		t.Fatalf("%v, %v", ws, err)
	}
	if err := syscall.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		t.Fatal(err)
	}
	begun := map[int]bool{pid: true} // threads whose first stop was seen
	for at, signal := pid, 0; ; {
		if err := syscall.PtraceSyscall(at, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		for at, err = -1, syscall.EINTR; errors.Is(err, syscall.EINTR); {
			at, err = syscall.Wait4(-pid, &ws, syscall.WALL, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		signal = 0
		switch {
		case at == pid && ws.Exited():
			text, _ := os.ReadFile(out.Name())
			if code := ws.ExitStatus(); code != cli.ExitAccepted && len(calls) <= n {
				t.Errorf("exit status %d\n%s", code, text)
			}
			return calls, ws.ExitStatus()
		case at == pid && ws.Signaled():
			return calls, -1
		case !ws.Stopped():
		case ws.StopSignal() == syscall.SIGTRAP|0x80:
			var c callInfo
			_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceGetCallInfo, uintptr(at), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)), 0, 0)
			if errno == syscall.ESRCH {
				continue // SIGKILL, sent at a call of another thread, has ended this thread
			}
			if errno != 0 {
				t.Skipf("system calls cannot be looked at here: %v", errno)
			}
			if name := changing(pid, c); c.Op == callBegins && name != "" {
				if len(calls) == n {
					if err := syscall.Kill(pid, sig); err != nil {
						t.Fatal(err)
					}
				}
				calls = append(calls, name)
			}
		case ws.StopSignal() == syscall.SIGSTOP && !begun[at]:
			begun[at] = true
		case ws.StopSignal() != syscall.SIGTRAP:
			signal = int(ws.StopSignal())
		}
	}
}

// ended waits until no process of a group is left, and no process that works beneath a
// folder. git has a group of its own, and continues when fiador is killed.
func ended(t *testing.T, group int, beneath string) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && !worksBeneath(beneath) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("programs of a command that was killed are still there after a minute")
		}
	}
}

// worksBeneath reports whether a process has its working directory beneath a folder.
func worksBeneath(dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	list, _ := filepath.Glob("/proc/[0-9]*/cwd")
	return slices.ContainsFunc(list, func(link string) bool {
		at, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(at, dir+"/")
	})
}

// shot returns a tree as text, without the internal files of git.
func shot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%q %v", rel, info.Mode())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// stage is a bench with a pack that creates, modifies and deletes files of trees.
type stage struct {
	bench
	pack string
}

func newStage(t *testing.T) stage {
	b := newBench(t)
	s := stage{b, filepath.Join(b.dir, "pack")}
	s.tree(t, b.work)
	script := `printf new >out/changed; printf '#!new' >tool; chmod +x tool; rm gone out/gone; mkdir -p out/n; printf 'a\0b' >out/n/bin; printf 'text\n' >new.txt`
	if _, stderr, code := s.run(t, "run", b.intentOf(t, script), "--policy", "dev", "--mode", "execute-sandbox", "--work", b.work, "--pack", s.pack); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	return s
}

// tree makes a tree that the pack fits.
func (s stage) tree(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kept": "kept", "out/changed": "old", "tool": "#!old", "gone": "old", "out/gone": "old"} {
		put(t, dir, name, text)
	}
	return dir
}

// TestApplyKilled kills apply before each system call that changes something. After the
// next command on the tree, --recover or another, the tree is as before or complete.
func TestApplyKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newStage(t)
	before := shot(t, s.tree(t, filepath.Join(s.dir, "before")))
	done := s.tree(t, filepath.Join(s.dir, "done"))
	if _, stderr, code := s.run(t, "apply", s.pack, "--to", done); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	after := shot(t, done)
	seen, told, stride := map[string]bool{}, false, rehearsal.Stride(7)
	for n := 0; ; n += stride {
		dir := s.tree(t, filepath.Join(s.dir, "tree"))
		cmd, _, _ := s.command(t, "apply", s.pack, "--to", dir)
		calls, code := stepped(t, cmd, n)
		again := []string{"apply", "--recover", "--to", dir}
		if n%2 == 1 {
			again = []string{"apply", s.pack, "--to", dir, "--dry-run"}
		}
		stdout, stderr, ended := s.run(t, again...)
		if ended != cli.ExitAccepted {
			t.Fatalf("step %d, %q: exit status %d\n%s", n, calls, ended, stderr)
		}
		got := shot(t, dir)
		if strings.Contains(stdout+stderr, "is complete now") && got != after || strings.Contains(stdout+stderr, "is undone") && got != before {
			t.Errorf("step %d, %q: the tree is not what was said\n%s%s", n, calls, stdout, stderr)
		}
		told = told || strings.Contains(stdout+stderr, "is complete now")
		if got != before && got != after {
			t.Fatalf("step %d, %q: the tree is in between\n%s", n, calls, got)
		}
		seen[got] = true
		s.swept(t)
		if stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir); code != cli.ExitAccepted || shot(t, dir) != after {
			t.Fatalf("step %d, %q: applied again with exit status %d\n%s%s", n, calls, code, stdout, stderr)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if code >= 0 {
			if n < 50 || !seen[before] || !seen[after] || !told {
				t.Errorf("%d calls that change something: %q", n, calls)
			}
			return
		}
	}
}

// TestApplySignalled: after a signal that asks it to end, apply leaves a tree that is as
// before or complete. It says which, and leaves nothing to recover.
func TestApplySignalled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newStage(t)
	dir := s.tree(t, filepath.Join(s.dir, "tree"))
	before := shot(t, dir)
	if _, stderr, code := s.run(t, "apply", s.pack, "--to", dir); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	after := shot(t, dir)
	for n, sent := 0, true; sent; n += 6 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		s.tree(t, dir)
		cmd, _, _ := s.command(t, "apply", s.pack, "--to", dir)
		calls, code := signalled(t, cmd, n, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[n/6%3])
		want := map[int]string{cli.ExitAccepted: after, cli.ExitError: before}[code]
		if got := shot(t, dir); got != want {
			t.Errorf("step %d, %q: exit status %d\n%s", n, calls, code, got)
		}
		if stdout, stderr, code := s.run(t, "apply", "--recover", "--to", dir); code != cli.ExitAccepted || !strings.Contains(stdout, "nothing was unfinished") {
			t.Errorf("step %d, %q: exit status %d\n%s", n, calls, code, stderr)
		}
		s.swept(t)
		sent = len(calls) > n
	}
}

// swept checks that no journal is left.
func (s stage) swept(t *testing.T) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(s.home, ".local/state/fiador"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(list) > 0 {
		t.Fatalf("left in the state folder: %v, %v", list, err)
	}
}

// repository makes a tree a git work tree with one commit. Every hook, monitor and filter
// that git could run there leaves a file "ran" beside the tree.
func (s stage) repository(t *testing.T, dir string) string {
	t.Helper()
	s.tree(t, dir)
	trap := executable(t, filepath.Join(s.dir, "trap"), strings.NewReader("#!/bin/sh\n>>"+s.dir+"/ran\ncat\n"))
	put(t, dir, ".gitattributes", "* filter=trap\n")
	s.git(t, dir, "init", "-q", "-b", "main")
	s.git(t, dir, "add", "-A")
	s.git(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first")
	for _, c := range []string{"core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "filter.x=y.process", "core.sshCommand"} {
		s.git(t, dir, "config", c, trap)
	}
	s.git(t, dir, "config", "filter.trap.required", "true")
	s.git(t, dir, "config", "user.useConfigOnly", "true")
	for _, hook := range []string{"reference-transaction", "post-checkout", "post-index-change", "pre-commit", "post-commit", "fsmonitor-watchman"} {
		if err := os.Symlink(trap, filepath.Join(dir, ".git/hooks", hook)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// git runs git itself.
func (s stage) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// gitKept returns the parts of a repository that apply never changes.
func gitKept(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"config", "index", "info/exclude", "description"} {
		info, err := os.Stat(filepath.Join(dir, ".git", name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, ".git", name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %v %v %q\n", name, info.Mode(), info.ModTime().UnixNano(), text)
	}
	hooks, err := os.ReadDir(filepath.Join(dir, ".git/hooks"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := filepath.Glob(filepath.Join(dir, ".git/objects/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, hooks, objects)
	return b.String()
}

// heads returns the branches with their commits, and the ref that HEAD names.
func heads(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"HEAD", "refs/heads/main", "refs/heads/agent/x"} {
		text, err := os.ReadFile(filepath.Join(dir, ".git", name))
		if err == nil {
			fmt.Fprintf(&b, "%s %s", name, text)
		}
	}
	locks, _ := filepath.Glob(filepath.Join(dir, ".git/*.lock"))
	fmt.Fprint(&b, locks)
	return b.String()
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// TestApplyBranchKilled kills apply --git-branch before each system call that changes
// something. After recovery the tree is as before or complete. HEAD and every branch are
// at the same commits as before. If the tree is complete, HEAD is on the branch. The same
// command completes the change when it runs again.
func TestApplyBranchKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	needGit(t)
	s := newStage(t)
	first, done := s.repository(t, filepath.Join(s.dir, "first")), filepath.Join(s.dir, "done")
	cpTree(t, first, done)
	before, headsBefore := shot(t, first), heads(t, first)
	if _, stderr, code := s.run(t, "apply", s.pack, "--to", done, "--git-branch", "agent/x"); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	after, headsAfter := shot(t, done), heads(t, done)
	between := headsBefore[:len(headsBefore)-len("[]")] + strings.Replace(strings.SplitN(headsBefore, "\n", 3)[1], "main", "agent/x", 1) + "\n[]"
	if headsAfter != strings.Replace(between, "ref: refs/heads/main", "ref: refs/heads/agent/x", 1) {
		t.Fatalf("%s\n%s", headsBefore, headsAfter)
	}
	seen := map[string]bool{}
	for n, stride := 0, 1; ; n += stride {
		dir := filepath.Join(s.dir, "tree")
		cpTree(t, first, dir)
		kept := gitKept(t, dir)
		cmd, _, _ := s.command(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x")
		calls, code := stepped(t, cmd, n)
		if _, stderr, code := s.run(t, "apply", "--recover", "--to", dir); code != cli.ExitAccepted {
			t.Fatalf("step %d, %q: exit status %d\n%s", n, calls, code, stderr)
		}
		tree, at := shot(t, dir), heads(t, dir)
		ok := tree == before && slices.Contains([]string{headsBefore, between, headsAfter}, at) || tree == after && at == headsAfter
		if !ok || gitKept(t, dir) != kept {
			t.Fatalf("step %d, %q: the tree is\n%s\nand git has\n%s", n, calls, tree, at)
		}
		seen[tree], seen[at] = true, true
		// TestApplyKilled covers each step after those of git.
		if stride = 1; !rehearsal.Full() || calls[len(calls)-1] != "start" {
			stride = rehearsal.Count(13, 7)
		}
		if stdout, stderr, code := s.run(t, "apply", s.pack, "--to", dir, "--git-branch", "agent/x"); code != cli.ExitAccepted || shot(t, dir) != after || heads(t, dir) != headsAfter {
			t.Fatalf("step %d, %q: applied again with exit status %d\n%s%s\n%s", n, calls, code, stdout, stderr, heads(t, dir))
		}
		if _, err := os.Lstat(filepath.Join(s.dir, "ran")); err == nil {
			t.Fatalf("step %d: a hook, a monitor or a filter ran", n)
		}
		s.swept(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if code >= 0 {
			if n < 50 || !seen[before] || !seen[after] || !seen[headsBefore] || rehearsal.Full() && !seen[between] || !slices.Contains(calls, "start") {
				t.Errorf("%d calls that change something: %q", n, calls)
			}
			return
		}
	}
}

// cpTree copies a folder with modes, times and links.
func cpTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
