//go:build amd64 || arm64

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/runcmd"
)

// halfApplied makes a tree that a killed apply has left half changed.
func (s stage) halfApplied(t *testing.T) string {
	t.Helper()
	whole := s.tree(t, filepath.Join(s.dir, "whole"))
	before := shot(t, whole)
	cmd, _, _ := s.command(t, "apply", s.pack, "--to", whole)
	calls, _ := stepped(t, cmd, 1<<20)
	last := len(calls) - 1
	for calls[last] != "rename" {
		last--
	}
	dir := s.tree(t, filepath.Join(s.dir, "half"))
	cmd, _, _ = s.command(t, "apply", s.pack, "--to", dir)
	if _, code := stepped(t, cmd, last-1); code != -1 {
		t.Fatalf("exit status %d after %q", code, calls)
	}
	if half := shot(t, dir); half == before || half == shot(t, whole) {
		t.Fatal("the tree is not half changed")
	}
	return dir
}

// journals returns the journals of the bench's user.
func (b bench) journals(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.home, ".local/state/fiador/apply-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestWorkIsNotRecovered: a folder that a command only reads is not changed, even if a
// killed command has left it half changed.
func TestWorkIsNotRecovered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir := s.halfApplied(t)
	half := shot(t, dir)
	intent := filepath.Join(s.dir, "intent.json")
	commands := map[string][]string{
		"reproduce": {"reproduce", s.pack, "--intent", intent, "--work", dir},
		"run":       {"run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--work", dir},
	}
	for name, args := range commands {
		for range 2 {
			stdout, stderr, code := s.run(t, args...)
			if code != cli.ExitError || stdout != "" || !strings.Contains(stderr, "an interrupted command has begun to apply something to it") {
				t.Errorf("%s: exit status %d\n%s%s", name, code, stdout, stderr)
			}
			if got := shot(t, dir); got != half {
				t.Fatalf("%s: the folder was\n%s\nand is\n%s", name, half, got)
			}
		}
	}
	if stdout, _, code := s.run(t, "apply", "--recover", "--to", dir); code != cli.ExitAccepted || !strings.Contains(stdout, "is complete now") {
		t.Fatalf("exit status %d\n%s", code, stdout)
	}
	s.swept(t)
	for name, args := range commands {
		if _, stderr, code := s.run(t, args...); code == cli.ExitError {
			t.Errorf("%s: exit status %d\n%s", name, code, stderr)
		}
	}
	if left := s.journals(t); len(left) > 0 {
		t.Errorf("%q", left)
	}
}

// TestWorkNeedsNoState: a command that changes nothing needs no folder of journals.
func TestWorkNeedsNoState(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	intent := filepath.Join(s.dir, "intent.json")
	cmd, stdout, stderr := s.command(t, "reproduce", s.pack, "--intent", intent, "--work", s.work)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") })
	if code := status(t, cmd.Run()); code != cli.ExitAccepted || !strings.HasPrefix(stdout.String(), "MATCH") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := s.run(t, "reproduce", s.pack, "--intent", intent, "--work", s.work); code != cli.ExitAccepted {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if list, err := os.ReadDir(s.home); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestWaitingForAnother: a command that waits for the journal of a folder says so. A
// Ctrl-C ends it, and it has changed nothing.
func TestWaitingForAnother(t *testing.T) {
	t.Parallel() // it waits for five seconds
	s := newStage(t)
	dir := s.halfApplied(t)
	half := shot(t, dir)
	held, err := os.Open(s.journals(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	intent := filepath.Join(s.dir, "intent.json")
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"apply":     {[]string{"apply", s.pack, "--to", dir}, cli.ExitError},
		"recover":   {[]string{"apply", "--recover", "--to", dir}, cli.ExitError},
		"exec":      {[]string{"exec", "--policy", "dev", "--work", dir, "--", "true"}, runcmd.ExitOurs},
		"promote":   {[]string{"run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--promote", dir}, cli.ExitError},
		"reproduce": {[]string{"reproduce", s.pack, "--intent", intent, "--work", dir}, cli.ExitError},
	} {
		cmd, stdout, _ := s.command(t, c.args...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		hung := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		var said bytes.Buffer
		for !strings.Contains(said.String(), "another command is changing the folder: waiting") {
			if _, err := io.CopyN(&said, r, 1); err != nil {
				break
			}
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(&said, r)
		r.Close()
		if code := status(t, cmd.Wait()); code != c.code || stdout.Len() > 0 || !strings.Contains(said.String(), "nothing was changed") || strings.Count(said.String(), "waiting") != 1 {
			t.Errorf("%s: exit status %d\n%s%s", name, code, stdout, &said)
		}
		if !hung.Stop() {
			t.Fatalf("%s does not end", name)
		}
		if got := shot(t, dir); got != half {
			t.Errorf("%s: the folder was\n%s\nand is\n%s", name, half, got)
		}
	}
}

// TestForeignState: no command uses a folder of journals that others can write, because it
// would carry out the journals in it. A folder that fiador itself has made is used,
// whatever the umask is.
func TestForeignState(t *testing.T) {
	s := newStage(t)
	old := syscall.Umask(0)
	stdout, stderr, code := s.run(t, "exec", "--policy", "dev", "--", "sh", "-c", "echo >made")
	syscall.Umask(old)
	if code != 0 {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	dir := s.halfApplied(t)
	half := shot(t, dir)
	if err := os.Chmod(filepath.Join(s.home, ".local/state/fiador"), 0o777); err != nil {
		t.Fatal(err)
	}
	intent := filepath.Join(s.dir, "intent.json")
	for name, args := range map[string][]string{
		"apply":     {"apply", s.pack, "--to", dir},
		"recover":   {"apply", "--recover", "--to", dir},
		"exec":      {"exec", "--policy", "dev", "--work", dir, "--", "true"},
		"promote":   {"run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--promote", dir},
		"run":       {"run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--work", dir},
		"reproduce": {"reproduce", s.pack, "--intent", intent, "--work", dir},
	} {
		_, stderr, code := s.run(t, args...)
		if want := map[bool]int{true: runcmd.ExitOurs, false: cli.ExitError}[name == "exec"]; code != want || !strings.Contains(stderr, "belongs to another user, or others can write to it") {
			t.Errorf("%s: exit status %d\n%s", name, code, stderr)
		}
		if got := shot(t, dir); got != half {
			t.Fatalf("%s: the folder was\n%s\nand is\n%s", name, half, got)
		}
	}
}

// TestReadAgain: a path that is named twice, lies in a named one, or is shown anyway can
// be read, in whatever order the paths come.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, d := range []string{"rd/sub", "else"} {
		if err := os.MkdirAll(filepath.Join(b.work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b.work, "rd/sub/f", "text")
	put(t, b.work, "else/f", "text")
	for link, to := range map[string]string{"rl": "rd", "rd/in": "sub", "rd/out": "../else"} {
		if err := os.Symlink(to, filepath.Join(b.work, link)); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(b.dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	given := func(read ...string) []string {
		args := []string{"exec", "--policy", "dev", "--isolation", "full", "--work", empty}
		for _, r := range read {
			args = append(args, "--read", r)
		}
		return args
	}
	abs := func(p string) string { return filepath.Join(b.work, p) }
	cat := func(p string) []string { return []string{"--", "sh", "-c", "cat " + p} }
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, then []string }{
		{given("rd", "rd"), cat(abs("rd/sub/f"))},
		{given("rd/sub/f", "./rd/sub/f"), cat(abs("rd/sub/f"))},
		{given("rd", "rd/sub/f"), cat(abs("rd/sub/f"))},
		{given("rd/sub/f", "rd"), cat(abs("rd/sub/f"))},
		{given("rd", "rd/in"), cat(abs("rd/in/f"))},
		{given("rd", "rl", "rl/sub"), cat(abs("rl/sub/f"))},
		{given("else", "rd", "rd/out"), cat(abs("rd/out/f"))},
		{given("/usr/bin", "/usr", "/bin", "/bin/sh", "rd"), cat(abs("rd/sub/f"))},
	} {
		stdout, stderr, code := b.run(t, append(c.args, c.then...)...)
		if code != 0 || stdout != "text" {
			t.Errorf("%q: exit status %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	if stdout, stderr, code := b.run(t, append(given("/usr/bin", "/etc/passwd"), cat("/etc/passwd")...)...); code != 0 || stdout != string(passwd) {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := b.run(t, append(given("rd"), cat("/etc/passwd")...)...); code != 0 || stdout == string(passwd) {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code := b.run(t, append(given("rd", "rd/out"), "--", "true")...); code != runcmd.ExitOurs || !strings.Contains(stderr, "a link that leads out of it") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}
