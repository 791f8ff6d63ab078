package gate

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// maxServed is how many calls of one session are answered at once. Further calls wait.
const maxServed = 64

// Service is what an MCP server of our own offers.
type Service struct {
	Name, Version string
	Tools         []ServedTool
	Resources     []Resource
}

// ServedTool is a tool that takes an intent. Call returns the structured answer, the same in
// words, and whether the tool failed. It may be called many times at once.
type ServedTool struct {
	Name, Description string
	Call              func(ctx context.Context, intent map[string]any) (answer map[string]any, words string, failed bool)
}

// Resource is a text that a client can read.
type Resource struct {
	URI, Name, Description, MIME string
	Read                         func(ctx context.Context) (string, error)
}

// Serve answers one MCP client over a pair of streams. Standard output gets nothing but the
// protocol. Calls are answered when they are done, in any order.
//
// Serve ends when the client closes its stream, and then answers the open calls first. If ctx
// ends, or nobody reads the answers, Serve cancels the open calls. A goroutine that reads in
// ends with it.
func Serve(ctx context.Context, service Service, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &served{service: service, to: &writer{to: out, gone: make(chan struct{})}, open: map[rpc.ID]context.CancelFunc{}, room: make(chan struct{}, maxServed)}
	read := make(chan error, 1)
	go func() { read <- s.listen(ctx, in) }()
	var err error
	select {
	case err = <-read:
	case <-s.to.gone:
		cancel()
	case <-ctx.Done():
	}
	s.finish()
	return err
}

// listen takes the messages of the client, until it closes its stream.
func (s *served) listen(ctx context.Context, in io.Reader) error {
	for lines := newReader(in); ; {
		text, err := lines.next()
		switch {
		case errors.Is(err, errLong.Get()):
			s.to.write(failure(nil, rpc.CodeInvalid, err.Error()))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			s.take(ctx, text)
		}
	}
}

// served is one session of a server.
type served struct {
	service Service
	to      *writer
	room    chan struct{}
	calls   sync.WaitGroup

	mu    sync.Mutex
	open  map[rpc.ID]context.CancelFunc
	ended bool // no call begins any more
}

// take answers one message. A call is answered beside the others.
func (s *served) take(ctx context.Context, text []byte) {
	m, err := rpc.Read(text)
	if err != nil {
		s.to.write(failure(idOf(text, true), rpc.CodeInvalid, err.Error()))
		return
	}
	switch m.Kind {
	case rpc.Notification:
		if m.Method == methodCancelled {
			s.cancel(m.Params)
		}
	case rpc.Request:
		ctx, done, err := s.begin(ctx, m.ID)
		if err != nil {
			s.to.write(failure(m.ID, rpc.CodeInvalid, err.Error()))
			return
		}
		s.room <- struct{}{}
		go func() {
			defer s.calls.Done()
			defer func() { <-s.room }()
			answer := s.answer(ctx, m)
			if done() {
				s.to.write(answer)
			}
		}()
	}
}

// begin begins a call. done ends it before it is answered, because the client may use the id
// again as soon as it has the answer. done says whether the client still wants one.
func (s *served) begin(ctx context.Context, id rpc.ID) (_ context.Context, done func() bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, nil, errors.New("the session ends")
	case s.open[id] != nil:
		return nil, nil, errors.New("the id is in use")
	}
	ctx, cancel := context.WithCancel(ctx)
	s.open[id] = cancel
	s.calls.Add(1)
	return ctx, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		wanted := ctx.Err() == nil
		delete(s.open, id)
		cancel()
		return wanted
	}, nil
}

// finish waits for the calls that have begun. No other begins.
func (s *served) finish() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.calls.Wait()
}

// cancel cancels the call that the params of a notification name.
func (s *served) cancel(params map[string]any) {
	id, ok := cancelledID(params)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.open[id]; cancel != nil {
		cancel()
	}
}

// answer returns the line that answers a request.
func (s *served) answer(ctx context.Context, m *rpc.Message) (reply []byte) {
	defer func() {
		if recover() != nil {
			reply = failure(m.ID, codeInternal, "an internal error")
		}
	}()
	result, err := s.result(ctx, m)
	if err != nil {
		return failure(m.ID, codeParams, err.Error())
	}
	if result == nil {
		return failure(m.ID, rpc.CodeNoMethod, "the server has no method "+canon.Quote(m.Method))
	}
	text, err := rpc.EncodeResult(m.ID, result)
	if err != nil {
		return failure(m.ID, codeInternal, "the answer has no canonical form")
	}
	return line(text)
}

const (
	codeParams   = -32602 // there is no such tool or resource, or the tool does not take the arguments
	codeInternal = -32603
)

// result returns the result of a request; nil: the server does not have the method.
func (s *served) result(ctx context.Context, m *rpc.Message) (any, error) {
	switch m.Method {
	case rpc.MethodInitialize:
		version, _ := m.Params["protocolVersion"].(string)
		if !slices.Contains(rpc.Versions, version) {
			version = rpc.Versions[0]
		}
		return initialized{version, map[string]struct{}{"resources": {}, "tools": {}}, rpc.Peer{Name: s.service.Name, Version: s.service.Version}}, nil
	case rpc.MethodPing:
		return struct{}{}, nil
	case rpc.MethodToolsList:
		return s.tools(), nil
	case rpc.MethodToolsCall:
		return s.call(ctx, m.Params)
	case "resources/list":
		list := make([]resource, 0, len(s.service.Resources))
		for _, r := range s.service.Resources {
			list = append(list, resource{URI: r.URI, Name: r.Name, Description: r.Description, MIME: r.MIME})
		}
		return map[string][]resource{"resources": list}, nil
	case "resources/templates/list":
		return map[string][]resource{"resourceTemplates": {}}, nil
	case "resources/read":
		return s.read(ctx, m.Params["uri"])
	}
	return nil, nil
}

type initialized struct {
	ProtocolVersion string              `json:"protocolVersion"`
	Capabilities    map[string]struct{} `json:"capabilities"`
	ServerInfo      rpc.Peer            `json:"serverInfo"`
}

type resource struct {
	URI         string  `json:"uri"`
	Name        string  `json:"name,omitempty"`
	Description string  `json:"description,omitempty"`
	MIME        string  `json:"mimeType"`
	Text        *string `json:"text,omitempty"`
}

type listed struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	InputSchema inputSchema `json:"inputSchema"`
}

type inputSchema struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	Additional bool                `json:"additionalProperties"`
}

type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// argument is the one argument of a served tool. No argument chooses a profile, a ledger, a
// folder or a mode.
const argument = "intent"

func (s *served) tools() any {
	list := make([]listed, 0, len(s.service.Tools))
	for _, t := range s.service.Tools {
		list = append(list, listed{t.Name, t.Description, inputSchema{
			Type: "object", Required: []string{argument},
			Properties: map[string]property{argument: {"object", "What is to be done: goal, constraints, actions, inputs, outputs (intent.schema.json)."}},
		}})
	}
	return map[string][]listed{"tools": list}
}

// call calls a tool with its one argument.
func (s *served) call(ctx context.Context, params map[string]any) (any, error) {
	i := slices.IndexFunc(s.service.Tools, func(t ServedTool) bool { return t.Name == params["name"] })
	if i < 0 {
		return nil, errors.New("the server has no such tool")
	}
	given, _ := params["arguments"].(map[string]any)
	intent, ok := given[argument].(map[string]any)
	if !ok || len(given) != 1 {
		return nil, errors.New("the tool takes one argument, the object " + argument)
	}
	answer, words, failed := s.service.Tools[i].Call(ctx, intent)
	return answered{[]block{{"text", words}}, answer, failed}, nil
}

type answered struct {
	Content    []block        `json:"content"`
	Structured map[string]any `json:"structuredContent,omitempty"`
	IsError    bool           `json:"isError"`
}

func (s *served) read(ctx context.Context, uri any) (any, error) {
	i := slices.IndexFunc(s.service.Resources, func(r Resource) bool { return r.URI == uri })
	if i < 0 {
		return nil, errors.New("the server has no such resource")
	}
	r := s.service.Resources[i]
	text, err := r.Read(ctx)
	return map[string][]resource{"contents": {{URI: r.URI, MIME: r.MIME, Text: &text}}}, err
}
