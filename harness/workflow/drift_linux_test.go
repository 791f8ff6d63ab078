//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/workflow/history"
)

// meanwhile is a host under which something happens when a sandbox is set up: the agent's is the
// first, the test's the second.
type meanwhile struct {
	harnesstest.Tier
	n  int
	do map[int]func()
}

func (m *meanwhile) Start(ctx context.Context, r sandbox.Request) (*sandbox.Sandbox, error) {
	s, err := m.Tier.Start(ctx, r)
	if m.n++; m.do[m.n] != nil {
		m.do[m.n]()
	}
	return s, err
}

// TestDrift: a folder that its user edits meanwhile keeps the edit, and gets nothing else.
func TestDrift(t *testing.T) {
	write := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	}
	for _, c := range []struct {
		name  string
		at    int // sandbox
		edit  func(dir string) error
		error bool // the run has no answer
	}{
		{"another file", 1, write("b", "edited\n"), false},
		{"the same file", 1, write("a", "edited\n"), false},
		{"a new file", 1, write("c", "new\n"), false},
		{"the new file", 1, write("new", "edited\n"), false},
		{"another file, under the test", 2, write("b", "edited\n"), false},
		{"the same file, under the test", 2, write("a", "edited\n"), false},
		{"a deleted file", 2, func(dir string) error { return os.Remove(filepath.Join(dir, "b")) }, false},
		{"a mode", 2, func(dir string) error { return os.Chmod(filepath.Join(dir, "b"), 0o755) }, false},
		{"the same bytes", 1, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "b")), write("b", "two\n")(dir))
		}, false},
		{"moved away", 1, func(dir string) error { return os.Rename(dir, dir+".away") }, true},
		{"moved away, under the test", 2, func(dir string) error { return os.Rename(dir, dir+".away") }, true},
		{"replaced", 2, func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o755), write("b", "two\n")(dir))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, host(t), map[string]string{"a": "one\n", "b": "two\n"})
			h := &meanwhile{Tier: b.Deps.Runner.(harnesstest.Tier)}
			edited := ""
			h.do = map[int]func(){c.at: func() {
				if err := c.edit(b.Tree); err != nil {
					t.Error(err)
				}
				if at := b.Tree; tree.RemoveAll(at+".none") == nil {
					if _, err := os.Stat(at + ".away"); err == nil {
						at += ".away"
					}
					edited = stateOf(t, at)
				}
			}}
			b.Deps.Runner = h
			b.agent("x", "sleep 0.05; echo x >a; echo new >new")
			_, err := b.try(t, t.Context(), item("x", `"test_command":"true",`))
			at := b.Tree
			if _, err := os.Stat(at + ".away"); err == nil {
				at += ".away"
			}
			if now := stateOf(t, at); now != edited && c.name != "the same bytes" {
				t.Errorf("the edit is not kept: %s, %v", now, err)
			}
			switch {
			case c.error:
				if err == nil {
					t.Errorf("no error: %+v", b.got)
				}
			case err != nil:
				t.Error(err)
			case c.name == "the same bytes":
				if b.got[0].Status != receipt.Success || b.text(t, "a") != "x\n" {
					t.Errorf("%+v", b.got[0])
				}
			case b.got[0].Status != receipt.Failure || b.reasons(t, b.got[0]) != "STATE_DRIFT":
				t.Errorf("%+v", b.got[0])
			}
			b.holds(t)
		})
	}
}

// TestDriftPipe: nothing waits at a pipe that takes the place of a file meanwhile.
func TestDriftPipe(t *testing.T) {
	for _, at := range []int{1, 2} {
		b := newBench(t, host(t), map[string]string{"a": "one\n"})
		pipe := filepath.Join(b.Tree, "a")
		b.Deps.Runner = &meanwhile{Tier: b.Deps.Runner.(harnesstest.Tier), do: map[int]func(){at: func() {
			if err := errors.Join(os.Remove(pipe), unix.Mkfifo(pipe, 0o644)); err != nil {
				t.Error(err)
			}
		}}}
		b.agent("x", "sleep 0.05; rm a; echo x >a")
		if r := b.one(t, "x", `"test_command":"true",`); b.reasons(t, r) != "STATE_DRIFT" {
			t.Errorf("sandbox %d: %+v", at, r)
		}
		if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("sandbox %d: the pipe is gone: %v, %v", at, info, err)
		}
	}
}

// undecided is a ledger that has no decision.
func undecided(context.Context, history.Pending) (string, error) { return "", nil }

// TestNotApplied: a change that was decided and could not be applied waits for the next
// command. What comes behind it does not run, whatever its policy says.
func TestNotApplied(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	journals := b.Journals
	b.Journals = filepath.Join(b.Tree, "a")
	b.agent("a", "echo x >a")
	b.agent("b", "echo y >b")
	plan := []string{item("a", ""), item("b", ""), strings.Replace(item("z", `"actions":[{"kind":"write","path":"../out","content":""}],`), `"agent_id":"z"`, `"agent_id":"a"`, 1)}
	before := b.state(t)
	b.fails(t, plan...)
	if p, err := b.Waiting(); err != nil || p == nil || p.Line.ItemID != "a" || b.state(t) != before || len(b.got) > 0 {
		t.Fatalf("%+v, %v, %+v", p, err, b.got)
	}
	b.Journals = journals
	b.open(t)

	// An edited folder is refused, until it is put back or the change is discarded.
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(b.Tree, "a"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("edited\n")
	if _, err := b.Recover(t.Context(), undecided, false); err == nil || !strings.Contains(err.Error(), `"a"`) || b.text(t, "a") != "edited\n" {
		t.Errorf("%v", err)
	}
	write("one\n")
	if did, err := b.Recover(t.Context(), undecided, false); err != nil || did != "the change of item a is applied" || b.text(t, "a") != "x\n" {
		t.Errorf("%s, %v", did, err)
	}
	b.holds(t)
	if did, err := b.Recover(t.Context(), undecided, false); err != nil || did != "" {
		t.Errorf("again: %s, %v", did, err)
	}
}

// TestDiscard: a change that was decided, and whose folder was edited since, is noted as
// discarded. It is no success for what waits for it, and for nobody a result.
func TestDiscard(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	journals := b.Journals
	b.Journals = filepath.Join(b.Tree, "a")
	b.agent("a", "echo x >a")
	b.agent("b", "echo y >b")
	b.fails(t, item("a", ""))
	b.Journals = journals
	grow(t, b.Tree, map[string]string{"a": "edited\n"})
	b.open(t)
	did, err := b.Recover(t.Context(), undecided, true)
	if err != nil || did != "the change of item a is discarded" || b.text(t, "a") != "edited\n" {
		t.Fatalf("%s, %v", did, err)
	}
	b.holds(t)
	if l := b.lines(t); len(l) != 1 || !l[0].Discarded || l[0].Success() {
		t.Errorf("%+v", l)
	}
	if s := b.run(t, after("b", "", "a")); len(s.Blocked) != 1 || len(b.got) > 0 {
		t.Errorf("%+v, %+v", s, b.got)
	}
	b.Resume = true
	if s := b.run(t, item("a", ""), after("b", "", "a")); !s.Success() || len(b.got) != 2 || b.got[0].Replayed {
		t.Errorf("%+v, %+v", s, b.got)
	}
	if b.text(t, "a") != "x\n" || b.text(t, "b") != "y\n" {
		t.Error("not applied")
	}
}

// TestStoreDamaged: a store that cannot be read ends a run in an error, and the folder is what
// it was. What the store does not know changes nothing.
func TestStoreDamaged(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		works            bool
	}{
		{"a line of the history", "history.jsonl", "{}\n", false},
		{"no line", "history.jsonl", "\xff\xff\n", false},
		{"a line without its end", "history.jsonl", `{"receipt_id"`, true},
		{"pending", "pending", "{}", false},
		{"pending is empty", "pending", "", false},
		{"index", "index", "fiador-index-1\nnone", true},
		{"another file", "README", "mine", true},
		{"another object", "objects/zz/zz", "mine", true},
		{"another receipt", "receipts/mine/RECEIPT.json", "mine", true},
		{"an old stage", "stage/x/a", "mine", true},
		{"an object that another kill has left", "incoming/00", "mine", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, host(t), map[string]string{"a": "one\n"})
			b.agent("x", "echo x >>a")
			b.one(t, "x", "")
			p := filepath.Join(b.History.Dir, c.file)
			old, _ := os.ReadFile(p)
			if c.works && c.file == "history.jsonl" {
				c.text = string(old) + c.text
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(c.text), 0o644)); err != nil {
				t.Fatal(err)
			}
			before := b.state(t)
			b.open(t)
			b.Rerun = true
			_, err := b.Recover(t.Context(), undecided, false)
			if err == nil {
				_, err = b.try(t, t.Context(), item("x", ""))
			}
			if c.works != (err == nil) || (b.state(t) != before) != c.works {
				t.Fatalf("%v, %+v", err, b.got)
			}
			if n, faults, err := b.chain(); c.works && (err != nil || len(faults) > 0 || n != 2) {
				t.Errorf("%d, %v, %v", n, faults, err)
			}
		})
	}
}

// TestForged: the chain tells a receipt that was changed, and one that is gone. A damaged object
// of the store ends the next run that needs it.
func TestForged(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	b.agent("x", "echo x >>a")
	b.Rerun = true
	var ids []string
	for range 3 {
		ids = append(ids, b.one(t, "x", "").ReceiptID)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{b.History.Dir}, parts...)...) }
	forged := func(name, file string, change func(text string) string, want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults, err := b.chain(); err != nil || !strings.Contains(fmt.Sprint(faults), want) || len(faults) == 0 {
			t.Errorf("%s: %v, %v", name, faults, err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		b.holds(t)
	}
	first := b.lines(t)[0]
	forged("another state", at("receipts", ids[0], receipt.ReceiptFile), func(text string) string {
		return strings.ReplaceAll(text, first.After, first.Before)
	}, ids[0])
	forged("another item", at("receipts", ids[1], receipt.ItemFile), func(text string) string { return strings.Replace(text, "Do it", "Did it", 1) }, "item_hash")
	forged("another script", at("receipts", ids[1], receipt.ReplayFile), func(string) string { return "true\n" }, receipt.ReplayFile)
	forged("a cut chain", at("history.jsonl"), func(text string) string { return text[strings.Index(text, "\n")+1:] }, "previous")
	forged("a missing link", at("history.jsonl"), func(text string) string {
		lines := strings.SplitAfter(text, "\n")
		return lines[0] + lines[2]
	}, "previous")
	if err := os.Rename(at("receipts", ids[1]), at("kept")); err != nil {
		t.Fatal(err)
	}
	if _, faults, err := b.chain(); err != nil || !strings.Contains(fmt.Sprint(faults), ids[1]) {
		t.Errorf("a receipt that is gone: %v, %v", faults, err)
	}
}

// storeVar is set for TestStoreRoom in a mount name space of its own.
const storeVar = "FIADOR_WORK_STORE"

// TestStoreRoom: in a store without room, or that cannot be written, an item ends in an error,
// and the folder is what it was, or becomes what was decided.
func TestStoreRoom(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if os.Getenv(storeVar) == "" {
		if os.Geteuid() != 0 {
			t.Skip("an ordinary user mounts nothing")
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestStoreRoom$", "-test.v", "-test.count=1")
		cmd.Env = append(os.Environ(), storeVar+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	h, applied, refused := host(t), 0, 0
	for kib := 20; kib <= 260; kib += rehearsal.Stride(24) {
		b := newBench(t, h, map[string]string{"a": "one\n", "b": "two\n"})
		mount := func(flags uintptr, size int) {
			t.Helper()
			if err := unix.Mount("tmpfs", b.History.Dir, "tmpfs", flags, fmt.Sprintf("size=%dk,mode=755", size)); err != nil {
				t.Skipf("nothing can be mounted here: %v", err)
			}
		}
		mount(0, kib)
		t.Cleanup(func() { _ = unix.Unmount(b.History.Dir, unix.MNT_DETACH) })
		b.open(t)
		b.agent("x", "head -c 30000 /dev/urandom >a; rm b")
		before := b.state(t)
		_, err := b.try(t, t.Context(), item("x", ""))
		p, waits := b.Waiting()
		if now := b.state(t); err != nil && now != before && p == nil && waits == nil {
			t.Fatalf("%d KiB: %v, and the folder is another one", kib, err)
		}
		mount(unix.MS_REMOUNT, 1<<20)
		b.open(t)
		did, recoverErr := b.Recover(t.Context(), undecided, false)
		if recoverErr != nil {
			t.Fatalf("%d KiB: %v, %v", kib, err, recoverErr)
		}
		if err != nil {
			refused++
			b.got = nil
		} else {
			applied++
		}
		b.holds(t)
		if l := b.lines(t); len(l) == 0 && b.state(t) != before || len(l) > 0 && b.state(t) != l[len(l)-1].After {
			t.Errorf("%d KiB: %v, %s: %+v", kib, err, did, l)
		}
		mount(unix.MS_REMOUNT|unix.MS_RDONLY, 1<<20)
		before = b.state(t)
		if re := b.fails(t, item("x", `"constraints":{"max_files":9},`)); re.Hint == "" || b.state(t) != before {
			t.Errorf("read-only: %v", re)
		}
	}
	t.Logf("%d refused, %d applied", refused, applied)
	if refused == 0 || applied == 0 {
		t.Error("the sizes do not show what they should")
	}
}

// TestCutChain: a receipt that is missing from the middle of the history, or from its folder, is
// found, and so is one in another place.
func TestCutChain(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	for _, id := range []string{"x", "y", "z"} {
		b.agent(id, "echo "+id+" >>a")
		b.run(t, item(id, ""))
	}
	file := filepath.Join(b.History.Dir, "history.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for name, cut := range map[string]string{"the middle": lines[0] + lines[2], "the first": lines[1] + lines[2], "another order": lines[1] + lines[0] + lines[2]} {
		if err := os.WriteFile(file, []byte(cut), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults, err := b.chain(); err != nil || len(faults) == 0 || !strings.HasSuffix(faults[0].Path, "#/previous") {
			t.Errorf("%s is missing: %v, %v", name, faults, err)
		}
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, faults, err := b.chain(); n != 3 || len(faults) > 0 || err != nil {
		t.Errorf("%d, %v, %v", n, faults, err)
	}
	r := b.got[0]
	if err := os.RemoveAll(filepath.Join(b.History.Dir, receipt.ReceiptsFolder, r.ReceiptID)); err != nil {
		t.Fatal(err)
	}
	if _, faults, err := b.chain(); err != nil || len(faults) == 0 {
		t.Errorf("a folder is missing: %v, %v", faults, err)
	}
}
