//go:build linux && (amd64 || arm64)

package reproduce

import (
	"os"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// rewrite returns a valid pack with another evidence.json and patch.json. It leaves out a
// patch without operations.
func rewrite(t *testing.T, o *Original, change func(*pack.Evidence, *pack.Patch)) *Original {
	t.Helper()
	files := map[string][]byte{}
	for _, e := range o.pack.Entries {
		files[e.Name] = e.Text
	}
	e, err := o.pack.Evidence()
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.pack.Patch()
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		p = &pack.Patch{}
	}
	change(e, p)
	files[pack.EvidenceFile] = textOf(t, e)
	delete(files, pack.PatchFile)
	if len(p.Operations) > 0 {
		files[pack.PatchFile] = textOf(t, p)
	}
	contract := o.Result.Policy
	v := verify.Pack(pack.Of(files), verify.Options{Profile: func(string) *kernel.PolicyProfile { return &contract }})
	if !v.OK() {
		t.Fatalf("the pack is not valid, so that nothing has to be found by a run: %+v", v)
	}
	return original(t, pack.Of(files))
}

// TestReproduceFindsWhatIsFree: statements of a valid pack about the files before the run,
// and about its commands, are compared with the new run.
func TestReproduceFindsWhatIsFree(t *testing.T) {
	other := canon.Sum([]byte("other"))
	accepted := intents.Actions(intents.Sh("echo one; echo two >&2"), intents.Sh("mkdir -p out; echo x >out/x; chmod +x out/x"))
	rejected := intents.Actions(intents.Sh("mkdir -p out; echo x >out/x"), intents.Argv("false"))
	for name, tc := range map[string]struct {
		members              string
		change               func(*pack.Evidence, *pack.Patch)
		file, pointer, about string
		recorded, now        string
	}{
		"a file that was there already": {accepted, func(e *pack.Evidence, p *pack.Patch) {
			e.ActionResults, e.Unchanged, p.Operations = []pack.ActionResult{}, []string{"out/x"}, nil
		}, pack.PatchFile, "/operations", "out/x", "absent", `{"executable":true,"op":"create","order":0,"path":"out/x","size_bytes":2}`},
		"a file that was modified": {accepted, func(e *pack.Evidence, p *pack.Patch) {
			e.ActionResults[0].Action, p.Operations[0].Op, p.Operations[0].BeforeSHA256 = pack.OpModify, pack.OpModify, other
		}, pack.PatchFile, "/operations/0/before_sha256", "out/x", `"` + string(other) + `"`, "absent"},
		"another output of the first command": {accepted, func(e *pack.Evidence, _ *pack.Patch) {
			e.Runs[0].StdoutSHA256 = other
		}, pack.EvidenceFile, "/runs/0/stdout_sha256", "action 0", `"` + string(other) + `"`, `"` + string(canon.Sum([]byte("one\n"))) + `"`},
		"other errors of the first command": {accepted, func(e *pack.Evidence, _ *pack.Patch) {
			e.Runs[0].StderrSHA256 = other
		}, pack.EvidenceFile, "/runs/0/stderr_sha256", "action 0", `"` + string(other) + `"`, `"` + string(canon.Sum([]byte("two\n"))) + `"`},
		"a rejected file that was modified": {rejected, func(e *pack.Evidence, _ *pack.Patch) {
			e.ActionResults[0].Action = pack.OpModify
		}, pack.EvidenceFile, "/action_results/0/action", "out/x", `"modify"`, `"create"`},
		"a rejected file that was there already": {rejected, func(e *pack.Evidence, _ *pack.Patch) {
			e.ActionResults, e.Unchanged = []pack.ActionResult{}, []string{"out/x"}
		}, pack.EvidenceFile, "/action_results", "out/x", "absent", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newReproducer(t, sandbox.Confined)
			o := originalOf(t, x, tc.members, harness.Folders{})
			if got := again(t, x, o, tc.members, harness.Folders{}, 1); got.Matches != 1 {
				t.Fatalf("the pack itself: %+v", got)
			}
			got := again(t, x, rewrite(t, o, tc.change), tc.members, harness.Folders{}, 2)
			if got.Matches != 0 || len(got.Differences) != 1 || got.Differences[0].Runs != 2 {
				t.Fatalf("%+v", got)
			}
			d := got.Differences[0]
			if d.File != tc.file || d.Pointer != tc.pointer || d.About != tc.about || d.Recorded != tc.recorded || tc.now != "" && d.Now != tc.now {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestReproduceTree: another content of a deleted folder is a difference, even if nothing
// else shows that the runs differ.
func TestReproduceTree(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Sh("rm -rf out/d"))
	base := map[string]string{"out/d/a": "1", "out/d/e/b": "2"}
	o := originalOf(t, x, members, harness.Folders{Work: treetest.Filled(t, base)})
	if got := again(t, x, o, members, harness.Folders{Work: treetest.Filled(t, base)}, 1); got.Matches != 1 {
		t.Fatalf("the same folder: %+v", got)
	}
	base["out/d/e/b"] = "3"
	got := again(t, x, o, members, harness.Folders{Work: treetest.Filled(t, base)}, 1)
	if len(got.Differences) != 1 || got.Differences[0].File != pack.PatchFile || got.Differences[0].About != "out/d" || got.Differences[0].Pointer != "/operations/0/before_tree_sha256" {
		t.Errorf("%+v", got)
	}
}

// TestReproduceExecutor: another name of the executor is no difference.
func TestReproduceExecutor(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	members := intents.Actions(intents.Write("out/a", "1"))
	forged := rewrite(t, originalOf(t, x, members, harness.Folders{}), func(e *pack.Evidence, _ *pack.Patch) {
		e.ExecutorID = "somebody"
	})
	if got := again(t, x, forged, members, harness.Folders{}, 1); got.Matches != 1 {
		t.Errorf("%+v", got)
	}
}

// TestReproduceBase: other files in the work folder before the run are a difference, even
// if the run leaves the same files there.
func TestReproduceBase(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	work := func(files map[string]string) harness.Folders { return harness.Folders{Work: treetest.Filled(t, files)} }
	members := intents.Actions(intents.Sh("mkdir -p out; echo new >out/b"), intents.Write("out/a", "1")) + `,"outputs":["out/b"]`
	base := map[string]string{"out/a": "1", "out/b": "old\n"}
	o := originalOf(t, x, members, work(base))
	if got := again(t, x, o, members, work(base), 1); got.Matches != 1 {
		t.Fatalf("the same folder: %+v", got)
	}
	for name, tc := range map[string]struct {
		files          map[string]string
		pointer, about string
	}{
		"nothing":            {nil, "/operations/0/before_sha256", "out/b"},
		"another base":       {map[string]string{"out/a": "1", "out/b": "older\n"}, "/operations/0/before_sha256", "out/b"},
		"the same already":   {map[string]string{"out/a": "1", "out/b": "new\n"}, "/operations/0", "out/b"},
		"a file is missing":  {map[string]string{"out/b": "old\n"}, "/operations", "out/a"},
		"one more unchanged": {map[string]string{"out/a": "1", "out/b": "old\n", "out/c": "3"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := again(t, x, o, members, work(tc.files), 1)
			if tc.pointer == "" {
				if got.Matches != 1 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got.Differences) != 1 || got.Differences[0].File != pack.PatchFile || got.Differences[0].Pointer != tc.pointer || got.Differences[0].About != tc.about {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestReproduceFlakyStream: the output of a command before the last one is compared too.
// Runs in which it is the same match.
func TestReproduceFlakyStream(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	word := shared(t, "same")
	members := intents.Actions(intents.Argv("cat", word), intents.Argv("true"))
	folders := harness.Folders{Read: []string{word}}
	o := originalOf(t, x, members, folders)
	req := x.Request(members, folders)
	words := []string{"same", "else", "same"}
	got, err := o.Reproduce(t.Context(), x.Deps, x.Gate, Again{Source: req.Source, Path: "i", Folders: req.Folders, Runs: len(words), Begin: func(i int) {
		if err := os.WriteFile(word, []byte(words[i]), 0o644); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Matches != 2 || len(got.Differences) != 1 || got.Differences[0].Pointer != "/runs/0/stdout_sha256" || got.Differences[0].About != "action 0" {
		t.Errorf("%+v", got)
	}
}

// TestReproduceMoreThanAPatchHolds: the pack has the files as unchanged. A run that leaves
// more than a patch can hold differs from that pack.
func TestReproduceMoreThanAPatchHolds(t *testing.T) {
	x := newReproducer(t, sandbox.Confined)
	large := shared(t, strings.Repeat("0123456789abcdef", (pack.MaxPatchBytes>>4)+1))
	text, err := os.ReadFile(large)
	if err != nil {
		t.Fatal(err)
	}
	members := intents.Actions(intents.Sh("mkdir -p out; cp "+large+" out/a")) + `,"outputs":["out/a"]`
	folders := harness.Folders{Read: []string{large}, Work: treetest.Filled(t, map[string]string{"out/a": string(text)})}
	o := originalOf(t, x, members, folders)
	if got := again(t, x, o, members, folders, 1); got.Matches != 1 {
		t.Fatalf("the same folder: %+v", got)
	}
	folders.Work = ""
	got := again(t, x, o, members, folders, 1)
	if len(got.Differences) != 1 || got.Differences[0].File != pack.PatchFile || got.Differences[0].About != "out/a" {
		t.Errorf("%+v", got)
	}
}
