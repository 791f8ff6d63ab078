//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workspace"
)

// replay runs the item of a receipt again in a new folder, as fiador work replay does.
func (b *bench) replay(t *testing.T, r receipt.Result) workflow.Replayed {
	t.Helper()
	s, err := b.subject(r)
	if err != nil {
		t.Fatal(err)
	}
	again := newBench(t, host(t), nil)
	again.Gate, again.Env = b.Gate, b.Env
	got, err := again.Replay(t.Context(), b.receipt(t, r), s, b.Store, b.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if got.Match() && again.state(t, b.receipt(t, r).Core.Scratch...) != r.OutputHash {
		t.Error("the replay has led to another state")
	}
	return got
}

// TestChanges: each kind of change is counted, applied, and made again by a replay.
func TestChanges(t *testing.T) {
	files := map[string]string{
		"a": "1\n2\n3\n4\n5\n", "b": "one\ntwo", "c": "one\r\ntwo\r\n", "bin": "a\x00b\n", "d/e/f": "f\n", "d/g": "g\n", "+run": "#!/bin/sh\n",
		"main_test.go": "package a\n", "Makefile": "all:\n",
	}
	for _, c := range []struct {
		name, script, members string
		changed               string // op and path
		delta                 string // declared, tests, control, other
	}{
		{"nothing", `true`, "", "", "0 0 0 0"},
		{"the same bytes", `cat a >x; mv x a; touch b`, "", "", "0 0 0 0"},
		{"an empty folder", `mkdir -p x/y`, "", "", "0 0 0 0"},
		{"two regions", `sed -i 's/1/x/; s/4/y/' a`, "", "modify a", "0 0 0 2"},
		{"an output", `echo 6 >>a`, `"output_files":["a"],`, "modify a", "1 0 0 0"},
		{"a test", `echo >>main_test.go; mkdir testdata; echo x >testdata/x`, "", "modify main_test.go; create testdata/x", "0 2 0 0"},
		{"deletes alone", `rm a; rm -r d`, "", "delete a; delete d/e/f; delete d/g", "0 0 0 3"},
		{"a rename", `mv a z`, "", "delete a; create z", "0 0 0 2"},
		{"a folder is renamed", `mv d h`, "", "delete d/e/f; delete d/g; create h/e/f; create h/g", "0 0 0 4"},
		{"a mode", `chmod +x a; chmod -x run`, "", "modify a; modify run", "0 0 0 2"},
		{"a mode and a text", `chmod +x a; echo 6 >>a`, "", "modify a", "0 0 0 2"},
		{"a mebibyte", `head -c 1048576 /dev/zero | tr '\0' x >big`, "", "create big", "0 0 0 1"},
		{"without a last line feed", `printf x >>b; printf 'no end' >x`, "", "modify b; create x", "0 0 0 2"},
		{"a line feed alone", `echo >>b`, "", "modify b", "0 0 0 1"},
		{"CRLF", `sed -i 's/\r//' c`, "", "modify c", "0 0 0 1"},
		{"binary", `printf 'a\0c\nd\n' >bin; head -c 5000 /dev/zero >x`, "", "modify bin; create x", "0 0 0 2"},
		{"no text", `printf '\377\n' >a`, "", "modify a", "0 0 0 1"},
		{"an empty file", `: >a; : >x`, "", "modify a; create x", "0 0 0 2"},
		{"a name with a blank", `echo x >'a b'; mkdir é; echo x >é/ü`, "", "create a b; create é/ü", "0 0 0 2"},
		{"a file for a folder", `rm -r d; echo x >d`, "", "create d; delete d/e/f; delete d/g", "0 0 0 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, host(t), files)
			before := b.state(t)
			b.agent("x", "set -e; "+c.script)
			r := b.one(t, "x", c.members)
			rc := b.receipt(t, r)
			var changed []string
			for _, a := range rc.Core.Artifacts {
				changed = append(changed, string(a.Op)+" "+a.Path)
			}
			d := rc.Core.Delta
			if r.Status != receipt.Success || strings.Join(changed, "; ") != c.changed || fmt.Sprint(d.Pi, d.Q, d.Lambda, d.O) != c.delta || d.Total != d.Pi+d.Q+d.Lambda+d.O {
				t.Fatalf("%s %q: %q, %+v", r.Status, rc.Core.Reasons, changed, d)
			}
			if now := b.state(t); now != r.OutputHash || (now == before) != (c.changed == "") {
				t.Errorf("the state is %s", now)
			}
			if got := b.replay(t, r); !got.Match() {
				t.Errorf("replay: %+v", got)
			}
		})
	}
}

// TestScratch: scratch is visible to the agent. It is not hashed, counted, judged or applied,
// and what the agent writes there is not visible to the test.
func TestScratch(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n", "node_modules/m/i": "i\n", "d/cache/k": "k\n", "x.log": "log\n"})
	b.agent("x", `cat node_modules/m/i x.log d/cache/k >a; i=0; while [ $i -lt 20 ]; do echo x >node_modules/n$i; i=$((i+1)); done
		rm node_modules/m/i; ln -s /etc/passwd d/cache/link; echo more >>x.log; echo new >y.log; mkdir -p e/cache/n; echo x >e/cache/n/o; test -e node_modules/n3`)
	run := func(members string) receipt.Result {
		t.Helper()
		plan := `{"plan_version":"1.0.0","scratch":["node_modules/**","**/cache/**","*.log"],"items":[` + item("x", members) + `]}`
		if _, err := b.try(t, t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		b.holds(t)
		return b.got[0]
	}
	seen := run(`"test_command":"test -e node_modules/n3",`)
	if seen.Status != receipt.Failure || b.reasons(t, seen) != "TEST 1" {
		t.Errorf("the test sees what the agent has left: %+v", seen)
	}
	r := run(`"test_command":"test -e node_modules/m/i && test ! -e e/cache && cat x.log d/cache/k",`)
	if r.Status != receipt.Success || r.TestOutput != "log\nk\n" || strings.Join(r.ModifiedFiles, " ") != "a" || len(r.CreatedFiles)+len(r.DeletedFiles) > 0 || r.Metrics.DeltaSize != 1 {
		t.Fatalf("%s %s: %+v", r.Status, b.reasons(t, r), r)
	}
	if b.text(t, "a") != "i\nlog\nk\n" || b.text(t, "x.log") != "log\n" || b.text(t, "node_modules/m/i") != "i\n" {
		t.Error("scratch was applied")
	}
	for _, name := range []string{"node_modules/n0", "d/cache/link", "y.log", "e"} {
		if _, err := os.Lstat(filepath.Join(b.Tree, name)); err == nil {
			t.Errorf("%s was applied", name)
		}
	}
	if got := b.state(t, "node_modules/**", "**/cache/**", "*.log"); got != r.OutputHash || got == b.state(t) {
		t.Errorf("the state is %s", got)
	}
	// Another content of scratch is no drift, and no other state.
	grow(t, b.Tree, map[string]string{"node_modules/m/i": "j\n", "z.log": "z\n"})
	if again := run(`"test_command":"test -e node_modules/m/i && test ! -e e/cache && cat x.log d/cache/k",`); !again.Replayed || again.ReceiptID != r.ReceiptID {
		t.Errorf("%+v", again)
	}
}

// TestScratchStays: a folder whose files an item deletes stays while it holds scratch.
func TestScratchStays(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"p/a": "one\n", "p/node_modules/i": "i\n", "q/a": "one\n"})
	b.agent("x", `rm -r p q`)
	if _, err := b.try(t, t.Context(), `{"plan_version":"1.0.0","scratch":["**/node_modules/**"],"items":[`+item("x", "")+`]}`); err != nil {
		t.Fatal(err)
	}
	b.holds(t)
	if r := b.got[0]; r.Status != receipt.Success || strings.Join(r.DeletedFiles, " ") != "p/a q/a" || b.text(t, "p/node_modules/i") != "i\n" {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(filepath.Join(b.Tree, "q")); err == nil {
		t.Error("an empty folder is left")
	}
}

// TestLookup: a success with the same key is a result again where it has led, unless --rerun
// asks for a run. Another policy, agent or item is another key.
func TestLookup(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	b.agent("x", `echo x >>a`)
	first := b.one(t, "x", "")
	replayed := func(want bool, id, members string) {
		t.Helper()
		if r := b.one(t, id, members); r.Replayed != want || want && r.ReceiptID != first.ReceiptID || r.ID != id {
			t.Errorf("%+v", r)
		}
	}
	replayed(true, "x", "")
	replayed(true, "x", `"budget":{"complexity":"low","time_estimate_ms":1},`)
	b.Rerun = true
	replayed(false, "x", "")
	if b.Rerun = false; b.text(t, "a") != "one\nx\nx\n" {
		t.Error(b.text(t, "a"))
	}
	first = receipt.Result{ReceiptID: b.lines(t)[1].ReceiptID}
	replayed(true, "x", "")
	replayed(false, "x", `"constraints":{"max_files":9},`)
	b.agent("x", `echo x >>a; true`)
	replayed(false, "x", "")
	grow(t, b.Tree, map[string]string{"c": "edited\n"})
	replayed(false, "x", "")
	if n := len(b.lines(t)); n != 5 {
		t.Errorf("%d receipts", n)
	}
	// An error, a denial and a failure are never a result again.
	b.agent("y", `exit 3`)
	for range 2 {
		if r := b.one(t, "y", ""); r.Replayed || r.Status != receipt.Failure {
			t.Errorf("%+v", r)
		}
	}
}

// TestOnly: with --only the other items count by what the store knows of them.
func TestOnly(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	b.agent("x", `echo x >x`)
	b.agent("y", `cat x >y`)
	b.agent("z", `cat y >z`)
	plan := []string{item("x", ""), after("y", "", "x"), after("z", "", "y", "elsewhere")}
	only := func(ids ...string) (ran, blocked string) {
		t.Helper()
		b.Only = ids
		s := b.run(t, plan...)
		for _, e := range s.Items {
			ran += e.ID + " " + string(e.Status) + fmt.Sprint(e.Level) + ";"
		}
		for _, e := range s.Blocked {
			blocked += e.ID + fmt.Sprint(e.WaitingFor) + ";"
		}
		return ran, blocked
	}
	for _, c := range []struct {
		only         []string
		ran, blocked string
	}{
		{[]string{"y"}, "", "y[x];"},
		{[]string{"x"}, "x success0;", ""},
		{[]string{"y", "z"}, "y success1;", "z[elsewhere];"},
	} {
		if ran, blocked := only(c.only...); ran != c.ran || blocked != c.blocked {
			t.Errorf("%q: ran %q, blocked %q", c.only, ran, blocked)
		}
	}
	// The newest receipt of an id counts, of whatever plan.
	b.Only = nil
	b.agent("elsewhere", `exit 1`)
	b.run(t, item("elsewhere", ""))
	if ran, blocked := only("z"); ran != "" || blocked != "z[elsewhere];" {
		t.Errorf("ran %q, blocked %q", ran, blocked)
	}
	b.Only = nil
	b.agent("elsewhere", `echo e >e`)
	b.run(t, item("elsewhere", ""))
	if ran, blocked := only("z"); ran != "z success2;" || blocked != "" || b.text(t, "z") != "x\n" {
		t.Errorf("ran %q, blocked %q", ran, blocked)
	}
	b.Only = []string{"nobody"}
	b.fails(t, plan...)
}

// TestBlocked: what waits for no success does not run, and what waits for that neither.
func TestBlocked(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	for id, script := range map[string]string{"x": `echo x >x`, "y": `exit 1`, "z": `echo z >z`, "w": `echo w >w`} {
		b.agent(id, script)
	}
	s := b.run(t, item("x", ""), item("y", ""), after("z", "", "x", "y"), after("w", "", "z"))
	if got := fmt.Sprint(s.Blocked); got != "[{z [y]} {w [z]}]" || len(s.Items) != 2 || s.Success() || b.text(t, "x") != "x\n" {
		t.Errorf("%s, %+v", got, s)
	}
}

// TestResume: the successes of the same plan count while the folder is what they have made it.
func TestResume(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n"})
	b.agent("x", `echo x >>a`)
	b.agent("y", `test -e go && echo y >>a`)
	plan := []string{item("x", ""), after("y", "", "x")}
	b.run(t, plan...)
	b.Resume = true
	if s := b.run(t, plan...); len(s.Items) != 2 || s.Items[0].Status != receipt.Success || s.Items[1].Status != receipt.Failure || len(b.got) != 1 || b.text(t, "a") != "one\nx\n" {
		t.Errorf("%+v, %+v", s, b.got)
	}
	// Another folder, or another plan, and everything runs.
	grow(t, b.Tree, map[string]string{"go": ""})
	if s := b.run(t, plan...); !s.Success() || len(b.got) != 2 || b.text(t, "a") != "one\nx\nx\ny\n" {
		t.Errorf("%+v, %+v", s, b.got)
	}
	if s := b.run(t, append(plan, after("z", `"actions":[{"kind":"write","path":"z","content":"z"}],`, "y"))...); !s.Success() || len(b.got) != 3 {
		t.Errorf("%+v, %+v", s, b.got)
	}
}

// TestReplayDiffers: a replay that leaves something else says where, and one that does not succeed
// says why.
func TestReplayDiffers(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"a": "one\n", "cache/k": "k\n"})
	b.agent("x", `date +%N >b; echo c >c; cat cache/k >a; exit 0`)
	run := func(members string) receipt.Result {
		t.Helper()
		if _, err := b.try(t, t.Context(), `{"plan_version":"1.0.0","scratch":["cache/**"],"items":[`+item("x", members)+`]}`); err != nil {
			t.Fatal(err)
		}
		return b.got[0]
	}
	if got := b.replay(t, run("")); got.Match() || got.Difference != "a" { // scratch is not there
		t.Errorf("%+v", got)
	}
	b.agent("x", `date +%N >b; echo c >c`)
	if got := b.replay(t, run("")); got.Match() || got.Difference != "b" {
		t.Errorf("%+v", got)
	}
	b.agent("x", `echo d >d`)
	if got := b.replay(t, run(`"test_command":"test -e cache/k",`)); got.Match() || got.Status != receipt.Failure || got.Why != "Tests failed" {
		t.Errorf("%+v", got)
	}
	// Without the content of the state there is no answer.
	b.agent("x", `echo e >e`)
	r := run("")
	grow(t, b.Tree, map[string]string{"c": "edited\n"})
	s, err := b.subject(r)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := workspace.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	again := newBench(t, host(t), nil)
	if _, err := again.Replay(t.Context(), b.receipt(t, r), s, empty, b.Tree); err == nil || !strings.Contains(err.Error(), "neither the store nor the folder has the state") {
		t.Errorf("%v", err)
	}
}

// TestActions: the actions of an item run in the place of an agent, and each counts as a call.
func TestActions(t *testing.T) {
	const write, fails = `{"kind":"write","path":"x","content":"x\n"}`, `{"kind":"run","argv":["sh","-c","exit 4"]}`
	const shell = `{"kind":"run","argv":["sh","-c","cat x x >>a"]}`
	for _, c := range []struct {
		actions, members string
		status           receipt.Status
		reasons          string
		ops              int
	}{
		{write + "," + shell, `"test_command":"test -s x",`, receipt.Success, "", 2},
		{write + "," + shell, `"constraints":{"max_tool_ops":1},`, receipt.Denied, "MAX_TOOL_OPS", 2},
		{write + "," + fails + "," + shell, "", receipt.Failure, "EXIT 4", 1},
		{shell, "", receipt.Failure, "EXIT 1", 0},
		{write, `"input_files":["none"],`, receipt.Failure, "INPUT_MISSING none", 0},
		{write, `"input_files":["none"],"test_command":"true",`, receipt.Failure, "INPUT_MISSING none", 0},
		{shell + "," + write, `"input_files":["none"],`, receipt.Failure, "INPUT_MISSING none", 0},
		{write, `"test_command":"false",`, receipt.Failure, "TEST 1", 1},
		{write, `"output_files":["x","y"],`, receipt.Failure, "OUTPUT_MISSING y", 1},
		{write, `"allow":[],`, receipt.Denied, "NOT_ALLOWED x", 1},
		{write, `"protect":["x"],"test_command":"true",`, receipt.Denied, "PROTECTED x", 1},
	} {
		b := newBench(t, host(t), map[string]string{"a": "one\n"})
		before := b.state(t)
		r := b.one(t, "x", `"actions":[`+c.actions+`],`+c.members)
		rc := b.receipt(t, r)
		if r.Status != c.status || b.reasons(t, r) != c.reasons || rc.Core.Trace != (receipt.Trace{Coverage: receipt.Complete, Ops: c.ops}) {
			t.Errorf("%s: %s %s, %+v", c.actions, r.Status, b.reasons(t, r), rc.Core.Trace)
		}
		if now := b.state(t); (now == before) != (c.status != receipt.Success) || now != r.OutputHash {
			t.Errorf("%s: the state is %s", c.actions, now)
		}
		if c.status == receipt.Success {
			if got := b.replay(t, r); !got.Match() || b.text(t, "a") != "one\nx\nx\n" {
				t.Errorf("%+v", got)
			}
		}
	}
}
