package gate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/kernel/rpc"
)

// The limits of Handler.
const (
	maxSessions   = 100
	maxPosts      = 64               // requests of the gate that have no answer, of one session
	maxSessionID  = 1024             // bytes of a server's name of a session
	bodyTime      = 30 * time.Second // that a client has to send a message
	sessionHeader = "Mcp-Session-Id"
)

// HTTP relays between clients that come to a listener and the server at a URL, until ctx ends.
// Every process of this machine can reach the listener, whose address is one of the loopback
// interface. HTTP calls ready when it begins to answer.
func HTTP(ctx context.Context, o Options, l net.Listener, server string, ready func()) error {
	h, err := Handler(ctx, o, server)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddrPort(l.Addr().String()); err != nil || !a.Addr().Unmap().IsLoopback() {
		return errors.New("the gate listens at an address of the loopback interface alone")
	}
	ready()
	web := &http.Server{Handler: h, ReadHeaderTimeout: bodyTime, MaxHeaderBytes: outbound.MaxHeaderBytes, ErrorLog: o.logger()}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler relays between clients and the server at a URL over streamable HTTP, until ctx ends.
// It answers requests to the loopback interface alone, whose headers Host and Origin say the same.
// Each session of a client is one of the server. The client's Authorization goes to the URL, and
// redirects are not followed. Of the other headers, those of the protocol are passed on.
func Handler(ctx context.Context, o Options, server string) (http.Handler, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !outbound.OfThisMachine(u.Hostname())) {
		return nil, errors.New("the URL of the server is none of https, and none of http to this machine, or it has a name or password")
	}
	return &web{ctx: ctx, o: o, url: server, client: outbound.Origin(u.Scheme), sessions: map[string]*visit{}}, nil
}

type web struct {
	ctx    context.Context
	o      Options
	url    string
	client *http.Client

	mu       sync.Mutex
	sessions map[string]*visit
}

// visit is the session of one client. The lock of web guards id, server, header, busy and last.
type visit struct {
	*session
	end    context.CancelFunc
	id     string      // its name for the client
	server string      // its name for the server; empty: none
	header http.Header // of the client's last request: what requests of the gate carry too
	busy   int         // requests that are under way
	last   time.Time   // when the last one ended
}

// ServeHTTP implements http.Handler.
func (g *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text []byte
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case !local(r):
		http.Error(w, "the gate answers its own machine alone", http.StatusForbidden)
		return
	case r.Method == http.MethodGet, r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "no such method", http.StatusMethodNotAllowed)
		return
	case kind != "application/json":
		http.Error(w, "a message is application/json", http.StatusUnsupportedMediaType)
		return
	default:
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // without deadlines, the body is still bounded
		var err error
		if text, err = io.ReadAll(io.LimitReader(r.Body, rpc.MaxMessageBytes+1)); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Time{})
	}
	v, o := g.visitor(r, text)
	if v == nil {
		switch {
		case o.toClient != nil:
			refused(w, o)
		case r.Header.Get(sessionHeader) == "" && o.toServer == nil:
			http.Error(w, "the request names no session", http.StatusBadRequest)
		case o.toServer != nil:
			http.Error(w, "too many sessions are under way", http.StatusServiceUnavailable)
		default:
			http.Error(w, "no such session", http.StatusNotFound)
		}
		return
	}
	defer g.leave(v)
	if r.Method == http.MethodPost {
		g.message(w, r, v, o)
		return
	}
	g.exchange(w, r, v, outcome{})
	if r.Method == http.MethodDelete {
		g.remove(v)
	}
}

// local says whether a request comes to the loopback interface, and whether its headers say so:
// a page of another origin, or one whose name leads here, says another thing.
func local(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if at == nil {
		return false
	}
	here, err := netip.ParseAddrPort(at.String())
	if err != nil || !here.Addr().Unmap().IsLoopback() {
		return false
	}
	host, port, err := net.SplitHostPort(r.Host)
	if to, e := netip.ParseAddrPort("127.0.0.1:" + port); err != nil || e != nil || to.Port() != here.Port() || !outbound.OfThisMachine(host) {
		return false
	}
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, "http://"+r.Host) {
			return false
		}
	}
	return true
}

// visitor returns the session of a request, and judges its message. A session begins with
// initialize. Without a session, the outcome is the answer.
func (g *web) visitor(r *http.Request, text []byte) (*visit, outcome) {
	id := r.Header.Get(sessionHeader)
	g.mu.Lock()
	v := g.sessions[id]
	if v != nil {
		v.busy++
		v.header = passing(r.Header)
	}
	g.mu.Unlock()
	switch {
	case v != nil && r.Method == http.MethodPost:
		return v, v.fromClient(text)
	case v != nil || id != "" || r.Method != http.MethodPost:
		return v, outcome{}
	}
	ctx, end := context.WithCancel(g.ctx)
	v = &visit{session: newSession(ctx, g.o), end: end, id: rand.Text(), header: passing(r.Header), busy: 1}
	posts := make(chan struct{}, maxPosts)
	v.send = func(line []byte, own *flight) bool {
		select {
		case posts <- struct{}{}:
		default:
			return false
		}
		go func() {
			defer func() { <-posts }()
			g.post(v, line, own)
		}()
		return true
	}
	o := v.fromClient(text)
	if !v.begun {
		end()
		o.toServer = nil
		return nil, o
	}
	g.mu.Lock()
	var idle *visit
	for _, other := range g.sessions {
		if other.busy == 0 && (idle == nil || other.last.Before(idle.last)) {
			idle = other
		}
	}
	full := len(g.sessions) >= maxSessions
	if full && idle == nil {
		g.mu.Unlock()
		end()
		return nil, o
	}
	if g.sessions[v.id] = v; full {
		delete(g.sessions, idle.id)
		go g.forget(idle)
	}
	g.mu.Unlock()
	return v, o
}

// forget ends a session that the client has not ended, and tells the server.
func (g *web) forget(v *visit) {
	ctx, cancel := context.WithTimeout(v.ctx, ending)
	defer cancel()
	if resp, err := g.ask(ctx, v, http.MethodDelete, nil); err == nil {
		_ = resp.Body.Close()
	}
	g.remove(v)
}

// leave ends a request of a session.
func (g *web) leave(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v.busy--
	v.last = time.Now()
}

// remove ends a session.
func (g *web) remove(v *visit) {
	g.mu.Lock()
	delete(g.sessions, v.id)
	g.mu.Unlock()
	v.end()
	v.over("the session has ended")
}

// passing returns the headers of a client's request that go to the server.
func passing(from http.Header) http.Header {
	to := http.Header{"User-Agent": nil}
	for _, name := range []string{"Accept", "Authorization", "Last-Event-Id", "Mcp-Protocol-Version"} {
		if values := from.Values(name); len(values) > 0 {
			to[name] = values
		}
	}
	return to
}

// message does what a message of the client needs.
func (g *web) message(w http.ResponseWriter, r *http.Request, v *visit, o outcome) {
	if o.decides() {
		stop := context.AfterFunc(r.Context(), o.request.stop)
		a := v.verdict(o.request)
		o.toClient = v.conclude(o.request, a, func(line []byte) { o.toServer = line })
		stop()
		v.calls.Done()
		if o.decides() && o.toClient == nil { // HTTP has an answer to everything
			o.toClient = failure(o.request.id, codeRefused, "the call was cancelled")
		}
	}
	switch {
	case o.toClient != nil:
		refused(w, o)
	case o.toServer == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		g.exchange(w, r, v, o)
	}
}

// refused writes the answer of the gate: a request has one, and anything else a bad status.
func refused(w http.ResponseWriter, o outcome) {
	status := http.StatusOK
	if o.nameless {
		status = http.StatusBadRequest
	}
	writeJSON(w, status, o.toClient)
}

func writeJSON(w http.ResponseWriter, status int, line []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(line)
}

// ask makes a request to the server. ctx ends it, or the end of the session.
func (g *web) ask(ctx context.Context, v *visit, method string, line []byte) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(v.ctx, cancel)
	g.mu.Lock()
	header := v.header.Clone()
	if v.server != "" {
		header.Set(sessionHeader, v.server)
	}
	g.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, method, g.url, bytes.NewReader(line))
	if err == nil {
		req.Header = header
		if method == http.MethodPost {
			header.Set("Content-Type", "application/json")
			header.Set("Accept", "application/json, text/event-stream")
			header.Del("Last-Event-Id")
		}
		var resp *http.Response
		if resp, err = g.client.Do(req); err == nil {
			resp.Body = &endingBody{resp.Body, func() { stop(); cancel() }}
			return resp, nil
		}
	}
	stop()
	cancel()
	return nil, err
}

// endingBody is a body that ends its context.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *endingBody) Close() error { defer b.end(); return b.ReadCloser.Close() }

// post sends a line of the gate. What comes with the answer to it reaches nobody.
func (g *web) post(v *visit, line []byte, own *flight) {
	resp, err := g.ask(v.ctx, v, http.MethodPost, line)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			g.messages(v, resp, func(*mcp.Event, []byte) {})
		}
	}
	v.lose(own, "")
}

// exchange sends a request of the client to the server, and relays the answer.
func (g *web) exchange(w http.ResponseWriter, r *http.Request, v *visit, o outcome) {
	resp, err := g.ask(r.Context(), v, r.Method, o.toServer)
	if o.begins {
		defer v.begin()
	}
	if err != nil {
		g.lost(w, v, o.request, http.StatusBadGateway, "no connection to the server, or it broke before an answer")
		return
	}
	defer resp.Body.Close()
	if named := resp.Header.Get(sessionHeader); o.request != nil && o.request.method == rpc.MethodInitialize && named != "" {
		if len(named) > maxSessionID || strings.ContainsFunc(named, func(r rune) bool { return r < '!' || r > '~' }) {
			g.lost(w, v, o.request, http.StatusBadGateway, "the server names a session in a way that the protocol does not allow")
			return
		}
		g.mu.Lock()
		v.server = named
		g.mu.Unlock()
	}
	for _, name := range []string{"Allow", "Retry-After", "Www-Authenticate"} {
		if values := resp.Header.Values(name); len(values) > 0 {
			w.Header()[name] = values
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && resp.Request.Header.Get(sessionHeader) != "":
		g.lost(w, v, o.request, status, "the server has ended the session")
		g.remove(v)
	case status >= 300 && status < 400:
		g.lost(w, v, o.request, http.StatusBadGateway, "the server answers with a redirect, which is not followed")
	case status != http.StatusOK:
		g.lost(w, v, o.request, status, "the server answers with the status "+resp.Status)
	default:
		g.answer(w, v, o.request, resp)
	}
}

// lost answers a request that has no other answer.
func (g *web) lost(w http.ResponseWriter, v *visit, f *flight, status int, why string) {
	if line := v.lose(f, why); line != nil {
		writeJSON(w, status, line)
		return
	}
	w.WriteHeader(status)
}

// answer relays the body of an answer, whose status is 200.
func (g *web) answer(w http.ResponseWriter, v *visit, f *flight, resp *http.Response) {
	if f != nil && f.method == rpc.MethodInitialize {
		w.Header().Set(sessionHeader, v.id)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	stream := kind == "text/event-stream"
	if stream {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
	}
	resumable, sent := false, false
	emit := func(e *mcp.Event, line []byte) {
		switch {
		case !stream:
			writeJSON(w, http.StatusOK, line)
		default:
			resumable = resumable || e.ID != ""
			writeEvent(w, e, line)
		}
		sent = true
	}
	more := g.messages(v, resp, emit)
	if !more {
		v.log.Println("fiador mcp gate: two messages running were dropped: the session ends")
	}
	if !resumable || !more {
		if line := v.lose(f, "the server has ended its answer"); line != nil {
			emit(&mcp.Event{}, line)
		}
	}
	if !stream && !sent {
		w.WriteHeader(http.StatusAccepted)
	}
	if !more {
		g.remove(v)
	}
}

// messages reads the messages of an answer, and emits those that the client gets. It returns
// false when the session cannot go on.
func (g *web) messages(v *visit, resp *http.Response, emit func(*mcp.Event, []byte)) (more bool) {
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json":
		text, err := io.ReadAll(io.LimitReader(resp.Body, rpc.MaxMessageBytes+1))
		if err != nil {
			return true
		}
		line, more := v.fromServer(text)
		if line != nil {
			emit(&mcp.Event{}, line)
		}
		return more
	case "text/event-stream":
		for next := mcp.Events(resp.Body); ; {
			e, err := next()
			if err != nil {
				return true
			}
			var line []byte
			more := true
			if e.Kind == "message" && len(e.Data) > 0 {
				line, more = v.fromServer(e.Data)
			}
			if line != nil || e.ID != "" || e.Retry != "" {
				emit(e, line)
			}
			if !more {
				return false
			}
		}
	}
	return true
}

// writeEvent writes an event with a message, or with none.
func writeEvent(w http.ResponseWriter, e *mcp.Event, line []byte) {
	var b bytes.Buffer
	for _, field := range []struct{ name, value string }{{"id", e.ID}, {"retry", e.Retry}} {
		if field.value != "" && !strings.ContainsAny(field.value, "\r\n") {
			b.WriteString(field.name + ": " + field.value + "\n")
		}
	}
	b.WriteString("event: message\ndata: " + string(bytes.TrimSuffix(line, []byte{'\n'})) + "\n\n")
	_, _ = w.Write(b.Bytes())
	_ = http.NewResponseController(w).Flush()
}
