// Command fiador-remote is a client of REAPI v2, the remote execution protocol of build
// clusters. It uploads an input root, has one action executed, and brings the output files
// back. It knows nothing of intents, policies or sandboxes: fiador checks what it brings.
//
// It reads JSON lines from stdin and writes JSON lines to stdout, one object a line of at
// most 1 MiB. The types hello, execute and cancel below are what it reads; greeting, event
// and failed are what it writes. hello comes first. Several actions may run at once. When
// stdin ends, it cancels what runs and ends with status 0 within 2 s. After a line that it
// does not understand, it writes "failed" of kind "config" and ends with status 2.
//
// An answer of the server is never believed: every blob is hashed, every size is bounded
// before a byte is fetched, and nothing is written outside the folder that execute names.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// Bounds of the protocol.
const (
	maxLine  = 1 << 20
	maxText  = 4096
	farewell = 2 * time.Second // from the end of stdin to the end of the process
)

// hello names the server and how to reach it.
type hello struct {
	Type        string            `json:"type"`
	Version     int               `json:"version"`
	Execution   string            `json:"execution"`
	CAS         string            `json:"cas"` // where the blobs are, if not at Execution
	Instance    string            `json:"instance"`
	TLS         *tlsFiles         `json:"tls"`
	Headers     map[string]string `json:"headers"` // sent on every call, never printed
	Parallel    int               `json:"parallel"`
	WaitMS      int64             `json:"wait_ms"` // how long the server may take for what is not the action itself
	RunID       string            `json:"run_id"`
	ToolVersion string            `json:"tool_version"` // of fiador, as servers log it
}

// execute is one action.
type execute struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Argv      []string          `json:"argv"`
	Root      string            `json:"root"` // a file with a line for each input file: see input
	Outputs   []string          `json:"outputs"`
	MaxBytes  []int64           `json:"max_bytes"` // of the output at the same position
	Platform  map[string]string `json:"platform"`
	TimeoutMS int64             `json:"timeout_ms"`
	Out       string            `json:"out"`
	Once      bool              `json:"once"` // the action is not sent again once it may have been taken
}

// cancel ends an action.
type cancel struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// greeting answers hello.
type greeting struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Server  server `json:"server"`
}

// event is "accepted", where the rest is absent, or "done".
type event struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	*result
}

// failed ends an action, or the process if ID is empty.
type failed struct {
	Type       string `json:"type"`
	ID         string `json:"id"`
	Kind       kind   `json:"kind"`
	Message    string `json:"message"`
	MayHaveRun bool   `json:"may_have_run"`
}

// kind says whose fault a failure is.
type kind string

const (
	kindConfig    kind = "config"    // the request or the configuration must change
	kindBusy      kind = "busy"      // the server takes no more work
	kindLost      kind = "lost"      // no answer came
	kindBroken    kind = "broken"    // the answer is not what it has to be
	kindChanged   kind = "changed"   // an input is not what it was
	kindCancelled kind = "cancelled" // the caller asked for it
)

// failure is the error of everything that an action needs.
type failure struct {
	kind    kind
	message string
	again   bool // the fault is the infrastructure's, so that another attempt may succeed
}

func (f *failure) Error() string { return f.message }

func failf(k kind, format string, args ...any) *failure {
	return &failure{kind: k, message: fmt.Sprintf(format, args...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdin, os.Stdout))
}

// session is one conversation on stdin and stdout.
type session struct {
	client *client

	writing sync.Mutex
	out     io.Writer

	running sync.WaitGroup
	mu      sync.Mutex
	cancels map[string]context.CancelCauseFunc
}

// run serves requests until in ends, a line is wrong or ctx ends, and returns the status.
func run(ctx context.Context, in io.Reader, out io.Writer) int {
	asked := ctx
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(asked, func() { stop(failf(kindCancelled, "cancelled: a signal came")) })
	s := &session{out: out, cancels: map[string]context.CancelCauseFunc{}}
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() {
		defer stop(failf(kindCancelled, "cancelled: stdin ended"))
		ended <- readLines(ctx, in, lines)
		close(ended)
	}()
	err := s.serve(ctx, lines)
	stop(failf(kindCancelled, "cancelled: the program ends"))
	s.finish()
	if err == nil {
		select {
		case err = <-ended:
		default:
		}
	}
	if err != nil {
		s.fail("", err, false)
		return 2
	}
	return 0
}

// readLines sends the lines of in, without their ends, until in or ctx ends.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scan.Scan() {
		select {
		case lines <- bytes.Clone(scan.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	if errors.Is(scan.Err(), bufio.ErrTooLong) {
		return failf(kindConfig, "a line has more than %d bytes", maxLine)
	}
	return nil
}

// serve handles lines until ctx ends or one is wrong.
func (s *session) serve(ctx context.Context, lines <-chan []byte) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-lines:
			if err := s.handle(ctx, line); err != nil {
				return err
			}
		}
	}
}

// finish waits for the actions that were cancelled, but not for ever.
func (s *session) finish() {
	ended := make(chan struct{})
	go func() { s.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(farewell):
	}
}

func (s *session) handle(ctx context.Context, line []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return failf(kindConfig, "a line is not a JSON object with a type: %v", err)
	}
	if (head.Type == "hello") != (s.client == nil) {
		return failf(kindConfig, "%q is out of place: hello comes first, and once", head.Type)
	}
	switch head.Type {
	case "hello":
		return decodeAnd(line, func(h *hello) error { return s.greet(ctx, h) })
	case "execute":
		return decodeAnd(line, func(e *execute) error { return s.start(ctx, e) })
	case "cancel":
		return decodeAnd(line, func(c *cancel) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if stop := s.cancels[c.ID]; stop != nil { // else it has ended meanwhile
				stop(failf(kindCancelled, "cancelled"))
			}
			return nil
		})
	}
	return failf(kindConfig, "the type %q is unknown", head.Type)
}

// decodeAnd reads a line strictly and hands the request on.
func decodeAnd[T any](line []byte, then func(*T) error) error {
	var v T
	if err := strict(line, &v); err != nil {
		return failf(kindConfig, "a line cannot be read: %v", err)
	}
	return then(&v)
}

// strict decodes one JSON value that has no unknown member and is valid UTF-8.
func strict(line []byte, v any) error {
	if !utf8.Valid(line) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more than one value")
	}
	return nil
}

func (s *session) greet(ctx context.Context, h *hello) error {
	c, err := dial(h)
	if err != nil {
		return err
	}
	server, err := c.greet(ctx)
	if err != nil {
		s.client = c // the failure is written without the values of its headers
		return err
	}
	s.client = c
	s.write(greeting{Type: "hello", Version: 1, Server: *server})
	return nil
}

// start begins an action. A wrong request fails alone; the others go on.
func (s *session) start(ctx context.Context, e *execute) error {
	if e.ID == "" {
		return failf(kindConfig, "execute has no id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancels[e.ID] != nil {
		return failf(kindConfig, "the id %q runs already", e.ID)
	}
	ctx, stop := context.WithCancelCause(ctx)
	s.cancels[e.ID] = stop
	s.running.Go(func() {
		defer stop(nil)
		a := &action{client: s.client, request: e, accepted: sync.OnceFunc(func() { s.write(event{Type: "accepted", ID: e.ID}) })}
		done, err := a.perform(ctx)
		s.mu.Lock()
		delete(s.cancels, e.ID)
		s.mu.Unlock()
		if err != nil {
			s.fail(e.ID, err, a.mayHaveRun)
			return
		}
		done.Stderr = s.clean(done.Stderr)
		done.Ephemeral.Worker = s.clean(done.Ephemeral.Worker)
		s.write(event{Type: "done", ID: e.ID, result: done})
	})
	return nil
}

func (s *session) fail(id string, err error, mayHaveRun bool) {
	f := &failure{kind: kindLost, message: err.Error()}
	errors.As(err, &f)
	s.write(failed{Type: "failed", ID: id, Kind: f.kind, Message: s.clean(f.message), MayHaveRun: mayHaveRun})
}

// clean bounds a text that may come from a server and takes the values of headers out of it.
func (s *session) clean(text string) string {
	if s.client != nil {
		text = s.client.redact.Replace(text)
	}
	return text[:min(len(text), maxText)]
}

func (s *session) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types above have no value that JSON cannot express
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.out.Write(append(line, '\n')) // nobody is left to be told of an error
}
