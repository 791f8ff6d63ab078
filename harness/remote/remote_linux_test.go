//go:build linux && (amd64 || arm64)

package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/remote"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/result"
)

// site is a cluster of one worker, with temporary folders of its own.
type site struct {
	*remote.Place
	dir, temp string
}

// builtShim builds the shim once.
var builtShim = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fiador-test-shim-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "fiador-shim")
	cmd := exec.Command("go", "build", "-o", name, "github.com/fiador/fiador/cmd/fiador-shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return name, nil
})

// newSite returns a site whose helper tells a lie; "" for none.
func newSite(t *testing.T, lie string) *site {
	t.Helper()
	harnesstest.NewTier(t, sandbox.Full) // or the test skips, and says why
	shim, err := builtShim()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{dir: t.TempDir(), temp: t.TempDir()}
	t.Setenv("TMPDIR", s.temp)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := filepath.Join(s.dir, helperName)
	if err := errors.Join(os.Symlink(self, helper), os.WriteFile(filepath.Join(s.dir, "lie"), []byte(lie), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.Place = &remote.Place{
		Config: remote.Config{Execution: "grpc://127.0.0.1:1", Arch: runtime.GOARCH, Shim: map[string]string{runtime.GOARCH: shim}, WaitMS: 60_000, Parallel: 1},
		Helper: helper, Env: func(string) string { return "" }, RunID: "r",
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if list, err := os.ReadDir(s.temp); err != nil || len(list) > 0 {
			t.Errorf("left behind: %v (%v)", list, err)
		}
	})
	return s
}

// folder is a work folder with an entry of each kind.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "echo old >old; chmod 600 old; mkdir -p sub/deep empty; echo two >sub/two; chmod 444 sub/two; ln -s two sub/link; printf '#!/bin/sh\necho ran\n' >tool; chmod 755 tool; mkdir .git; echo secret >.git/config"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return dir
}

// taskOf is a task of shell lines on a folder.
func taskOf(dir string, lines ...string) execute.Task {
	t := execute.Task{
		Sandbox: sandbox.Request{
			Work: dir, Write: sandbox.Staged, Least: sandbox.Full, Protect: execute.Protected(),
			Limits: sandbox.Limits{MemoryMB: 1024, CPUCores: 1, MaxChildren: 8, OutputFiles: 100, OutputBytes: 1 << 20},
		},
		Rules: change.Rules{AnyRoot: true, Links: true, MaxFiles: 100, MaxBytes: 1 << 20}, Budget: 5 * time.Minute,
		Stdout: command.Stream{Keep: 1 << 16}, Stderr: command.Stream{Keep: 1 << 16}, Now: time.Now,
	}
	for _, line := range lines {
		t.Sandbox.Actions = append(t.Sandbox.Actions, sandbox.Action{Argv: []string{"sh", "-c", line}})
	}
	return t
}

// seen is what an execution showed, without what differs from one execution to the next.
func seen(t *testing.T, p *execute.Performed) string {
	t.Helper()
	content := map[string]string{}
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Before != nil {
			c.Before = &change.Seen{Kind: c.Before.Kind, Size: c.Before.Size, Inode: c.Before.Inode}
		}
		if c.Kind == change.KindFile && c.SHA256 != [32]byte{} {
			f, err := p.Content(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			content[c.Path] = string(b)
		}
	}
	for i := range p.Accepted {
		p.Accepted[i].Before = nil
	}
	text, err := json.MarshalIndent(map[string]any{
		"observed": p.Observed, "runs": p.Runs, "unchanged": p.Unchanged, "planned": p.Planned, "done": p.Done, "changes": p.Changes, "accepted": p.Accepted,
		"stdout": string(p.Stdout.Bytes), "stderr": string(p.Stderr.Bytes), "content": content, "isolation": p.Isolation, "old": p.Before("old"), "git": p.Before(".git"),
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSameAsHere: a worker's execution is that of this machine, in everything that is judged.
func TestSameAsHere(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	s := newSite(t, "")
	host := harnesstest.NewTier(t, sandbox.Full)
	input := map[string]string{"input": "some text\n"}
	for name, lines := range map[string][]string{
		"input":            {"cat; stat -Lc %F /dev/stdin"},
		"empty input":      {"cat; stat -Lc %F /dev/stdin"},
		"no input":         {"cat; stat -Lc %F /dev/stdin"},
		"nothing":          {"true"},
		"append":           {"echo more >>old", "cat old"},
		"kinds":            {"mkdir -p a/b; echo x >a/b/c; chmod 755 a/b/c; ln -s c a/b/l; ln sub/two a/hard; mkfifo pipe"},
		"delete":           {"rm old; rm -r sub; rmdir empty"},
		"replace":          {"rm -r sub; echo file >sub; rm old; mkdir old"},
		"same again":       {"cp old copy; cat copy >old; rm copy"},
		"modes":            {"stat -c '%a %n %s' old sub sub/two tool empty; ls -d .git; ./tool; chmod 644 tool"},
		"streams":          {"echo out; echo err >&2", "head -c 100000 /dev/zero | tr '\\0' x", "echo never"},
		"fails":            {"echo 1 >one; exit 3", "echo 2 >two"},
		"signal":           {"kill -SEGV $$"},
		"not found":        {"exec /nowhere"},
		"git is protected": {"echo x >.git/config; echo $?; touch .git/new; echo $?"},
		"github":           {"mkdir .github; echo x >.github/w"},
		"too much":         {"head -c 2000000 /dev/zero >big; echo after >small"},
		"names":            {"touch 'with space' \"$(printf 'a\\nb')\" \"$(printf 'x\\377')\" Case case"},
		"link out":         {"ln -s ../../out out; ln -s /etc/passwd abs"},
		"what is there":    {"find . -path ./.git -prune -o -print | sort; id -u; hostname; env | sort; umask; pwd"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			before := snapshot(t, dir)
			var said []string
			for _, place := range []execute.Place{execute.Here{Runner: host}, s} {
				task := taskOf(dir, lines...)
				task.Stdin = []io.Reader{strings.NewReader(input[name])}
				if name == "no input" {
					task.Stdin = nil
				}
				task.Sandbox.Actions = append(task.Sandbox.Actions, sandbox.Action{Path: "written/file", Content: []byte("text"), Executable: true})
				p, err := execute.Perform(t.Context(), place, task)
				if err != nil {
					t.Fatalf("%T: %v", place, err)
				}
				said = append(said, seen(t, p))
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if said[0] != said[1] {
				here, there := strings.Split(said[0], "\n"), strings.Split(said[1], "\n")
				for i := range min(len(here), len(there)) {
					if here[i] != there[i] {
						from := max(0, i-12)
						t.Errorf("here:\n%s\non the worker:\n%s", strings.Join(here[from:min(len(here), i+5)], "\n"), strings.Join(there[from:min(len(there), i+5)], "\n"))
						break
					}
				}
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("the folder was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// snapshot describes a folder, its modes and times.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "find . -printf '%p %m %s %T@ %C@ %l\n' | sort; find . -type f -exec sha256sum {} +")
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(text)
}

// TestLies: no answer that the shim would not give is used. The work folder stays as it is, and
// nothing of the answer is left.
func TestLies(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, lie := range slices.Concat(names(textLies()), names(resultLies()), names(dataLies())) {
		t.Run(lie, func(t *testing.T) {
			s := newSite(t, lie)
			dir := folder(t)
			before := snapshot(t, dir)
			p, err := execute.Perform(t.Context(), s, taskOf(dir, "echo new text >new; echo said", "echo >>old"))
			if err == nil {
				t.Fatalf("it was used: %s", seen(t, p))
			}
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeEvidence || strings.ContainsAny(re.Message, "\x1b\n") {
				t.Errorf("%v", err)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("the folder was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// TestHelperFails: a helper that ends, lies or is silent is an error in bounded time, and so is a
// worker with other inputs.
func TestHelperFails(t *testing.T) {
	for lie, want := range map[string]struct {
		code result.Code
		text string
	}{
		"ends":             {result.CodeSandbox, "fiador-remote has ended: exit status 3"},
		"garbage":          {result.CodeSandbox, "fiador-remote has ended: unexpected end of JSON input"},
		"long line":        {result.CodeSandbox, "fiador-remote has ended: bufio.Scanner: token too long"},
		"another version":  {result.CodeSandbox, "another version of the protocol"},
		"may have run":     {result.CodeSandbox, "the commands may have run"},
		"busy":             {result.CodeSandbox, "no worker"},
		"chatty":           {result.CodeSandbox, "after much talk"},
		"poisoned storage": {result.CodeSandbox, "the worker has other files than were sent: "},
	} {
		t.Run(lie, func(t *testing.T) {
			s := newSite(t, lie)
			_, err := execute.Perform(t.Context(), s, taskOf(folder(t), "true"))
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != want.code || !strings.Contains(re.Message, want.text) || strings.Contains(re.Message, "\x1b") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestHints: what failed says what to do. Commands with a network that may have run did more than
// this machine can see.
func TestHints(t *testing.T) {
	const look = "look there before you run it again"
	for _, c := range []struct {
		lie        string
		network    bool
		code       result.Code
		text, hint string
	}{
		{"may have run", false, result.CodeSandbox, "the stream broke", "run it again"},
		{"may have run", true, result.CodeSandbox, "the commands may have run", look},
		{"busy", true, result.CodeSandbox, "no worker", "give it more wait_ms"},
		{"changed", true, result.CodeSandbox, "not so", "keep the folder still"},
		{"broken", true, result.CodeSandbox, "not so", "ask those who run the cluster"},
		{"broken, may have run", false, result.CodeEvidence, "not so", "ask those who run the cluster"},
		{"broken, may have run", true, result.CodeEvidence, look, "ask those who run the cluster"},
	} {
		t.Run(fmt.Sprint(c.lie, " ", c.network), func(t *testing.T) {
			task := taskOf(folder(t), "true")
			task.Sandbox.Network = c.network
			_, err := execute.Perform(t.Context(), newSite(t, c.lie), task)
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != c.code || !strings.Contains(re.Message, c.text) || !strings.Contains(re.Remedy(), c.hint) ||
				!c.network && strings.Contains(re.Message+re.Remedy(), look) {
				t.Errorf("%v, %s", err, re.Remedy())
			}
		})
	}
}

// TestRefusedUnopened: a refusal of the shim is an error of the sandbox, and data.tar beside it is
// not opened.
func TestRefusedUnopened(t *testing.T) {
	s := newSite(t, "refused")
	_, err := execute.Perform(t.Context(), s, taskOf(folder(t), "true"))
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeSandbox || re.Details["step"] != "start" || re.Details["errno"] != 28 || re.Remedy() != "more namespaces" {
		t.Errorf("%+v", err)
	}
}

// TestStreamsOfExec: a worker sends back the bytes of a stream that are kept. An exec whose stream
// has more is rejected; a request, which passes nothing on, is not.
func TestStreamsOfExec(t *testing.T) {
	s := newSite(t, "")
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	x.Deps.Place = s
	for line, rejected := range map[string]bool{"head -c 300000 /dev/zero": false, "head -c 2000000 /dev/zero": true, "head -c 300000 /dev/zero >&2": true} {
		for _, passed := range []bool{true, false} {
			var stdout, stderr bytes.Buffer
			e := harness.Exec{Argv: []string{"sh", "-c", line}, Write: sandbox.Staged}
			if passed {
				e.Streams = harness.Streams{Stdout: &stdout, Stderr: &stderr}
			}
			source, err := e.Intent()
			if err != nil {
				t.Fatal(err)
			}
			rep, err := harness.Run(t.Context(), x.Deps, x.Gate, harness.Request{Source: source, Path: "exec", Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, RunID: "r", Exec: &e})
			if err != nil {
				t.Fatal(err)
			}
			code, reasons := rep.Execution.Observed.Judge()
			if want := rejected && passed; (code != 0) != want || want && !slices.Equal(reasons, []string{"STREAM_LIMIT /actions/0"}) {
				t.Errorf("%s, passed on %t: exit code %d, %q", line, passed, code, reasons)
			}
			if n := stdout.Len() + stderr.Len(); passed && !rejected && n != 300_000 || n > 1<<20 {
				t.Errorf("%s: %d bytes came through", line, n)
			}
			if err := rep.Execution.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestEndlessStream: a command whose reader stops at the bytes that are kept ends there, and not at
// the end of its time, as it does here.
func TestEndlessStream(t *testing.T) {
	s := newSite(t, "")
	for _, place := range []execute.Place{execute.Here{Runner: harnesstest.NewTier(t, sandbox.Full)}, s} {
		task := taskOf(folder(t), "yes")
		task.Stdout.Tee, task.Cut = &reader{left: task.Stdout.Keep}, true
		p, err := execute.Perform(t.Context(), place, task)
		if err != nil {
			t.Fatal(err)
		}
		if end := p.Observed.Command; end.Signal != int(syscall.SIGPIPE) || end.TimedOut || !end.Stdout.Truncated || int64(len(p.Stdout.Bytes)) != task.Stdout.Keep {
			t.Errorf("%T: %d bytes, %+v", place, len(p.Stdout.Bytes), end)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// reader is a Tee that reads so many bytes.
type reader struct{ left int64 }

func (r *reader) Write(b []byte) (int, error) {
	if r.left -= int64(len(b)); r.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// TestInterrupted: the end of the run's context ends an execution, even if the helper is deaf.
func TestInterrupted(t *testing.T) {
	for _, lie := range []string{"never answers", "ignores a cancel", "silent at hello", "deaf"} {
		t.Run(lie, func(t *testing.T) {
			s := newSite(t, lie)
			if lie == "deaf" { // then the order does not fit into the pipe
				s.Config.Platform = map[string]string{"long": strings.Repeat("x", 1<<18)}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := execute.Perform(ctx, s, taskOf(folder(t), "true"))
			var re *result.RunError
			if !errors.As(err, &re) || !strings.Contains(re.Message, "interrupted") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestUnread: a command whose reader is gone has ended of a broken pipe, as here.
func TestUnread(t *testing.T) {
	s := newSite(t, "")
	task := taskOf(folder(t), "echo said")
	task.Stdout.Tee = closed{}
	p, err := execute.Perform(t.Context(), s, task)
	if err != nil {
		t.Fatal(err)
	}
	if end := p.Observed.Command; end == nil || end.Signal != int(syscall.SIGPIPE) {
		t.Errorf("%+v", end)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestNotSent: what a worker cannot do, or must not see, is refused before the helper is started.
func TestNotSent(t *testing.T) {
	s := newSite(t, "")
	s.Helper = "/nowhere/fiador-remote"
	for name, c := range map[string]struct {
		change func(dir string, task *execute.Task)
		want   string
	}{
		"direct":         {func(_ string, x *execute.Task) { x.Sandbox.Write = sandbox.Direct }, "write into the work folder itself"},
		"read":           {func(_ string, x *execute.Task) { x.Sandbox.Read = []string{"/etc"} }, "folders of this machine"},
		"secret":         {func(_ string, x *execute.Task) { x.Env = []string{"TOKEN=x"} }, "secrets stay on this machine"},
		"call":           {func(_ string, x *execute.Task) { x.Sandbox.Actions[0] = sandbox.Action{Path: "r", Given: true} }, "calls tools or models"},
		"pinned":         {func(_ string, x *execute.Task) { x.Program = "sha256:0" }, "pinned"},
		"fifo":           {func(dir string, _ *execute.Task) { sh(t, dir, "mkfifo p") }, `"p": it is neither a file nor a folder nor a link`},
		"link out":       {func(dir string, _ *execute.Task) { sh(t, dir, "ln -s ../x l") }, `"l": it leads out of the folder`},
		"link to root":   {func(dir string, _ *execute.Task) { sh(t, dir, "ln -s /etc l") }, `"l": it leads out of the folder`},
		"name":           {func(dir string, _ *execute.Task) { sh(t, dir, `touch "$(printf 'x\377')"`) }, "is not UTF-8"},
		"standard input": {func(_ string, x *execute.Task) { x.Stdin = []io.Reader{&endless{}} }, "standard input has more than"},
		"hidden": {func(dir string, x *execute.Task) {
			sh(t, dir, "truncate -s 9G big")
			x.Sandbox.Hide = []string{"big"}
		}, "more than 8 GiB"},
		"no shim": {func(_ string, _ *execute.Task) { s.Config.Shim = nil }, "the shim for"},
	} {
		t.Run(name, func(t *testing.T) {
			shim := s.Config.Shim
			defer func() { s.Config.Shim = shim }()
			dir := folder(t)
			task := taskOf(dir, "true")
			c.change(dir, &task)
			_, err := execute.Perform(t.Context(), s, task)
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeSandbox || !strings.Contains(re.Message, c.want) || re.Remedy() == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func sh(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestHeaders: the value of a header reaches the helper, and no message. A header without a value
// is an error.
func TestHeaders(t *testing.T) {
	s := newSite(t, "")
	s.Config.Headers = map[string]string{"token": "SECRET"}
	_, err := execute.Perform(t.Context(), s, taskOf(folder(t), "true"))
	if err == nil || !strings.Contains(err.Error(), "variable SECRET") {
		t.Errorf("%v", err)
	}
	s.Env = func(string) string { return "hush" }
	p, err := execute.Perform(t.Context(), s, taskOf(folder(t), "env"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "token")); err != nil || string(got) != "hush" || strings.Contains(string(p.Stdout.Bytes), "hush") {
		t.Errorf("%q, %v, %s", got, err, p.Stdout.Bytes)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestClauses: the clauses of an execution are those of the shim's sandbox.
func TestClauses(t *testing.T) {
	s := newSite(t, "")
	p, err := execute.Perform(t.Context(), s, taskOf(folder(t), "true"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, c := range p.Clauses {
		if c.Clause != evidence.Clauses()[i] || !c.Holds() {
			t.Errorf("%+v", c)
		}
	}
	if len(p.Clauses) != len(evidence.Clauses()) || p.Isolation != sandbox.Full || p.Staging() == "" {
		t.Errorf("%s %s %v", p.Isolation, p.Staging(), p.Clauses)
	}
}
