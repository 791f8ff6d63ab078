//go:build linux && (amd64 || arm64)

package reproduce

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/result"
)

// again repeats the run of the intent with these members. o is the original from the pack
// of that run.
func again(t *testing.T, x harnesstest.Executor, o *Original, members string, f harness.Folders, runs int) Result {
	t.Helper()
	req := x.Request(members, f)
	got, err := o.Reproduce(t.Context(), x.Deps, x.Gate, Again{Source: req.Source, Path: req.Path, Folders: req.Folders, Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// originalOf runs an intent and returns the run as its pack has it.
func originalOf(t *testing.T, x harnesstest.Executor, members string, f harness.Folders) *Original {
	t.Helper()
	rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(members, f))
	if err != nil {
		t.Fatal(err)
	}
	return original(t, packRun(t, rep))
}

// newReproducer permits every effect under a profile that a pack can name, with out as its
// only write root.
func newReproducer(t *testing.T, isolation sandbox.Isolation) harnesstest.Executor {
	t.Helper()
	d := harnesstest.Deps(t)
	d.Runner, d.Rand = harnesstest.NewTier(t, isolation), rand.Reader
	profile := `{"name":"mine","extends":"dev","isolation":"confined","timeout_ms":120000,"allowed_write_roots":["out"]}`
	gate, err := harness.OpenGate(t.Context(), harnesstest.Mine(map[string]string{"profile.json": profile}), d.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	gate.Judge = harnesstest.JudgeFunc(harnesstest.Permissive)
	return harnesstest.Executor{Deps: d, Gate: gate, Tree: t.TempDir()}
}

// fullRunner returns a runner with the isolation that built-in profiles demand.
func fullRunner(t *testing.T) execute.Runner { return harnesstest.NewTier(t, sandbox.Full) }

// shared makes a file that commands can read at its place.
func shared(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "elsewhere-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "file")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReproduceExecution: a repeated execution is the same again, however it ended, and
// leaves nothing behind.
func TestReproduceExecution(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			for name, tc := range map[string]struct {
				members string
				code    int
			}{
				"accepted":      {intents.Actions(intents.Write("out/a", "1"), intents.Sh("cp out/a out/b; chmod +x out/b; echo done")) + `,"outputs":["out/b"]`, 0},
				"exit 3":        {intents.Actions(intents.Write("out/a", "1"), intents.Sh("echo no >&2; exit 3")), 3},
				"not found":     {intents.Actions(intents.Argv("no-such-command")), 127},
				"missing":       {intents.Actions(intents.Argv("true")) + `,"outputs":["out/none"]`, 125},
				"outside":       {intents.Actions(intents.Sh("mkdir -p other; echo > other/a")), 125},
				"writes alone":  {intents.Actions(intents.Write("out/a", "1"), intents.Write("out/b/c", "2")), 0},
				"nothing":       {intents.Actions(intents.Argv("true")), 0},
				"killed itself": {intents.Actions(intents.Sh("kill -9 $$")), 137},
			} {
				t.Run(name, func(t *testing.T) {
					x := newReproducer(t, isolation)
					o := originalOf(t, x, tc.members, harness.Folders{})
					if o.Result.Execution.ExitCode != tc.code {
						t.Fatalf("exit code %d", o.Result.Execution.ExitCode)
					}
					if got := again(t, x, o, tc.members, harness.Folders{}, 2); got.Matches != 2 {
						t.Errorf("%+v", got)
					}
				})
			}
		})
	}
}

// TestReproduceChance: an output that depends on chance is a difference, named by its
// path.
func TestReproduceChance(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Write("out/a", "1"), intents.Sh("head -c 16 /dev/urandom > out/chance"))
	o := originalOf(t, x, members, harness.Folders{})
	got := again(t, x, o, members, harness.Folders{}, 3)
	if got.Matches != 0 || len(got.Differences) != 1 || got.Differences[0].Runs != 3 {
		t.Fatalf("%+v", got)
	}
	d := got.Differences[0]
	if d.Output != "out/chance" || d.Pointer != "" || !strings.HasSuffix(d.Recorded, " (16 bytes)") || !strings.HasSuffix(d.Now, " (16 bytes)") || d.Recorded == d.Now {
		t.Errorf("%+v", d)
	}
}

// TestReproduceFlakyExecution: some runs match and some do not. The content of a file that
// the command may read decides.
func TestReproduceFlakyExecution(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	word := shared(t, "same")
	members := intents.Actions(intents.Sh("mkdir -p out; cat " + word + " > out/word; ! grep -q fail out/word"))
	folders := harness.Folders{Read: []string{word}}
	o := originalOf(t, x, members, folders)
	req := x.Request(members, folders)
	words := []string{"same", "else", "same", "fail", "else"}
	got, err := o.Reproduce(t.Context(), x.Deps, x.Gate, Again{Source: req.Source, Path: "i", Folders: req.Folders, Runs: len(words), Begin: func(i int) {
		if err := os.WriteFile(word, []byte(words[i]), 0o644); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Runs != 5 || got.Matches != 2 || len(got.Differences) != 2 {
		t.Fatalf("%+v", got)
	}
	if d := got.Differences[0]; d.Runs != 2 || d.Output != "out/word" {
		t.Errorf("%+v", d)
	}
	if d := got.Differences[1]; d.Runs != 1 || d.Pointer != "/decision/accepted" || d.Recorded != "true" || d.Now != "false (EXIT 1)" {
		t.Errorf("%+v", d)
	}
}

// TestReproduceInputs: inputs come from the tree. A different input is named before its
// consequences, and a missing input gives no answer.
func TestReproduceInputs(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Sh("grep -q right in/a && cp in/b out/b 2>/dev/null || { mkdir -p out; cp in/b out/b; }; grep -q right in/a")) + `,"inputs":["in/a","in/b"]`
	files := map[string]string{"in/a": "right", "in/b": "2", "else": "x"}
	o := originalOf(t, x, members, harness.Folders{Tree: treetest.Filled(t, files)})
	if !o.Result.Decision.Accepted || len(o.Result.Execution.Inputs) != 2 {
		t.Fatalf("%+v", o.Result)
	}
	files["else"] = "what is no input does not count"
	if got := again(t, x, o, members, harness.Folders{Tree: treetest.Filled(t, files)}, 1); got.Matches != 1 {
		t.Errorf("the same inputs: %+v", got)
	}
	files["in/a"] = "wrong"
	got := again(t, x, o, members, harness.Folders{Tree: treetest.Filled(t, files)}, 1)
	if len(got.Differences) != 1 || got.Differences[0].Input != "in/a" || got.Differences[0].Output != "" || got.Differences[0].Now == got.Differences[0].Recorded {
		t.Errorf("another input: %+v", got)
	}
	delete(files, "in/a")
	req := x.Request(members, harness.Folders{Tree: treetest.Filled(t, files)})
	_, err := o.Reproduce(t.Context(), x.Deps, x.Gate, Again{Source: req.Source, Path: "i", Folders: req.Folders, Runs: 1})
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeUnreadable || !strings.Contains(re.Message, `"in/a"`) {
		t.Errorf("a missing input: %v", err)
	}
}

// TestReproduceChanges: facts outside the canonical subset are compared as well: a file
// was deleted, was made executable, or was there already.
func TestReproduceChanges(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	work := func(files map[string]string) harness.Folders { return harness.Folders{Work: treetest.Filled(t, files)} }
	old := map[string]string{"out/old": "1"}

	remove := intents.Actions(intents.Sh("rm -f out/old; mkdir -p out; echo 1 > out/new"))
	o := originalOf(t, x, remove, work(old))
	if got := again(t, x, o, remove, work(old), 1); got.Matches != 1 {
		t.Errorf("the same folder: %+v", got)
	}
	got := again(t, x, o, remove, harness.Folders{}, 1)
	if want := (Divergence{Output: "out/old", Recorded: "deleted", Now: "not deleted"}); len(got.Differences) != 1 || got.Differences[0].Divergence != want {
		t.Errorf("nothing to delete: %+v", got)
	}
	got = again(t, x, originalOf(t, x, remove, harness.Folders{}), remove, work(old), 1)
	if want := (Divergence{Output: "out/old", Recorded: "not deleted", Now: "deleted"}); len(got.Differences) != 1 || got.Differences[0].Divergence != want {
		t.Errorf("something to delete: %+v", got)
	}

	bits := shared(t, "644")
	mode := intents.Actions(intents.Sh("mkdir -p out; echo 1 > out/a; chmod $(cat " + bits + ") out/a"))
	o = originalOf(t, x, mode, harness.Folders{Read: []string{bits}})
	if err := os.WriteFile(bits, []byte("755"), 0o644); err != nil {
		t.Fatal(err)
	}
	got = again(t, x, o, mode, harness.Folders{Read: []string{bits}}, 1)
	if want := (Divergence{Output: "out/a", Recorded: "not executable", Now: "executable"}); len(got.Differences) != 1 || got.Differences[0].Divergence != want {
		t.Errorf("another mode: %+v", got)
	}

	write := intents.Actions(intents.Write("out/old", "1"))
	got = again(t, x, originalOf(t, x, write, work(old)), write, harness.Folders{}, 1)
	if d := got.Differences; len(d) != 1 || d[0].File != pack.PatchFile || d[0].Pointer != "/operations" || d[0].About != "out/old" || d[0].Recorded != "absent" {
		t.Errorf("a file that stood there already: %+v", got)
	}
}

// TestReproduceInterrupted: an interrupted execution gives no answer, and leaves nothing.
func TestReproduceInterrupted(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Sh("test ! -e /nowhere || sleep 60"))
	o := originalOf(t, x, members, harness.Folders{})
	ctx, stop := context.WithCancel(t.Context())
	req := x.Request(members, harness.Folders{})
	got, err := o.Reproduce(ctx, x.Deps, x.Gate, Again{Source: req.Source, Path: "i", Folders: req.Folders, Runs: 3, Begin: func(i int) {
		if i == 1 {
			stop()
		}
	}})
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeSandbox || !strings.HasPrefix(re.Message, "interrupted: the execution was stopped") ||
		!strings.HasSuffix(re.Message, "; of the runs before it, 1 of 1 matched") || got.Runs != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestReproduceWithoutSandbox: without a sandbox an execution cannot be repeated, and that
// is no difference.
func TestReproduceWithoutSandbox(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Argv("true"))
	o := originalOf(t, x, members, harness.Folders{})
	x.Deps.Runner = nil
	req := x.Request(members, harness.Folders{})
	_, err := o.Reproduce(t.Context(), x.Deps, x.Gate, Again{Source: req.Source, Path: "i", Runs: 1})
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeSandbox {
		t.Errorf("%v", err)
	}
}

// TestReproduceModel: in both modes and each time the answers of a model come from the
// pack, and no model is asked. A run that makes a call where the original had ended
// differs.
func TestReproduceModel(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	word := shared(t, "go on")
	members := intents.Actions(
		intents.Call("m", `{"messages":[{"role":"user","content":"one"}]}`),
		intents.Sh("mkdir -p out; cp calls/001.response.json out/one; grep -q go "+word),
		intents.Call("m", `{"messages":[{"role":"user","content":"two"}]}`),
	)
	folders := harness.Folders{Read: []string{word}}
	say := func(text string) {
		if err := os.WriteFile(word, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := harnesstest.NewEndpoint(t)
	whole := originalOf(t, x.Caller(harness.ModelRecord, e.Recorder()), members, folders)
	if whole.Result.ModelMode != harness.ModelRecord || !whole.Result.Decision.Accepted {
		t.Fatalf("%+v", whole.Result)
	}
	say("stop")
	part := originalOf(t, x.Caller(harness.ModelRecord, e.Recorder()), members, folders)
	if part.Result.Decision.Accepted {
		t.Fatalf("%+v", part.Result)
	}
	say("go on")
	replayed := originalOf(t, x.Caller(harness.ModelReplay, harnesstest.Player(t, whole.pack.File(pack.ModelFile))), members, folders)
	e.Close()
	asked := e.Asked.Load()
	for name, o := range map[string]*Original{"record": whole, "replay": replayed} {
		if got := again(t, x, o, members, folders, 2); got.Matches != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := again(t, x, part, members, folders, 1)
	if len(got.Differences) != 1 || got.Differences[0].File != pack.ModelFile || !strings.HasPrefix(got.Differences[0].Recorded, "no answer to prompt sha256:") {
		t.Errorf("a call too many: %+v", got)
	}
	say("stop")
	if got := again(t, x, part, members, folders, 1); got.Matches != 1 {
		t.Errorf("stopped again: %+v", got)
	}
	if now := e.Asked.Load(); now != asked {
		t.Errorf("a model was asked %d times more", now-asked)
	}
}

// TestReproduceReplaced: an entry that became a folder is no difference. Neither is an
// entry that was removed under a name that no patch can have.
func TestReproduceReplaced(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	for name, script := range map[string]string{
		"a file that became a folder":         "rm out/old; mkdir out/old; echo 1 >out/old/in",
		"a file that became an empty folder":  "rm out/old; mkdir out/old",
		"a link that became a folder":         "rm out/link; mkdir out/link; echo 1 >out/link/in",
		"a folder that became a file":         "rm -r out/dir; echo 1 >out/dir",
		"a bad name that was removed":         `rm 'out/a\b' out/old`,
		"nothing but a bad name that is gone": `rm 'out/a\b'`,
	} {
		t.Run(name, func(t *testing.T) {
			work := func() harness.Folders {
				f := harness.Folders{Work: treetest.Filled(t, map[string]string{"out/old": "1", "out/dir/in": "1", `out/a\b`: "1"})}
				if err := os.Symlink("old", filepath.Join(f.Work, "out", "link")); err != nil {
					t.Fatal(err)
				}
				return f
			}
			members := intents.Actions(intents.Sh(script))
			o := originalOf(t, x, members, work())
			if !o.Result.Decision.Accepted {
				t.Fatalf("reasons %q", o.Result.Decision.Reasons)
			}
			if got := again(t, x, o, members, work(), 1); got.Matches != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}
