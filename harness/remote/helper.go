package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// The protocol with the helper: a JSON object a line, in both directions.
const (
	protocol = 1
	maxLine  = 1 << 20
	endTime  = 2 * time.Second  // for a helper that was told to end, or to cancel
	ownTime  = 10 * time.Second // for what the helper does without a limit of its own
)

// hello begins a conversation.
type hello struct {
	Type        string            `json:"type"`
	Version     int               `json:"version"`
	Execution   string            `json:"execution"`
	CAS         string            `json:"cas,omitempty"`
	Instance    string            `json:"instance,omitempty"`
	TLS         TLS               `json:"tls"`
	Headers     map[string]string `json:"headers,omitempty"`
	Parallel    int               `json:"parallel"`
	WaitMS      int               `json:"wait_ms"`
	RunID       string            `json:"run_id,omitempty"`
	ToolVersion string            `json:"tool_version"`
}

// order asks for an action, or cancels one.
type order struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Argv      []string          `json:"argv,omitempty"`
	Root      string            `json:"root,omitempty"`
	Outputs   []string          `json:"outputs,omitempty"`
	MaxBytes  []int64           `json:"max_bytes,omitempty"`
	Platform  map[string]string `json:"platform,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
	Out       string            `json:"out,omitempty"`
	Once      bool              `json:"once,omitempty"`
	Transfer  time.Duration     `json:"-"` // that uploads and downloads may take
}

// Server is what a server says that it can do.
type Server struct {
	LowAPI          string   `json:"low_api"`
	HighAPI         string   `json:"high_api"`
	DigestFunctions []string `json:"digest_functions"`
	Execution       bool     `json:"execution"`
	MaxBatchBytes   int64    `json:"max_batch_bytes"`
}

// reply is a line of the helper.
type reply struct {
	Type       string  `json:"type"`
	ID         string  `json:"id"`
	Version    int     `json:"version"`
	Server     *Server `json:"server"`
	ExitCode   int     `json:"exit_code"`
	Kind       string  `json:"kind"`
	Message    string  `json:"message"`
	MayHaveRun bool    `json:"may_have_run"`
	Stderr     string  `json:"stderr"`
}

// The types of a reply.
const (
	helloed  = "hello"
	accepted = "accepted"
	done     = "done"
	failed   = "failed"
)

// helper is the running helper program. The zero value has not started it.
type helper struct {
	mu  sync.Mutex
	run *conversation
	ids int
}

// conversation is one process of the helper.
type conversation struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	write  sync.Mutex
	server Server
	slots  chan struct{} // one for each action that may run at once
	over   chan struct{} // closed when the process has ended; why is set then

	mu      sync.Mutex
	waiting map[string]*awaited
	why     error
}

// execute has an action executed. It returns when its outputs are in order.Out.
func (h *helper) execute(ctx context.Context, p *Place, o order) error {
	c, err := h.start(ctx, p)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.ids++
	o.Type, o.ID = "execute", strconv.Itoa(h.ids)
	h.mu.Unlock()
	select { // the time of an action begins when it may run
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return runerr.Stopped()
	}
	a := c.wait(o.ID)
	defer c.forget(o.ID)
	// The helper takes at most wait_ms to ask what is missing, to upload, to execute and to download.
	limit := time.Duration(o.TimeoutMS+4*int64(p.Config.WaitMS))*time.Millisecond + o.Transfer + ownTime
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.send(limited, o)
	r, err := c.answer(limited, a)
	if err != nil {
		c.cancel(o.ID, a.last)
		r = reply{Kind: "lost", Message: "no answer came within " + limit.String(), MayHaveRun: a.accepted.Load()}
	}
	switch {
	case r.Type == done:
		return shimEnded(r)
	case ctx.Err() != nil:
		return runerr.Stopped()
	}
	return failure(r, o.Once)
}

// answer returns the last reply to an action. A helper that has ended may have written one before.
func (c *conversation) answer(ctx context.Context, a *awaited) (reply, error) {
	select {
	case r := <-a.last:
		return r, nil
	case <-ctx.Done():
		return reply{}, ctx.Err()
	case <-c.over:
	}
	select {
	case r := <-a.last:
		return r, nil
	default:
		return c.lost(a.accepted.Load()), ctx.Err()
	}
}

// shimEnded returns an error for a shim that wrote no result.
func shimEnded(r reply) error {
	if r.ExitCode == 0 {
		return nil
	}
	e := runerr.New(result.CodeSandbox, "the shim ended on the worker with exit code "+strconv.Itoa(r.ExitCode), "use another worker: it cannot run the shim")
	if said := told(strings.TrimSpace(r.Stderr)); said != "" {
		e.Message += ": " + said
	}
	return e
}

// failure is the RunError for a failed action. network says that its commands have one: then
// those who run it again have to know what it did.
func failure(r reply, network bool) error {
	msg, hint := told(r.Message), "run it again"
	switch r.Kind {
	case "config":
		hint = "correct the document of --remote; fiador doctor --remote FILE tries it"
	case "busy":
		hint = "run it again later, or give it more wait_ms"
	case "changed":
		hint = "keep the folder still, and run it again"
	case "broken":
		hint = "the server answers wrongly: ask those who run the cluster"
	}
	if r.MayHaveRun {
		msg += "; the commands may have run"
	}
	switch {
	case r.MayHaveRun && r.Kind == "broken" && network:
		return broken("%s: %s", msg, mayHaveReached)
	case r.MayHaveRun && r.Kind == "broken":
		return broken("%s", msg)
	case r.MayHaveRun && network:
		hint = mayHaveReached
	}
	return runerr.New(result.CodeSandbox, "no execution on a worker: "+msg, hint)
}

// start returns the running helper, and starts it if there is none.
func (h *helper) start(ctx context.Context, p *Place) (*conversation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != nil {
		select {
		case <-h.run.over:
		default:
			return h.run, nil
		}
	}
	greeting, err := p.hello()
	if err != nil {
		return nil, err
	}
	c, err := begin(p.Helper)
	if err != nil {
		return nil, runerr.New(result.CodeSandbox, "fiador-remote cannot be started: "+runerr.Reason(err), "install it beside fiador, or name it with --remote-helper", runerr.Because(err))
	}
	a := c.wait("")
	defer c.forget("")
	limited, cancel := context.WithTimeout(ctx, time.Duration(p.Config.WaitMS)*time.Millisecond+ownTime)
	defer cancel()
	c.send(limited, greeting)
	r, err := c.answer(limited, a)
	switch {
	case ctx.Err() != nil:
		err = runerr.Stopped()
	case err != nil:
		err = runerr.New(result.CodeSandbox, "the server did not answer in time", "fiador doctor --remote FILE tries it")
	case r.Type == failed:
		err = failure(r, false)
	case r.Type != helloed || r.Version != protocol || r.Server == nil:
		err = runerr.New(result.CodeSandbox, "fiador-remote speaks another version of the protocol", "use the one of this release")
	default:
		c.server, c.slots = *r.Server, make(chan struct{}, p.Config.Parallel)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	h.run = c
	return c, nil
}

// hello returns the first message. It has the values of the headers, which are secrets.
func (p *Place) hello() (hello, error) {
	g := hello{
		Type: helloed, Version: protocol, Execution: p.Config.Execution, CAS: p.Config.CAS, Instance: p.Config.Instance, TLS: p.Config.TLS,
		Parallel: p.Config.Parallel, WaitMS: p.Config.WaitMS, RunID: p.RunID, ToolVersion: kernel.Version, Headers: map[string]string{},
	}
	for name, variable := range p.Config.Headers {
		value := p.Env(variable)
		if value == "" {
			return g, runerr.New(result.CodeSandbox, "variable "+variable+" of header "+canon.Quote(name)+" is not set", "set it, or leave the header out of the document of --remote")
		}
		g.Headers[name] = value
	}
	return g, nil
}

// begin starts the helper. It gets no more of the environment than where certificates are.
func begin(program string) (*conversation, error) {
	cmd := exec.Command(program)
	cmd.Env = []string{}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &conversation{cmd: cmd, stdin: stdin, over: make(chan struct{}), waiting: map[string]*awaited{}}
	go c.listen(stdout)
	return c, nil
}

// listen hands the replies on until the helper ends, or writes a line that is no reply.
func (c *conversation) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, maxLine)
	var why error
	for lines.Scan() {
		var r reply
		if why = json.Unmarshal(lines.Bytes(), &r); why != nil {
			break
		}
		c.mu.Lock()
		to := c.waiting[r.ID]
		c.mu.Unlock()
		switch {
		case to == nil:
		case r.Type == accepted:
			to.accepted.Store(true)
		default:
			select {
			case to.last <- r:
			default: // an action has one end
			}
		}
	}
	c.kill()
	_, _ = io.Copy(io.Discard, stdout)
	ended := c.cmd.Wait()
	c.mu.Lock()
	if c.why = errors.Join(why, lines.Err()); c.why == nil {
		c.why = ended
	}
	c.mu.Unlock()
	close(c.over)
}

// awaited is an action whose end is awaited.
type awaited struct {
	accepted atomic.Bool // the server has it, and it may run
	last     chan reply
}

func (c *conversation) wait(id string) *awaited {
	to := &awaited{last: make(chan reply, 1)}
	c.mu.Lock()
	c.waiting[id] = to
	c.mu.Unlock()
	return to
}

func (c *conversation) forget(id string) {
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()
}

// send writes a line. A helper that has not read it when ctx ends is killed. One that has ended
// reads nothing: answer says so.
func (c *conversation) send(ctx context.Context, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a message has nothing that JSON cannot express
	}
	defer context.AfterFunc(ctx, c.kill)()
	c.write.Lock()
	defer c.write.Unlock()
	_, _ = c.stdin.Write(append(text, '\n'))
}

// lost is the failure of a helper that has ended. ran says that the action may have run.
func (c *conversation) lost(ran bool) reply {
	<-c.over
	msg := "fiador-remote has ended"
	if c.why != nil {
		msg += ": " + c.why.Error()
	}
	return reply{Type: failed, Kind: "lost", Message: msg, MayHaveRun: ran}
}

// cancel ends an action, and the helper if it does not obey.
func (c *conversation) cancel(id string, last <-chan reply) {
	late, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	c.send(late, order{Type: "cancel", ID: id})
	select {
	case <-last:
	case <-c.over:
	case <-late.Done():
		c.kill()
		<-c.over
	}
}

func (c *conversation) kill() { _ = c.cmd.Process.Kill() }

// end ends the helper.
func (c *conversation) end() {
	_ = c.stdin.Close()
	late := time.AfterFunc(endTime, c.kill)
	defer late.Stop()
	<-c.over
}

func (h *helper) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != nil {
		h.run.end()
		h.run = nil
	}
	return nil
}
