//go:build linux && (amd64 || arm64)

package harness_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// anyCommand lets a profile run everything and write everywhere.
func anyCommand(p *kernel.Profile) {
	p.AllowedWriteRoots = kernel.AllowList{All: true}
}

// TestExecRefuses: a limit that the profile or the contract does not allow is an error
// before anything is started.
func TestExecRefuses(t *testing.T) {
	number := func(n int) *int { return &n }
	for _, tc := range []struct {
		name   string
		change func(*kernel.Profile)
		exec   harness.Exec
		words  string
	}{
		{name: "too little memory", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{MemoryMB: number(contract.MemoryMB().Min - 1)}}, words: "memory_mb"},
		{name: "more memory than the profile's", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{MemoryMB: number(513)}}, words: "memory_mb"},
		{name: "no processor", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{CPUCores: number(0)}}, words: "cpu_cores"},
		{name: "more processors than the profile's", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{CPUCores: number(2)}}, words: "cpu_cores"},
		{name: "less than no children", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{MaxChildren: number(-1)}}, words: "max_children"},
		{name: "more children than the profile's", exec: harness.Exec{Argv: []string{"true"}, Limits: harness.ExecLimits{MaxChildren: number(11)}}, words: "max_children"},
		{name: "hardly any time", exec: harness.Exec{Argv: []string{"true"}, Timeout: 999 * time.Millisecond}, words: "timeout_ms"},
		{name: "time before now", exec: harness.Exec{Argv: []string{"true"}, Timeout: -time.Second}, words: "timeout_ms"},
		{name: "more time than the profile's", exec: harness.Exec{Argv: []string{"true"}, Timeout: 121 * time.Second}, words: "timeout_ms"},
		{name: "more time than the contract's", exec: harness.Exec{Argv: []string{"true"}, Timeout: time.Hour}, words: "timeout_ms"},
		{name: "weaker isolation than the profile's", change: func(p *kernel.Profile) { p.Isolation = kernel.IsolationFull }, exec: harness.Exec{Argv: []string{"true"}, Isolation: sandbox.Confined}, words: "isolation"},
		{name: "write root of another profile", exec: harness.Exec{Argv: []string{"true"}, Roots: []string{"src"}}, words: "allowed_write_roots"},
		{name: "write root above the profile's", exec: harness.Exec{Argv: []string{"true"}, Roots: []string{"."}}, words: "allowed_write_roots"},
		{name: "name that begins like a write root", exec: harness.Exec{Argv: []string{"true"}, Roots: []string{"outer"}}, words: "allowed_write_roots"},
		{name: "profile that executes nothing", change: func(p *kernel.Profile) { p.ExecutionModes = []string{harness.ModePlanOnly} }, exec: harness.Exec{Argv: []string{"true"}}, words: "execute-sandbox"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := harnesstest.NewExecutor(t, untouched{t}, tc.change)
			_, err := x.Gate.Exec(tc.exec)
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeProfile || !strings.Contains(re.Message, tc.words) || re.Hint == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestExecNarrows: the sandbox gets the requested values within the profile, and the
// profile's values where nothing is requested.
func TestExecNarrows(t *testing.T) {
	number := func(n int) *int { return &n }
	x := harnesstest.NewExecutor(t, untouched{t}, nil)
	task, err := x.Gate.Exec(harness.Exec{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if l := task.Sandbox.Limits; l != x.Gate.Limits() || task.Budget != 120*time.Second || task.Sandbox.Least != sandbox.Confined || task.Sandbox.Most != "" {
		t.Errorf("%+v", task)
	}
	task, err = x.Gate.Exec(harness.Exec{
		Argv: []string{"true"}, Env: map[string]string{"B": "2", "A": "1"}, Timeout: time.Second, Isolation: sandbox.Full, Roots: []string{"out/a"}, Bytes: 4096,
		Limits: harness.ExecLimits{MemoryMB: number(64), CPUCores: number(1), MaxChildren: number(0), NoFork: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Limits{MemoryMB: 64, CPUCores: 1, MaxChildren: 0, NoFork: true, OutputFiles: x.Gate.Profile.MaxOutputFiles, OutputBytes: 4096}
	if task.Sandbox.Limits != want || task.Budget != time.Second || task.Rules.MaxBytes != 4096 || !slices.Equal(task.Rules.Roots, []string{"out/a"}) || task.Rules.AnyRoot {
		t.Errorf("%+v", task)
	}
	if task.Sandbox.Least != sandbox.Full || task.Sandbox.Most != sandbox.Full || !slices.Equal(task.Sandbox.Actions[0].Env, []string{"A=1", "B=2"}) {
		t.Errorf("%+v", task.Sandbox)
	}
	if task, err := x.Gate.Exec(harness.Exec{Argv: []string{"true"}, Roots: []string{}}); err != nil || task.Rules.AnyRoot || len(task.Rules.Roots) > 0 {
		t.Errorf("no root at all: %+v (%v)", task.Rules, err)
	}
}

// performed executes one command and closes it at the end of the test.
func performed(t *testing.T, x harnesstest.Executor, e harness.Exec) *execute.Performed {
	t.Helper()
	if e.Write == "" {
		e.Write = sandbox.Staged
	}
	task, err := x.Gate.Exec(e)
	if err != nil {
		t.Fatal(err)
	}
	task.Now = x.Deps.Now
	p, err := execute.Perform(t.Context(), execute.Here{Runner: x.Deps.Runner}, task)
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

func script(text string) []string { return []string{"sh", "-c", text} }

// TestExecStreams: all bytes of a stream pass through unchanged, however few are kept. A
// truncated stream is no reason to reject.
func TestExecStreams(t *testing.T) {
	random := make([]byte, 3<<20)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), anyCommand)
			var stdout, stderr bytes.Buffer
			p := performed(t, x, harness.Exec{Argv: script("cat; printf '\\000\\377' >&2"), Streams: harness.Streams{Stdin: bytes.NewReader(random), Stdout: &stdout, Stderr: &stderr}})
			if code, reasons := p.Observed.Judge(); code != 0 || len(reasons) > 0 {
				t.Errorf("exit code %d, %q", code, reasons)
			}
			if !bytes.Equal(stdout.Bytes(), random) || stderr.String() != "\x00\xff" {
				t.Errorf("%d bytes and %q came through", stdout.Len(), stderr.String())
			}
			if p.Stdout.Size != int64(len(random)) || len(p.Stdout.Bytes) != contract.StdoutBytes().Max || !p.Stdout.Truncated || p.Stderr.Truncated {
				t.Errorf("%d of %d bytes kept", len(p.Stdout.Bytes), p.Stdout.Size)
			}
		})
	}
}

// TestExecOwnStreams: a command can open its own streams by their names.
func TestExecOwnStreams(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), anyCommand)
	p := performed(t, x, harness.Exec{Argv: script("echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin"), Streams: harness.Streams{Stdin: strings.NewReader("in\n")}})
	if out, err := string(p.Stdout.Bytes), string(p.Stderr.Bytes); out != "out\nin\n" || err != "err\n" {
		t.Errorf("standard output %q, standard error %q", out, err)
	}
}

// TestExecWrites: accepted changes are applied, with links that stay inside. Of rejected
// changes, none is applied.
func TestExecWrites(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, script string
				change       func(*kernel.Profile)
				code         int
				reasons      []string
				applied      string // paths afterwards, without the earlier ones
				text         string // of old
			}{
				{name: "accepted", script: "echo new >old; mkdir -p d/e; echo x >d/e/f; ln -s d/e/f link; rm gone", applied: "d d/e d/e/f link", text: "new\n"},
				{name: "nothing written", script: "cat old", text: "old\n"},
				{name: "failed", script: "echo new >old; echo >x; exit 3", code: 3, reasons: []string{"EXIT 3"}, text: "old\n"},
				{name: "a link that leads outside", script: "echo new >old; ln -s ../x link", code: 125, reasons: []string{"OUTPUT_KIND link"}, text: "old\n"},
				{name: "settings of other tools", script: "echo new >old; mkdir -p .github/workflows; echo >.github/workflows/x.yml", code: 125, text: "old\n",
					reasons: []string{"WRITE_OUTSIDE_ROOT .github/workflows", "WRITE_OUTSIDE_ROOT .github/workflows/x.yml"}},
				{name: "outside the write roots", script: "mkdir -p out; echo >out/x; echo new >old", change: func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{Names: []string{"out"}} },
					code: 125, reasons: []string{"WRITE_OUTSIDE_ROOT old"}, text: "old\n"},
				{name: "over a limit", script: "echo new >old; for i in 1 2 3; do echo >$i; done", change: func(p *kernel.Profile) { anyCommand(p); p.MaxOutputFiles = 3 },
					code: 125, reasons: []string{"OUTPUT_LIMIT"}, text: "old\n"},
			} {
				t.Run(tc.name, func(t *testing.T) {
					if tc.change == nil {
						tc.change = anyCommand
					}
					x := harnesstest.NewExecutor(t, h, tc.change)
					work, state := t.TempDir(), t.TempDir()
					treetest.Put(t, filepath.Join(work, "old"), "old\n")
					treetest.Put(t, filepath.Join(work, "gone"), "gone\n")
					before := fingerprint(t, work)
					p := performed(t, x, harness.Exec{Argv: script(tc.script), Work: work})
					code, reasons := p.Observed.Judge()
					if code != tc.code || !slices.Equal(reasons, tc.reasons) {
						t.Errorf("exit code %d, reasons %q", code, reasons)
					}
					if after := fingerprint(t, work); after != before {
						t.Errorf("the work folder has changed before anything was applied:\n%s\nwas\n%s", after, before)
					}
					if code == 0 {
						if err := p.Promote(t.Context(), state, work, nil); err != nil {
							t.Fatal(err)
						}
					}
					if got := strings.Join(slices.DeleteFunc(paths(t, work), func(p string) bool { return p == "old" || p == "gone" }), " "); got != tc.applied {
						t.Errorf("applied %q, want %q", got, tc.applied)
					}
					if b, err := os.ReadFile(filepath.Join(work, "old")); err != nil || string(b) != tc.text {
						t.Errorf("old is %q (%v)", b, err)
					}
				})
			}
		})
	}
}

// paths returns the paths beneath a folder.
func paths(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if rel, relErr := filepath.Rel(dir, p); err == nil && relErr == nil && rel != "." {
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExecDirect: direct writes take effect at once, however the command ends, and only
// within the write roots. Existing settings of other tools stay as they are.
func TestExecDirect(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Full)
	for _, tc := range []struct {
		name, script string
		change       func(*kernel.Profile)
		want         string
	}{
		{name: "everywhere", script: "echo >x; echo >out/y", change: anyCommand, want: "x out/y"},
		{name: "within the write roots", script: "echo >x; echo >out/y", want: "out/y"},
		{name: "though it fails", script: "echo >out/y; exit 3", want: "out/y"},
		{name: "not into the settings of other tools", script: "echo >.git/x; echo changed >.git/config; rm -r .git; mv .git out; echo >out/y", change: anyCommand, want: "out/y"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := harnesstest.NewExecutor(t, h, tc.change)
			work := t.TempDir()
			treetest.Put(t, filepath.Join(work, ".git/config"), "kept\n")
			treetest.Put(t, filepath.Join(work, "out/old"), "old\n")
			known := paths(t, work)
			performed(t, x, harness.Exec{Argv: script(tc.script), Work: work, Write: sandbox.Direct})
			got := slices.DeleteFunc(paths(t, work), func(p string) bool { return slices.Contains(known, p) })
			want := strings.Fields(tc.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("new is %q, want %q", got, want)
			}
			if b, err := os.ReadFile(filepath.Join(work, ".git/config")); err != nil || string(b) != "kept\n" {
				t.Errorf(".git/config is %q (%v)", b, err)
			}
		})
	}
}

// TestExecIsolation: the sandbox has exactly the requested isolation, or else the
// strongest one. The record names it, clause by clause.
func TestExecIsolation(t *testing.T) {
	temp, err := os.MkdirTemp("", "fiador-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, isolation := range harnesstest.Tiers {
		harnesstest.NewTier(t, isolation)
	}
	h := sandbox.NewHost(temp)
	t.Cleanup(func() { h.Close() })
	x := harnesstest.NewExecutor(t, h, anyCommand)
	for asked, want := range map[sandbox.Isolation]sandbox.Isolation{"": sandbox.Full, sandbox.Full: sandbox.Full, sandbox.Confined: sandbox.Confined} {
		p := performed(t, x, harness.Exec{Argv: script("pwd; echo err >&2; exit 3"), Isolation: asked})
		if p.Isolation != want || (string(p.Stdout.Bytes) == sandbox.WorkDir+"\n") != (want == sandbox.Full) {
			t.Errorf("asked for %q: %s, in %q", asked, p.Isolation, p.Stdout.Bytes)
		}
		b, err := p.RunnerRecord(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := canon.Parse(b, result.MaxBytes)
		if err != nil || !bytes.Equal(b, append(bytes.Clone(doc.Bytes()), '\n')) {
			t.Fatalf("%v in %s", err, b)
		}
		record := doc.Value().(map[string]any)
		box := record["sandbox"].(map[string]any)
		level := map[sandbox.Isolation]string{sandbox.Full: "strict", sandbox.Confined: "standard"}[want]
		if box["isolation_level"] != level || !canon.ContentHash(record["plan_sha256"].(string)).Valid() || len(box["layers"].([]any)) < 10 {
			t.Errorf("%s", b)
		}
		if reasons, ok := record["reasons"].([]any); !ok || len(reasons) != 1 || reasons[0] != "EXIT 3" {
			t.Errorf("reasons %v", record["reasons"])
		}
	}
}

// TestExecInterrupted: a context that is done ends a command whose input never ends.
func TestExecInterrupted(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), anyCommand)
	silent, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer w.Close()
	task, err := x.Gate.Exec(harness.Exec{Argv: []string{"cat"}, Write: sandbox.Staged, Streams: harness.Streams{Stdin: silent}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	task.Now = x.Deps.Now
	p, err := execute.Perform(ctx, execute.Here{Runner: x.Deps.Runner}, task)
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeSandbox || p != nil {
		t.Errorf("%v", err)
	}
}

// requestCase is an execution request with its expected end.
type requestCase struct {
	name, members string // members beside the ids, as YAML
	code          int
	reasons       []string
	meaning       string
	outputs       []string
	stdout        *string
	applied       []string // new paths in the work folder
	artifacts     []string // paths
}

// usualTime changes a profile so that a request need not state its time.
func usualTime(p *kernel.Profile) {
	anyCommand(p)
	p.TimeoutMS = contract.TimeoutMS().Default
}

func requestCases() []requestCase {
	text := func(s string) *string { return &s }
	return []requestCase{
		{name: "least", members: "inputs: {command: 'true'}", meaning: "success"},
		{name: "everything", meaning: "success", stdout: text("in a\nx=1\nsub\n"), outputs: []string{"sub/new"}, applied: []string{"sub/new"}, members: `
inputs:
  command: sh
  arguments: ["-c", "echo $(cat) $(cat ../in/a); echo x=$X; basename $PWD; echo new >new"]
  environment: {X: "1"}
  working_directory: sub
  input_files: [in/a]
  stdin: in
sandbox:
  timeout_ms: 30000
  memory_mb: 256
  cpu_cores: 1
  filesystem: {write: [sub]}
  network: {enabled: false, deny: [example.com]}
  processes: {max_children: 4}
outputs: {stdout: expected, stderr: captured, exit_code: 0, output_files: [sub/new]}
metadata: {requested_by: a test}`},
		{name: "exit code", members: shell("echo >x; exit 4"), code: 4, reasons: []string{"EXIT 4"}, meaning: "tool_error", outputs: []string{"x"}},
		{name: "exit code that is expected", members: shell("echo >x; exit 4") + "\noutputs: {exit_code: 4}", code: 4, meaning: "tool_error", outputs: []string{"x"}, applied: []string{"x"}},
		{name: "another exit code than expected", members: shell("echo >x; exit 5") + "\noutputs: {exit_code: 4}", code: 5, reasons: []string{"EXIT 5"}, meaning: "tool_error", outputs: []string{"x"}},
		{name: "success that is not expected", members: shell("echo >x") + "\noutputs: {exit_code: 4}", code: 125, reasons: []string{"EXIT 0"}, meaning: "tool_error", outputs: []string{"x"}},
		{name: "expected exit code without the expected file", members: shell("exit 4") + "\noutputs: {exit_code: 4, output_files: [x]}", code: 4, reasons: []string{"OUTPUT_MISSING x"}, meaning: "tool_error"},
		{name: "signal whose number is expected as a code", members: shell("kill -9 $$") + "\noutputs: {exit_code: 137}", code: 137, reasons: []string{"SIGNAL 9"}},
		{name: "not found whose number is expected", members: "inputs: {command: no-such-command}\noutputs: {exit_code: 127}", code: 127, reasons: []string{"NOT_FOUND"}, meaning: "not_found"},
		{name: "missing standard output", members: shell("echo >&2") + "\noutputs: {stdout: expected, stderr: expected}", code: 125, reasons: []string{"OUTPUT_MISSING /outputs/stdout"}, meaning: "tool_error"},
		{name: "missing standard error", members: shell("echo") + "\noutputs: {stdout: expected, stderr: expected}", code: 125, reasons: []string{"OUTPUT_MISSING /outputs/stderr"}, meaning: "tool_error"},
		{name: "missing files", members: shell("echo >x") + "\noutputs: {output_files: [z, x, a/b]}", code: 125, reasons: []string{"OUTPUT_MISSING a/b", "OUTPUT_MISSING z"}, meaning: "tool_error", outputs: []string{"x"}},
		{name: "over its time", members: shell("sleep 30") + "\nsandbox: {timeout_ms: 1000}", code: 143, reasons: []string{"TIMEOUT"}, meaning: "timeout"},
		{name: "no forks", members: shell("echo here; /bin/true; echo there") + "\nsandbox: {processes: {allow_fork: false}}", code: 2, reasons: []string{"EXIT 2"}, meaning: "tool_error", stdout: text("here\n")},
		{name: "within its write roots", members: shell("echo >sub/x") + "\nsandbox: {filesystem: {write: [sub]}}", meaning: "success", outputs: []string{"sub/x"}, applied: []string{"sub/x"}},
		{name: "outside its write roots", members: shell("echo >sub/x; echo >x") + "\nsandbox: {filesystem: {write: [sub]}}", code: 125, reasons: []string{"WRITE_OUTSIDE_ROOT x"}, meaning: "tool_error", outputs: []string{"sub/x", "x"}},
		{name: "without write roots", members: shell("echo >sub/x") + "\nsandbox: {filesystem: {write: []}}", code: 125, reasons: []string{"WRITE_OUTSIDE_ROOT sub/x"}, meaning: "tool_error", outputs: []string{"sub/x"}},
		{name: "a hidden folder", members: shell("cat sub/keep || cat in/a") + "\nsandbox: {filesystem: {deny: [sub]}}", meaning: "success", stdout: text("a\n")},
		{name: "a hidden file", members: shell("cat in/a || echo hidden") + "\nsandbox: {filesystem: {deny: [in/a]}}", meaning: "success", stdout: text("hidden\n")},
		{name: "an input that is changed", members: strings.Replace(shell("rm -f in/a; echo >in/a"), "arguments", "input_files: [in/a], arguments", 1), code: 125, reasons: []string{"WRITE_OUTSIDE_ROOT in/a"}, meaning: "tool_error", outputs: []string{"in/a"}},
		{name: "more than ten MiB", members: shell("head -c 6000000 /dev/full >x; head -c 6000000 /dev/full >y"), code: 125, reasons: []string{"OUTPUT_LIMIT"}, meaning: "tool_error", outputs: []string{"x"}},
		{name: "artifacts", members: shell("echo >x") + "\noutputs: {artifacts: [{path: x, name: copy}, {path: in/a, media_type: text/plain}, {path: x}]}", meaning: "success", outputs: []string{"x"}, applied: []string{"x"}, artifacts: []string{"x", "in/a", "x"}},
		{name: "missing artifacts", members: shell("rm in/a; mkdir d; ln -s x l; echo >x") + "\noutputs: {artifacts: [{path: none}, {path: x}, {path: in/a}, {path: d}, {path: l}, {path: sub/keep/up}]}", code: 125, meaning: "tool_error", artifacts: []string{"x"}, outputs: []string{"x"},
			reasons: []string{"OUTPUT_MISSING /outputs/artifacts/0", "OUTPUT_MISSING /outputs/artifacts/2", "OUTPUT_MISSING /outputs/artifacts/3", "OUTPUT_MISSING /outputs/artifacts/4", "OUTPUT_MISSING /outputs/artifacts/5"}},
		{name: "artifacts of a failure", members: shell("echo >x; exit 3") + "\noutputs: {artifacts: [{path: x}, {path: none}]}", code: 3, reasons: []string{"EXIT 3"}, meaning: "tool_error", outputs: []string{"x"}, artifacts: []string{"x"}},
		{name: "an artifact that is hidden", members: shell("true") + "\nsandbox: {filesystem: {deny: [sub]}}\noutputs: {artifacts: [{path: sub/keep}, {path: in/a}]}", code: 125, reasons: []string{"OUTPUT_MISSING /outputs/artifacts/0"}, meaning: "tool_error", artifacts: []string{"in/a"}},
		{name: "artifacts of ten MiB", members: shell("head -c 5242880 /dev/full >x") + "\noutputs: {artifacts: [{path: x}, {path: x}]}", meaning: "success", outputs: []string{"x"}, applied: []string{"x"}, artifacts: []string{"x", "x"}},
		{name: "artifacts of more", members: shell("head -c 5242881 /dev/full >x") + "\noutputs: {artifacts: [{path: x}, {path: x}, {path: in/a}]}", code: 125, reasons: []string{"OUTPUT_LIMIT"}, meaning: "tool_error", outputs: []string{"x"}, artifacts: []string{"x"}},
		{name: "a stream that is cut", members: shell("head -c 1048577 /dev/full; echo >x"), meaning: "success", outputs: []string{"x"}, applied: []string{"x"}},
	}
}

// shell returns the inputs of a request that runs a script.
func shell(text string) string {
	return "inputs: {command: sh, arguments: [\"-c\", '" + strings.ReplaceAll(text, "'", "''") + "']}"
}

// answered executes a request in a work folder and returns its report.
func answered(t *testing.T, x harnesstest.Executor, members, work string) (request.Report, *execute.Performed, error) {
	t.Helper()
	r, err := request.Parse(x.Deps.Specs, "r.yaml", []byte("execution_id: run-1\ntool_id: TL-1\n"+members+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	req, err := x.Gate.Requested(r, "r.yaml", work, nil)
	if err != nil {
		return request.Report{}, nil, err
	}
	req.RunID = "r"
	run, err := harness.Run(t.Context(), x.Deps, x.Gate, req)
	if err != nil {
		return request.Report{}, nil, err
	}
	p := run.Execution
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	rep := p.Report(r)
	if len(rep.Reasons) == 0 {
		err = p.Promote(t.Context(), state, work, nil)
	}
	if list, readErr := os.ReadDir(state); readErr != nil || len(list) > 0 {
		t.Errorf("journals left: %v (%v)", list, readErr)
	}
	return rep, p, err
}

func requestWork(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	treetest.Put(t, filepath.Join(work, "in/a"), "a\n")
	treetest.Put(t, filepath.Join(work, "sub/keep"), "keep\n")
	return work
}

// TestRequestsExecuted: the report is valid, and says what was expected and is missing. In
// another folder and under another isolation it is the same, except for its ephemeral
// part. Accepted changes are applied.
func TestRequestsExecuted(t *testing.T) {
	t.Parallel()
	digests := map[string]canon.ContentHash{}
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range requestCases() {
				t.Run(tc.name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, usualTime)
					work := requestWork(t)
					known := paths(t, work)
					rep, p, err := answered(t, x, tc.members, work)
					if err != nil {
						t.Fatal(err)
					}
					checkRequestCase(t, x.Deps.Specs, tc, rep, p)
					got := slices.DeleteFunc(paths(t, work), func(p string) bool { return slices.Contains(known, p) })
					if !slices.Equal(got, tc.applied) {
						t.Errorf("applied %q, want %q", got, tc.applied)
					}
					digest, err := rep.Digest()
					if err != nil {
						t.Fatal(err)
					}
					if known, ok := digests[tc.name]; ok && known != digest && !namesFolder(rep, p) {
						t.Errorf("the report differs between isolations: %+v", rep)
					}
					digests[tc.name] = digest
				})
			}
		})
	}
}

// namesFolder says whether a shell has printed its own name or its folder on a stream,
// because these are not the same everywhere.
func namesFolder(rep request.Report, p *execute.Performed) bool {
	return rep.Stderr.SizeBytes > 0 && p != nil
}

func checkRequestCase(t *testing.T, set *specs.Set, tc requestCase, rep request.Report, p *execute.Performed) {
	t.Helper()
	b, err := rep.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	specstest.Valid(t, set, specs.KindExecutionReport, b)
	if rep.ExitCode != tc.code || !slices.Equal(rep.Reasons, tc.reasons) || tc.meaning != "" && rep.Interpretation != tc.meaning {
		t.Errorf("%s\nwant exit code %d (%s), reasons %q", b, tc.code, tc.meaning, tc.reasons)
	}
	var outputs []string
	for _, f := range rep.OutputFiles {
		outputs = append(outputs, f.Path)
	}
	if slices.Sort(outputs); !slices.Equal(outputs, tc.outputs) {
		t.Errorf("output files %q, want %q", outputs, tc.outputs)
	}
	var artifacts []string
	for _, a := range rep.Artifacts {
		artifacts = append(artifacts, a.Path)
		if i := slices.IndexFunc(rep.OutputFiles, func(f kernel.FileRef) bool { return f.Path == a.Path }); i >= 0 && (rep.OutputFiles[i].SHA256 != a.SHA256 || int64(rep.OutputFiles[i].SizeBytes) != a.SizeBytes) {
			t.Errorf("%+v and %+v", a, rep.OutputFiles[i])
		}
		if a.Path == "in/a" && a.SHA256 != canon.Sum([]byte("a\n")) {
			t.Errorf("%+v", a)
		}
	}
	if !slices.Equal(artifacts, tc.artifacts) {
		t.Errorf("artifacts %q, want %q", artifacts, tc.artifacts)
	}
	if tc.stdout != nil && (string(p.Stdout.Bytes) != *tc.stdout || rep.Stdout.SHA256 != canon.Sum([]byte(*tc.stdout))) {
		t.Errorf("standard output %q, want %q", p.Stdout.Bytes, *tc.stdout)
	}
	if !slices.ContainsFunc(contract.ExitCodes(), func(r contract.ExitRange) bool { return r.Meaning == rep.Interpretation && r.Action == rep.Action }) {
		t.Errorf("%q is done about %q", rep.Action, rep.Interpretation)
	}
	if tc.name == "everything" && rep.Metadata != (request.Metadata{RequestedBy: "a test"}) {
		t.Errorf("metadata %+v", rep.Metadata)
	}
	if rep.ExecutionID != "run-1" || rep.ToolID != "TL-1" || len(rep.Ephemeral.Clauses) == 0 {
		t.Errorf("%s", b)
	}
}

// TestMeaningOfAnEnd: the meaning of an exit code follows from what is known to have
// happened, and not from a number that the command chose.
func TestMeaningOfAnEnd(t *testing.T) {
	h := harnesstest.NewTier(t, sandbox.Full)
	for _, script := range []string{"kill -9 $$", "kill -15 $$"} {
		x := harnesstest.NewExecutor(t, h, usualTime)
		rep, _, err := answered(t, x, shell(script), requestWork(t))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Interpretation != contract.MeaningSignal || rep.Action != contract.ActionLogSignal {
			t.Errorf("%s: exit code %d with reasons %q means %q: %q", script, rep.ExitCode, rep.Reasons, rep.Interpretation, rep.Action)
		}
	}
}

// TestRequestsRefused: a request with something that it may not have is an error before
// anything runs, and leaves nothing.
func TestRequestsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, members string
		change        func(*kernel.Profile)
		code          result.Code
		pointer       string
	}{
		{name: "time", members: shell("true") + "\nsandbox: {timeout_ms: 120001}", code: result.CodeProfile, pointer: "/sandbox/timeout_ms"},
		{name: "memory", members: shell("true") + "\nsandbox: {timeout_ms: 1000, memory_mb: 1024}", code: result.CodeProfile, pointer: "/sandbox/memory_mb"},
		{name: "processors", members: shell("true") + "\nsandbox: {timeout_ms: 1000, cpu_cores: 4}", code: result.CodeProfile, pointer: "/sandbox/cpu_cores"},
		{name: "children", members: shell("true") + "\nsandbox: {timeout_ms: 1000, processes: {max_children: 50}}", code: result.CodeProfile, pointer: "/sandbox/processes/max_children"},
		{name: "write root", members: shell("true") + "\nsandbox: {timeout_ms: 1000, filesystem: {write: [out, src]}}", change: func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{Names: []string{"out"}} }, code: result.CodeProfile, pointer: "/sandbox/filesystem/write/1"},
		{name: "read path that the profile does not reach", members: shell("true") + "\nsandbox: {timeout_ms: 1000, filesystem: {read: [in, /root]}}", code: result.CodeProfile, pointer: "/sandbox/filesystem/read/1"},
		{name: "missing input", members: "inputs: {command: 'true', input_files: [in/none]}\nsandbox: {timeout_ms: 1000}", code: result.CodeUnreadable},
		{name: "profile that executes nothing", members: shell("true") + "\nsandbox: {timeout_ms: 1000}", change: func(p *kernel.Profile) { p.ExecutionModes = []string{harness.ModePlanOnly} }, code: result.CodeProfile},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := tc.change
			if change == nil {
				change = anyCommand
			}
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), change)
			work := requestWork(t)
			before := fingerprint(t, work)
			rep, p, err := answered(t, x, tc.members, work)
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != tc.code || p != nil || tc.pointer != "" && re.Details["pointer"] != tc.pointer {
				t.Errorf("%v, %+v", err, rep)
			}
			if after := fingerprint(t, work); after != before {
				t.Errorf("the work folder has changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// TestRequestsOverALimit: too many input files, and a request that is too large, are IV-05.
func TestRequestsOverALimit(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), usualTime)
	work := t.TempDir()
	for i := range contract.MaxInputs + 1 {
		treetest.Put(t, filepath.Join(work, "in", strconv.Itoa(i)), "")
	}
	_, _, tooMany := answered(t, x, "inputs: {command: 'true', input_files: [in]}", work)
	_, tooLarge := request.Parse(x.Deps.Specs, "r.yaml", make([]byte, request.MaxBytes+1))
	for _, err := range []error{tooMany, tooLarge} {
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeUnreadable || re.RuleID != contract.IV05 || re.Hint == "" {
			t.Errorf("%v", err)
		}
	}
}

// TestRequestInFolderOfItsInputs: a command works in the folder that its inputs come from.
// Beside the inputs it can write.
func TestRequestInFolderOfItsInputs(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), usualTime)
			work := requestWork(t)
			members := "inputs: {command: sh, input_files: [in/a], arguments: [\"-c\", \"echo >in/b; mv sub moved; cat in/a\"]}"
			rep, _, err := answered(t, x, members, work)
			if err != nil || len(rep.Reasons) > 0 {
				t.Fatalf("%v %q", err, rep.Reasons)
			}
			if got, want := paths(t, work), []string{"in", "in/a", "in/b", "moved", "moved/keep"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestPeerThatStopsReading: a command whose output nobody reads any more ends soon, as in
// a pipeline.
func TestPeerThatStopsReading(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), anyCommand)
	r, w := io.Pipe()
	r.CloseWithError(errors.New("gone"))
	p := performed(t, x, harness.Exec{Argv: []string{"yes"}, Timeout: 20 * time.Second, Streams: harness.Streams{Stdout: w}})
	if end := p.Observed.Command; end.Signal != int(syscall.SIGPIPE) || end.TimedOut {
		t.Errorf("it ended with %+v", end)
	}
}

// TestNoChildren: a command with max_children 0 starts no process, whether the profile,
// the call or a request sets it. With 1 it starts one.
func TestNoChildren(t *testing.T) {
	const starts = "/bin/true; echo started"
	number := func(n int) *int { return &n }
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			of := func(children int) harnesstest.Executor {
				return harnesstest.NewExecutor(t, h, func(p *kernel.Profile) { usualTime(p); p.MaxChildren = children })
			}
			for children, want := range []string{"", "started\n"} {
				for who, p := range map[string]*execute.Performed{
					"profile": performed(t, of(children), harness.Exec{Argv: script(starts)}),
					"call":    performed(t, of(10), harness.Exec{Argv: script(starts), Limits: harness.ExecLimits{MaxChildren: number(children)}}),
					"request": requested(t, of(10), fmt.Sprintf("%s\nsandbox: {processes: {max_children: %d}}", shell(starts), children)),
				} {
					if got := string(p.Stdout.Bytes); got != want {
						t.Errorf("max_children %d of the %s: %q, %q", children, who, got, p.Stderr.Bytes)
					}
				}
			}
		})
	}
}

// requested executes a request in a folder of its own.
func requested(t *testing.T, x harnesstest.Executor, members string) *execute.Performed {
	t.Helper()
	_, p, err := answered(t, x, members, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}
