//go:build linux && (amd64 || arm64)

package worker_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
)

// folder makes a work folder with all that one can hold.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	for _, name := range []string{"", "a", "empty", "deep", "deep/er", "deep/er/est", "gone", "again", "locked", "mine"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{
		"a/file": 0o644, "a/same": 0o644, "a/touched": 0o644, "exec.sh": 0o755, "ro.txt": 0o444, "private": 0o600, "odd": 0o640,
		"deep/er/est/file": 0o644, "deep/file": 0o644, "gone/x": 0o644, "again/old": 0o644, "again/kept": 0o644, "locked/file": 0o644, "mine/file": 0o600, "zero": 0o644,
	} {
		text := []byte("#!/bin/sh\necho " + name + "\n")
		if name == "zero" {
			text = nil
		}
		if err := copiedText(filepath.Join(dir, name), text, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": "a/file", "dangling": "nowhere", "up": "a/../a", "out": "/etc/passwd", "deep/back": "../ro.txt", "swap": "a/file"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "locked"), 0o555), os.Chmod(filepath.Join(dir, "mine"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "locked"), 0o755) })
	return dir
}

func copiedText(to string, text []byte, mode fs.FileMode) error {
	return errors.Join(os.WriteFile(to, text, 0o600), os.Chmod(to, mode))
}

// seen prints all that a command sees of the work folder.
const seen = `find . | LC_ALL=C sort | while read -r f; do
	if [ -L "$f" ]; then echo "$f -> $(readlink "$f")"; else stat -c '%n %A' "$f"; fi
	if [ -f "$f" ]; then cat "$f"; fi
done; id -u | grep -c .`

// deeds are changes of every kind.
const deeds = `set -e
echo more >>a/file; cp a/same x; cat x >a/same; rm x; touch a/touched
echo new >new; mkdir -p n/e/w; echo deep >n/e/w/file; mkdir bare
rm -f ro.txt; rm -r gone; ln -s a/file linked; ln a/file hard; ln -sfn deep link; rm dangling
chmod 755 private; chmod 644 exec.sh; chmod 444 odd; : >zero; : >none
mv deep/er moved; rm -r again; mkdir again; echo kept >again/new
rm swap; mkdir swap; echo x >swap/x; mkfifo pipe; printf 'a\nb' >"$(printf 'odd \377 name')"
truncate -s 1M holes; echo to stdout; echo to stderr >&2`

// scripts are what the test of equality performs: the actions, their standard inputs, and more.
type script struct {
	name    string
	actions []sandbox.Action
	stdin   map[int]string
	set     func(*job.Spec)
	tiers   []sandbox.Isolation // nil: all
	group   bool                // only where a cgroup limits the memory, as it limits that of this process
	prompt  []int64             // bytes that each command has printed when the time is over; a slow machine may be late with them
}

func scripts() []script {
	write := func(path, content string) sandbox.Action { return sandbox.Action{Path: path, Content: []byte(content)} }
	program := sandbox.Action{Path: "bin/tool", Content: []byte("#!/bin/sh\necho tool \"$@\"; ls\n"), Executable: true}
	short := func(s *job.Spec) { s.StdoutMax, s.StderrMax = 100, 50 }
	return []script{
		{name: "what is seen", actions: []sandbox.Action{sh(seen), sh("stat -c %a . ; cat; test -c /dev/stdin && echo none")}, stdin: map[int]string{0: ""}},
		{name: "changes", actions: []sandbox.Action{sh(deeds), sh(seen)}},
		{name: "writes", actions: []sandbox.Action{
			write("new/folder/file", "1\n"), write("a/file", "all new\n"), write("exec.sh", "no program\n"), program,
			{Argv: []string{"../bin/tool", "x"}, Dir: "deep", Env: []string{"A=1"}}, {Argv: []string{"sh", "-c", "env | grep -v /"}, Env: []string{"B=2"}}, sh(seen),
		}},
		{name: "a write through a link", actions: []sandbox.Action{write("link", "x"), sh("echo never")}},
		{name: "a write onto a folder", actions: []sandbox.Action{sh("echo first"), write("deep", "x"), sh("echo never")}},
		{name: "standard input", actions: []sandbox.Action{{Argv: []string{"cat"}}, {Argv: []string{"wc", "-c"}}}, stdin: map[int]string{0: "in\x00put\xff", 1: strings.Repeat("long\n", 50_000)}},
		{name: "stop at the first failure", actions: []sandbox.Action{sh("echo 1 >one"), sh("echo 2 >two; exit 3"), sh("echo 3 >three")}},
		{name: "a code that is no failure", actions: []sandbox.Action{sh("exit 3"), sh("exit 3"), sh("exit 4"), sh("echo never")}, set: func(s *job.Spec) {
			for i := range s.Actions {
				s.Actions[i].Code = 3
			}
		}},
		{name: "a signal is no code", actions: []sandbox.Action{sh("kill -9 $$"), sh("echo never")}, set: func(s *job.Spec) { s.Actions[0].Code = 137 }},
		{name: "a cut stream", actions: []sandbox.Action{sh("seq 1000"), sh("echo never")}, set: short},
		{name: "a cut stream that is no failure", actions: []sandbox.Action{sh("seq 1000"), sh("seq 1000 >&2"), sh("echo last")}, set: func(s *job.Spec) {
			short(s)
			s.Cut = true
		}},
		{name: "timeout", actions: []sandbox.Action{sh("echo begun; exec sleep 60"), sh("echo never")}, set: func(s *job.Spec) { s.Actions[0].TimeoutMS = 300 }, prompt: []int64{6}},
		{name: "budget of all commands", actions: []sandbox.Action{sh("sleep 0.1"), sh("exec sleep 60"), sh("echo never")}, set: func(s *job.Spec) { s.BudgetMS, s.Actions[1].TimeoutMS = 700, 50_000 }, prompt: []int64{0, 0}},
		{name: "not found", actions: []sandbox.Action{{Argv: []string{"fiador-no-such-command"}}}},
		{name: "not executable", actions: []sandbox.Action{{Argv: []string{"./a/file"}}}},
		{name: "the memory for files is full", actions: []sandbox.Action{sh("head -c 50000000 /dev/zero >big; true"), sh("echo after")}, tiers: []sandbox.Isolation{sandbox.Full}},
		{name: "a file over the limit", actions: []sandbox.Action{sh("truncate -s 11M a/big; echo after >z")}, tiers: []sandbox.Isolation{sandbox.Confined}},
		{name: "out of memory", actions: []sandbox.Action{sh("head -c 63000000 /dev/zero >/tmp/a; exec head -c 63000000 /dev/zero >/dev/shm/b"), sh("echo never")},
			set: func(s *job.Spec) { s.Limits.MemoryMB = 64 }, tiers: []sandbox.Isolation{sandbox.Full}, group: true},
		{name: "a part is shown", actions: []sandbox.Action{sh(seen), sh("echo x >>a/file; echo new >deep/new; mkdir elsewhere")}, set: func(s *job.Spec) {
			s.ShowsAll, s.Show, s.Folders, s.Hide = false, []string{"a", "exec.sh"}, []string{"deep/er"}, []string{"a/same"}
		}},
		{name: "a part is protected and hidden", actions: []sandbox.Action{sh(seen), sh("echo x >>deep/file; echo x >>a/file; true")}, set: func(s *job.Spec) { s.Protect, s.Hide = []string{"deep"}, []string{"mine"} }},
		{name: "files with a text", actions: []sandbox.Action{{Argv: []string{"cat", "/fiador/note"}}}, set: func(s *job.Spec) { s.Files = []job.Text{{Path: "/fiador/note", Text: "note\n"}} }},
		{name: "no action", actions: nil},
	}
}

// specOfScript returns the spec of a script.
func specOfScript(tier sandbox.Isolation, c script, work []job.Entry) *job.Spec {
	s := specOf(tier, c.actions...)
	s.Work = work
	for i, text := range c.stdin {
		s.Actions[i].Stdin = new(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if c.set != nil {
		c.set(s)
	}
	return s
}

// late says in which way a slow machine may have changed the ends of a script whose time runs
// out: a command had no time to begin, or not enough to end after the signal TERM.
func (c script) late(ends []job.End) string {
	if c.prompt == nil {
		return ""
	}
	if len(ends) != len(c.prompt) {
		return fmt.Sprintf("%d commands began, and %d were to begin", len(ends), len(c.prompt))
	}
	for i, end := range ends {
		if end.Stdout.Size != c.prompt[i] || i == len(ends)-1 && end.Signal != int(syscall.SIGTERM) {
			return fmt.Sprintf("command %d ended with %+v", i, end)
		}
	}
	return ""
}

// endsHere are the ends of commands that were performed on this machine.
func endsHere(p *execute.Performed) (list []job.End) {
	for _, r := range p.Runs {
		list = append(list, job.End{Code: r.Code, Signal: r.Signal, Stdout: job.Stream{Size: r.Stdout.Size}})
	}
	return list
}

// endsThere are the ends in an answer.
func endsThere(a answer) (list []job.End) {
	for _, step := range a.Steps {
		if step.End != nil {
			list = append(list, *step.End)
		}
	}
	return list
}

// here performs a spec on a folder of this machine.
func here(t *testing.T, h harnesstest.Tier, s *job.Spec, work, tree string) *execute.Performed {
	t.Helper()
	req, err := s.Request()
	if err != nil {
		t.Fatal(err)
	}
	req.Work, req.Tree = work, tree
	task := execute.Task{
		Sandbox: req, Rules: change.Rules{AnyRoot: true, MaxFiles: 1000, MaxBytes: 10 << 20}, Budget: time.Duration(s.BudgetMS) * time.Millisecond,
		Stdout: command.Stream{Keep: s.StdoutMax}, Stderr: command.Stream{Keep: s.StderrMax}, Cut: s.Cut, Now: time.Now,
	}
	for _, a := range s.Actions {
		task.Times = append(task.Times, time.Duration(a.TimeoutMS)*time.Millisecond)
		var in io.Reader
		if a.Stdin != nil {
			in = strings.NewReader(text64(t, *a.Stdin))
		}
		task.Stdin = append(task.Stdin, in)
		task.Expect.Code = max(task.Expect.Code, a.Code)
	}
	p, err := execute.Perform(t.Context(), execute.Here{Runner: h}, task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// compare holds the answer of a shim against the same actions on this machine.
func compare(t *testing.T, p *execute.Performed, a answer, s *job.Spec) {
	t.Helper()
	if a.Refused != nil {
		t.Fatalf("refused: %+v", a.Refused)
	}
	if a.Isolation != string(p.Isolation) || a.Staging != p.Staging() || a.Machine != job.Machine(sandbox.ThisMachine()) || !a.Plan.Valid() || len(a.Clauses) == 0 {
		t.Errorf("the sandbox is %s, %q, %+v; here %s, %q", a.Isolation, a.Staging, a.Machine, p.Isolation, p.Staging())
	}
	var ends []evidence.End
	for i, step := range a.Steps {
		if e := step.End; e != nil {
			ends = append(ends, evidence.End{
				Argv: s.Actions[i].Argv, Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, OutOfMemory: e.OutOfMemory, NotFound: e.NotFound, NotExecutable: e.NotExecutable,
				Stdout: evidence.Stream{SHA256: sumOf(t, e.Stdout.SHA256.Hex()), Size: e.Stdout.Size, Truncated: e.Stdout.Size > e.Stdout.Kept},
				Stderr: evidence.Stream{SHA256: sumOf(t, e.Stderr.SHA256.Hex()), Size: e.Stderr.Size, Truncated: e.Stderr.Size > e.Stderr.Kept},
			})
		}
	}
	if len(ends) != len(p.Runs) {
		t.Fatalf("%d commands ended, here %d: %s", len(ends), len(p.Runs), a.result)
	}
	for i, run := range p.Runs {
		if !reflect.DeepEqual(ends[i], run.End) {
			t.Errorf("command %d ended with %+v, here %+v", i, ends[i], run.End)
		}
	}
	if n := len(a.Steps) - 1; n >= 0 && a.Steps[n].End != nil {
		last := strconv.Itoa(n)
		if out, err := a.files["stdout/"+last], a.files["stderr/"+last]; !bytes.Equal(out, p.Stdout.Bytes) || !bytes.Equal(err, p.Stderr.Bytes) {
			t.Errorf("the last command printed %q and %q, here %q and %q", out, err, p.Stdout.Bytes, p.Stderr.Bytes)
		}
	}
	failed := len(a.Steps) > p.Done
	if len(a.Steps) < p.Done || len(a.Steps) > p.Done+1 || failed == (p.Done == len(s.Actions)) {
		t.Errorf("%d actions were performed, here %d well", len(a.Steps), p.Done)
	}
	compareChanges(t, p, a)
}

func compareChanges(t *testing.T, p *execute.Performed, a answer) {
	t.Helper()
	line := func(path string, kind change.Kind, size int64, sum string, executable bool, target string) string {
		return fmt.Sprintf("%q %s %d %s %t %q", path, kind, size, sum, executable, target)
	}
	var got, want []string
	for _, c := range a.Changes {
		got = append(got, line(text64(t, c.Path), change.Kind(c.Kind), c.Size, c.SHA256.Hex(), c.Executable, text64(t, c.Target)))
	}
	for i, c := range p.Changes {
		sum := ""
		if c.Kind == change.KindFile && c.SHA256 != [32]byte{} {
			sum = evidence.Hash(c.SHA256).Hex()
			f, err := p.Content(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(f); err != nil || !bytes.Equal(text, a.files["files/"+strconv.Itoa(i)]) {
				t.Errorf("%q has other bytes (%v)", c.Path, err)
			}
			f.Close()
		}
		want = append(want, line(c.Path, c.Kind, c.Size, sum, c.Executable, c.Target))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the changes are\n%s\nhere\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sumOf returns the bytes of a hash.
func sumOf(t *testing.T, digits string) (sum [32]byte) {
	t.Helper()
	if n, err := hex.Decode(sum[:], []byte(digits)); n != 32 || err != nil {
		t.Fatalf("%q: %v", digits, err)
	}
	return sum
}

// style is a way in which workers lay inputs out.
type style struct {
	name string
	lay  func(t *testing.T, l *laid, work string)
}

func styles() []style {
	return []style{
		{"files of another user", func(t *testing.T, l *laid, work string) {
			owner := stranger
			if os.Geteuid() != 0 {
				owner = 0
			}
			layInputs(t, work, filepath.Join(l.dir, job.WorkDir), l.spec.Work, copied(0o744, owner))
		}},
		{"links of a cache, in a read-only folder", func(t *testing.T, l *laid, work string) {
			cached(t, l, work)
			readOnly(t, l)
		}},
		{"a link to a folder of the cache", func(t *testing.T, l *laid, work string) {
			cache := filepath.Join(filepath.Dir(l.dir), "cache", "folder")
			layInputs(t, work, cache, l.spec.Work, copied(0o555, 0))
			if err := os.Symlink(cache, filepath.Join(l.dir, job.WorkDir)); err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// cached lays out hard links of the files of a cache, and returns the cache.
func cached(t *testing.T, l *laid, work string) string {
	t.Helper()
	cache := filepath.Join(filepath.Dir(l.dir), "cache")
	if err := os.Mkdir(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	layInputs(t, work, filepath.Join(l.dir, job.WorkDir), l.spec.Work, func(from, to string) error {
		blob := filepath.Join(cache, strings.ReplaceAll(strings.TrimPrefix(from, work), "/", "+"))
		return errors.Join(copied(0o444, 0)(from, blob), os.Link(blob, to))
	})
	return cache
}

// readOnly takes the permission to write from all folders of an action, except that of outputs.
func readOnly(t *testing.T, l *laid) {
	t.Helper()
	l.before = func(t *testing.T) {
		err := filepath.WalkDir(l.dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && p != filepath.Join(l.dir, job.OutDir) {
				err = os.Chmod(p, 0o555)
				t.Cleanup(func() { _ = os.Chmod(p, 0o755) })
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSame: the shim answers with what the same actions do on this machine: the same streams,
// ends and changes, however a worker lays the inputs out and whoever runs it.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, tier := range harnesstest.Tiers {
		t.Run(string(tier), func(t *testing.T) {
			h := hostOf(t, tier)
			work := folder(t)
			list := lists(t, work)
			for _, c := range scripts() {
				if c.tiers != nil && !slices.Contains(c.tiers, tier) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					s := specOfScript(tier, c, list)
					var p *execute.Performed
					rehearsal.Again(t, 3, func(int) string {
						p = here(t, h, s, work, "")
						return c.late(endsHere(p))
					})
					for i, style := range styles() {
						for _, user := range users() {
							if i > 0 && len(c.actions) > 0 && c.name != "changes" { // the inputs are those of the first style
								continue
							}
							t.Run(fmt.Sprint(style.name, ", user ", user), func(t *testing.T) {
								var a answer
								rehearsal.Again(t, 3, func(int) string {
									l := newAction(t, s, "", nil)
									l.user = user
									style.lay(t, l, work)
									a = l.perform(t)
									return c.late(endsThere(a))
								})
								if c.group && !reflect.DeepEqual(a.Clauses, p.Clauses) {
									t.Skip("no cgroup limits the memory of this user's commands together")
								}
								compare(t, p, a, s)
								if user == 0 && !reflect.DeepEqual(a.Clauses, p.Clauses) { // another user has no cgroups here
									t.Errorf("the clauses are %v, here %v", a.Clauses, p.Clauses)
								}
							})
						}
					}
				})
			}
		})
	}
}
