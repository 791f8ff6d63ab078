package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// asHelper makes the test binary the program itself.
const asHelper = "FIADOR_REMOTE_TEST_HELPER"

// patience is how long a test waits for what has to come. A passing test never waits for it.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asHelper) != "" {
		main()
	}
	os.Exit(runTests(m))
}

// answer is any line of the program.
type answer struct {
	Type       string    `json:"type"`
	ID         string    `json:"id"`
	Version    int       `json:"version"`
	Server     server    `json:"server"`
	ExitCode   int       `json:"exit_code"`
	Files      []file    `json:"files"`
	Ephemeral  ephemeral `json:"ephemeral"`
	Stderr     string    `json:"stderr"`
	Kind       kind      `json:"kind"`
	Message    string    `json:"message"`
	MayHaveRun bool      `json:"may_have_run"`
}

// helper is a running fiador-remote.
type helper struct {
	t       *testing.T
	in      io.WriteCloser
	out     io.Reader
	process *os.Process
	answers chan answer
	status  chan int

	mu   sync.Mutex
	said bytes.Buffer // every line of stdout
}

// startInside runs the program in this process.
func startInside(t *testing.T) *helper {
	fromTest, in := io.Pipe()
	out, toTest := io.Pipe()
	h := &helper{t: t, in: in, status: make(chan int, 1)}
	go func() {
		status := run(context.Background(), fromTest, toTest)
		fromTest.Close() // as the end of a process does
		toTest.Close()
		h.status <- status
	}()
	h.listen(out)
	return h
}

// startProcess runs the program as a process of its own.
func startProcess(t *testing.T) *helper {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHelper+"=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, toTest, err := os.Pipe()
	must(t, err)
	stderr := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = toTest, stderr
	must(t, cmd.Start())
	toTest.Close()
	h := &helper{t: t, in: in, process: cmd.Process, status: make(chan int, 1)}
	h.listen(out)
	go func() {
		cmd.Wait()
		h.status <- cmd.ProcessState.ExitCode()
		if stderr.Len() > 0 {
			t.Errorf("stderr: %s", stderr)
		}
	}()
	return h
}

func (h *helper) listen(out io.Reader) {
	h.out = out
	lines := bufio.NewReader(out)
	forward := make(chan answer, 100)
	go func() {
		defer close(forward)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			h.mu.Lock()
			h.said.Write(line)
			h.mu.Unlock()
			var a answer
			if err := strictAnswer(line, &a); err != nil {
				h.t.Errorf("line %s: %v", line, err)
			}
			forward <- a
		}
	}()
	h.answers = forward
	h.t.Cleanup(func() { h.in.Close() })
}

func strictAnswer(line []byte, a *answer) error {
	if len(line) > maxLine {
		return fmt.Errorf("%d bytes", len(line))
	}
	return strict(line, a)
}

func (h *helper) send(v any) {
	h.t.Helper()
	line, err := json.Marshal(v)
	must(h.t, err)
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		h.t.Fatalf("the program no longer reads: %v", err)
	}
}

// next returns the next line, which has to come.
func (h *helper) next() answer {
	h.t.Helper()
	select {
	case a, ok := <-h.answers:
		if !ok {
			h.t.Fatal("the program ended without an answer")
		}
		return a
	case <-time.After(patience):
		h.t.Fatal("no answer")
	}
	panic("not reached")
}

// want returns the next line, which has to be of a type.
func (h *helper) want(kind string) answer {
	h.t.Helper()
	a := h.next()
	if a.Type != kind {
		h.t.Fatalf("got %+v, want %s", a, kind)
	}
	return a
}

// greet sends hello for a server and expects its greeting.
func (h *helper) greet(m map[string]any) answer {
	h.t.Helper()
	h.send(m)
	return h.want("hello")
}

func helloTo(address string, with ...map[string]any) map[string]any {
	m := map[string]any{"type": "hello", "version": 1, "execution": address, "parallel": 4, "wait_ms": 20_000, "run_id": "run_test", "tool_version": "1.2.3"}
	for _, w := range with {
		for k, v := range w {
			m[k] = v
		}
	}
	return m
}

// task is an execute request under construction.
type task struct {
	t       *testing.T
	dir     string
	inputs  []input
	request map[string]any
}

// newTask makes a task that runs a shell script and has one output, out/b.
func newTask(t *testing.T, script string) *task {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	must(t, os.Mkdir(out, 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "source"), 0o700))
	return &task{t: t, dir: dir, request: map[string]any{
		"type": "execute", "id": "1", "argv": []string{"/bin/sh", "-c", script}, "root": filepath.Join(dir, "root.jsonl"),
		"outputs": []string{"out/b"}, "max_bytes": []int64{1 << 20}, "platform": map[string]string{},
		"timeout_ms": 30_000, "out": out, "once": false,
	}}
}

// file adds an input.
func (k *task) file(name string, data []byte, executable bool) *task {
	source := filepath.Join(k.dir, "source", fmt.Sprint(len(k.inputs)))
	must(k.t, os.WriteFile(source, data, 0o600))
	d := digestOf(data)
	k.inputs = append(k.inputs, input{Path: name, SHA256: d.hash, Size: d.size, Executable: executable, Source: source})
	return k
}

func (k *task) set(name string, value any) *task {
	k.request[name] = value
	return k
}

// ready writes the root list and returns the request.
func (k *task) ready() map[string]any {
	var list bytes.Buffer
	for _, in := range k.inputs {
		line, err := json.Marshal(in)
		must(k.t, err)
		list.Write(append(line, '\n'))
	}
	must(k.t, os.WriteFile(k.request["root"].(string), list.Bytes(), 0o600))
	return k.request
}

// made returns the bytes of the first output and checks that nothing else was made.
func (k *task) made(a answer) []byte {
	k.t.Helper()
	if entries := k.left(); len(entries) != len(a.Files) || len(a.Files) == 0 {
		k.t.Fatalf("%v in the folder, %v in the answer", entries, a.Files)
	}
	data, err := os.ReadFile(filepath.Join(k.request["out"].(string), filepath.Base(a.Files[0].Path)))
	must(k.t, err)
	if d := digestOf(data); d != (digest{a.Files[0].SHA256, a.Files[0].Size}) {
		k.t.Errorf("the answer has another digest than the file")
	}
	return data
}

func (k *task) nothingMade() {
	k.t.Helper()
	if entries := k.left(); len(entries) > 0 {
		k.t.Errorf("%v is left", entries)
	}
}

// left returns what stands in the folder of outputs. Beside it, nothing may be new.
func (k *task) left() []os.DirEntry {
	k.t.Helper()
	beside, err := os.ReadDir(k.dir)
	must(k.t, err)
	if fmt.Sprint(beside) != "[d out/ - root.jsonl d source/]" {
		k.t.Errorf("beside the folder of outputs stand %v", beside)
	}
	entries, err := os.ReadDir(k.request["out"].(string))
	must(k.t, err)
	return entries
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
