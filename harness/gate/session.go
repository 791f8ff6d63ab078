package gate

import (
	"context"
	"errors"
	"log"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/harness/calltrace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// session is what the gate knows of one client and one server. Stdio and Handler carry its
// messages.
type session struct {
	Options
	ctx context.Context // ends with the session
	log *log.Logger

	// send hands a line of the gate to the server. It does not block, and returns false if too
	// much waits for the server. own is a request of the gate, or nil.
	send func(line []byte, own *flight) bool

	deciding chan struct{}  // as many values as decisions are under way
	calls    sync.WaitGroup // a value for every call that is being decided, which who decides takes away

	mu     sync.Mutex
	client flights // requests of the client, and of the gate
	server flights // requests of the server
	begun  bool    // initialize was passed on, and has no error as its answer
	agreed bool    // it has its answer
	ready  bool    // notifications/initialized was passed on
	held   int     // bytes of the calls that are being decided
	bad    int     // messages of the server that were dropped, since the last one that was not
	asked  int     // requests of the gate
	ended  bool
	tools
}

// newSession returns a session. send is set before the first message.
func newSession(ctx context.Context, o Options) *session {
	s := &session{Options: o, ctx: ctx, log: o.logger(), deciding: make(chan struct{}, maxDecisions)}
	s.client, s.server = flights{open: map[rpc.ID]*flight{}}, flights{open: map[rpc.ID]*flight{}}
	s.known, s.unfit, s.wake = map[string]canon.ContentHash{}, map[string]string{}, make(chan struct{})
	return s
}

// flight is a request without an answer.
type flight struct {
	id        rpc.ID
	method    string
	cancelled bool
	own       chan *message // of a request of the gate: gets the answer, or nil

	// Of a call that is decided:
	undecided bool // the server has not seen the call
	call      Call
	trace     *calltrace.Call
	line      []byte // what the server gets
	ctx       context.Context
	stop      context.CancelFunc
}

// flights are the requests of one side that have no answer.
type flights struct {
	open      map[rpc.ID]*flight
	cancelled []rpc.ID // the oldest one first; an id may have its answer by now
}

// take removes a request that gets its answer.
func (l *flights) take(id rpc.ID) *flight {
	f := l.open[id]
	if f == nil || f.undecided {
		return nil
	}
	delete(l.open, id)
	return f
}

// cancel marks a request, which may get no answer. The oldest such requests are forgotten.
func (l *flights) cancel(f *flight) {
	if f.cancelled {
		return
	}
	f.cancelled = true
	if l.cancelled = append(l.cancelled, f.id); len(l.cancelled) > maxCancelled {
		oldest := l.cancelled[0]
		l.cancelled = l.cancelled[1:]
		if old := l.open[oldest]; old != nil && old.cancelled {
			_ = old.trace.End(false)
			delete(l.open, oldest)
		}
	}
}

// outcome says what becomes of a message of the client: a line for the server, or one for the
// client, or a call that is to be decided, or nothing.
type outcome struct {
	toServer, toClient []byte
	request            *flight // of a request that the server gets, at once or when it is allowed
	nameless           bool    // toClient has no id
	begins             bool    // when the server has got the line, begin follows
}

// decides says that verdict and conclude follow.
func (o *outcome) decides() bool { return o.request != nil && o.toServer == nil }

// fromClient judges a message of the client.
func (s *session) fromClient(text []byte) outcome {
	m, err := readClient(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return s.refuse(idOf(text, true), err)
	case m.Kind == rpc.Notification:
		return s.notified(m)
	case m.Kind == rpc.Request:
		return s.requested(m)
	case s.server.take(m.ID) == nil:
		return s.refuse(nil, errors.New("the message answers nothing"))
	}
	return outcome{toServer: m.line()}
}

// refuse answers a message that cannot be accepted. The answer has no id if it could be taken
// for the one to another request.
func (s *session) refuse(id rpc.ID, why error) outcome {
	if s.client.open[id] != nil {
		id = nil
	}
	return outcome{toClient: failure(id, rpc.CodeInvalid, why.Error()), nameless: id == nil}
}

// notified judges a notification of the client.
func (s *session) notified(m *message) outcome {
	switch m.Method {
	case rpc.MethodInitialized:
		if s.begun && !s.ready {
			s.ready = true
			s.due++ // calls wait for the listing from now on
			return outcome{toServer: m.line(), begins: true}
		}
	case methodCancelled:
		id, ok := cancelledID(m.Params)
		f := s.client.open[id]
		switch {
		case !ok || f == nil:
		case f.own != nil:
			return s.refuse(nil, errors.New("the client has made no such request"))
		case f.undecided: // the server will never see the call
			f.cancelled = true
			f.stop()
			delete(s.client.open, id)
			_ = f.trace.End(false)
			return outcome{}
		default:
			s.client.cancel(f)
		}
	}
	return outcome{toServer: m.line()}
}

// cancelledID returns the id that the params of a cancellation name.
func cancelledID(params map[string]any) (rpc.ID, bool) {
	if text, ok := params["requestId"].(string); ok {
		return text, true
	}
	n, ok := canon.Whole(params["requestId"])
	return n, ok
}

// requested judges a request of the client.
func (s *session) requested(m *message) outcome {
	if s.client.open[m.ID] != nil {
		return s.refuse(m.ID, errors.New("the id belongs to a request that has no answer yet"))
	}
	_, decides := decided.Get()[m.Method]
	f := &flight{id: m.ID, method: m.Method}
	out := outcome{request: f}
	switch {
	case len(s.client.open) >= maxOpen:
		return outcome{toClient: refusal(m.ID, m.Method, "more than "+strconv.Itoa(maxOpen)+" requests have no answer yet")}
	case decides && !s.ready:
		return s.refuse(m.ID, errors.New("the session has not begun: notifications/initialized comes first"))
	case decides:
		if err := s.called(m, f); err != nil {
			return s.refuse(m.ID, err)
		}
	case !slices.Contains(passed, m.Method):
		return outcome{toClient: failure(m.ID, rpc.CodeNoMethod, "the gate does not pass on the method "+canon.Quote(m.Method))}
	case m.Method == rpc.MethodInitialize && s.begun:
		return s.refuse(m.ID, errors.New("the session has begun already"))
	case m.Method == rpc.MethodInitialize && !s.RelayRequests:
		quiet, err := m.quiet()
		if err != nil {
			return s.refuse(m.ID, err)
		}
		s.begun, out.toServer = true, quiet
	default:
		s.begun = s.begun || m.Method == rpc.MethodInitialize
		out.toServer = m.line()
	}
	if m.Method == rpc.MethodToolsList && s.fault != "" {
		s.announce()
	}
	s.client.open[m.ID], f.trace = f, s.Trace.Begin(f.call.Tool, f.call.Params)
	return out
}

// called fills in a call that is to be decided.
func (s *session) called(m *message, f *flight) error {
	f.call = Call{Server: s.Server, Method: m.Method, Params: m.Params}
	if m.Method == rpc.MethodToolsCall {
		var ok bool
		if f.call.Tool, ok = m.Params["name"].(string); !ok || f.call.Tool == "" {
			return errors.New("the name of the tool is not a string, or it is empty")
		}
		given, there := m.Params["arguments"]
		if f.call.Params, ok = given.(map[string]any); there && !ok {
			return errors.New("the arguments are not an object")
		}
	}
	if f.call.Params == nil {
		f.call.Params = make(map[string]any)
	}
	if s.ended {
		return errors.New("the session has ended")
	}
	f.line = line(m.canon)
	if s.held+len(f.line) > maxHeld {
		return errors.New("too many bytes of calls are being decided")
	}
	s.held += len(f.line)
	s.calls.Add(1)
	f.undecided = true
	f.ctx, f.stop = context.WithCancel(s.ctx)
	return nil
}

// verdict decides a call. A panic refuses it.
func (s *session) verdict(f *flight) (a Answer) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Printf("fiador mcp gate: the decision on a call panicked: %v", v)
			a = Answer{Text: "The call was not decided: the gate has failed. The server has not seen the call."}
		}
	}()
	if why := f.trace.Refused(); why != "" {
		return Answer{Text: why}
	}
	if f.method == rpc.MethodToolsCall {
		hash, why := s.fit(f.ctx, f.call.Tool)
		if why != "" {
			return Answer{Text: why}
		}
		f.call.SHA256 = hash
	}
	select {
	case s.deciding <- struct{}{}:
		defer func() { <-s.deciding }()
	case <-f.ctx.Done():
		return Answer{}
	}
	return s.Decide(f.ctx, f.call)
}

// conclude sends an allowed call, and returns the answer to any other one. It returns nil for
// a call that was cancelled, or whose session is over.
func (s *session) conclude(f *flight, a Answer, send func(line []byte)) (toClient []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer f.stop()
	s.held -= len(f.line)
	switch {
	case f.cancelled || s.client.open[f.id] != f:
		return nil
	case f.ctx.Err() != nil || !a.Allowed:
		delete(s.client.open, f.id)
		_ = f.trace.End(false)
		return refusal(f.id, f.method, a.Text)
	}
	send(f.line)
	f.undecided, f.line, f.call = false, nil, Call{}
	return nil
}

// fromServer judges a message of the server, and returns the line for the client, or nil. It
// returns false when the session cannot go on.
func (s *session) fromServer(text []byte) (toClient []byte, more bool) {
	m, err := read(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if toClient, err = s.said(m); err == nil {
			s.bad = 0
			return toClient, true
		}
	}
	return s.dropped(idOf(text, false), err)
}

// drop drops a message of the server that was not read, as fromServer does.
func (s *session) drop(why error) (toClient []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped(nil, why)
}

// dropped logs a message of the server that is not handed on. If it says which request it
// answers, that one has failed.
func (s *session) dropped(id rpc.ID, why error) (toClient []byte, more bool) {
	s.log.Println("fiador mcp gate: a message of the server was dropped: " + why.Error())
	s.bad++
	if f := s.client.take(id); f != nil {
		toClient = s.fail(f, "the answer of the server cannot be accepted: "+why.Error())
	}
	return toClient, s.bad < 2
}

// fail ends a request without an answer of the server, and returns the answer for the client.
func (s *session) fail(f *flight, why string) (toClient []byte) {
	_ = f.trace.End(false)
	switch {
	case f.own != nil:
		f.own <- nil
	case !f.cancelled:
		if f.method == rpc.MethodInitialize {
			s.begun = false
		}
		return failure(f.id, codeRefused, why)
	}
	return nil
}

// said judges a message of the server that was read. An error drops it.
func (s *session) said(m *message) (toClient []byte, err error) {
	switch m.Kind {
	case rpc.Notification:
		switch m.Method {
		case methodListChanged:
			if s.ready && s.hasTools {
				s.announce()
			}
		case methodCancelled:
			if id, ok := cancelledID(m.Params); ok && s.server.open[id] != nil {
				s.server.cancel(s.server.open[id])
			}
		}
		return m.line(), nil
	case rpc.Request:
		switch {
		case s.server.open[m.ID] != nil:
			return nil, errors.New("the id belongs to a request of the server that has no answer yet")
		case !s.relayed(m.Method):
			if !s.send(failure(m.ID, rpc.CodeNoMethod, "the gate does not pass on the method "+canon.Quote(m.Method)), nil) {
				return nil, errors.New("the server asks, and does not read the answers")
			}
			return nil, nil
		case len(s.server.open) >= maxOpen:
			return nil, errors.New("more than " + strconv.Itoa(maxOpen) + " requests of the server have no answer yet")
		}
		s.server.open[m.ID] = &flight{id: m.ID, method: m.Method}
		return m.line(), nil
	}
	f := s.client.take(m.ID)
	switch {
	case f == nil:
		return nil, errors.New("it answers nothing")
	case f.own != nil:
		f.own <- m
		return nil, nil
	case f.method == rpc.MethodInitialize:
		s.begun, s.agreed = m.Kind == rpc.Response, true
		capabilities, _ := m.Result["capabilities"].(map[string]any)
		_, s.hasTools = capabilities["tools"].(map[string]any)
		s.start()
	case f.method == rpc.MethodToolsList && m.Kind == rpc.Response:
		if toClient, err = s.shown(m); err != nil {
			return failure(m.ID, codeRefused, "the tools of the server cannot be shown: "+err.Error()), nil
		}
		return toClient, nil
	}
	if err := f.trace.End(m.Kind == rpc.Response && (m.Result["isError"] == nil || m.Result["isError"] == false)); err != nil {
		return refusal(f.id, f.method, "The answer is not passed on: "+err.Error()+". The server may have seen the call."), nil
	}
	return m.line(), nil
}

// lose ends a request that gets no answer, and returns the one for the client, or nil.
func (s *session) lose(f *flight, why string) (toClient []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil || s.client.open[f.id] != f {
		return nil
	}
	delete(s.client.open, f.id)
	return s.fail(f, why)
}

// over ends all requests of the client, and returns the answers. Nothing is decided any more.
func (s *session) over(why string) (toClient []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for id, f := range s.client.open {
		delete(s.client.open, id)
		toClient = append(toClient, s.fail(f, why)...)
	}
	return toClient
}

// rest waits for decisions that are under way, so that their records are whole. It does not wait
// long for one that does not see the end of its context. over comes before it.
func (s *session) rest() {
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(ending):
	}
}

// ask sends a request of the gate, and returns the result.
func (s *session) ask(ctx context.Context, method string, params any) (*message, error) {
	f := &flight{method: method, own: make(chan *message, 1)}
	s.mu.Lock()
	for f.id == nil || s.client.open[f.id] != nil {
		s.asked++
		f.id = "fiador-" + strconv.Itoa(s.asked)
	}
	text, err := rpc.EncodeRequest(f.id, method, params)
	if err == nil {
		s.client.open[f.id] = f
		if !s.send(line(text), f) {
			delete(s.client.open, f.id)
			err = errors.New("the server does not read")
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-f.own:
		switch {
		case m == nil:
			return nil, errors.New("the server has given no answer")
		case m.Kind == rpc.Failure:
			return nil, errors.New("the server answers with the error " + canon.Quote(m.Error.Message))
		}
		return m, nil
	case <-ctx.Done():
		s.mu.Lock()
		s.client.cancel(f)
		s.mu.Unlock()
		return nil, errors.New("the server has given no answer in time")
	}
}
