//go:build unix

package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/gate"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/rpc"
)

// upstream is a server over HTTP. It keeps what it reads.
type upstream struct {
	*httptest.Server
	events bool // its answers are streams
	part   func(u *upstream, w http.ResponseWriter, r *http.Request, m *rpc.Message, say func(string)) bool

	mu       sync.Mutex
	heard    []string
	headers  []http.Header
	sessions int
	lists    int
}

func newUpstream(t *testing.T, events bool, part func(u *upstream, w http.ResponseWriter, r *http.Request, m *rpc.Message, say func(string)) bool) *upstream {
	u := &upstream{events: events, part: part}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.heard)
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := rpc.Read(body)
	u.mu.Lock()
	u.heard = append(u.heard, r.Method+" "+strings.TrimSpace(string(body)))
	u.headers = append(u.headers, r.Header.Clone())
	if err == nil && m.Method == rpc.MethodToolsList {
		u.lists++
	}
	if err == nil && m.Method == rpc.MethodInitialize {
		u.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("upstream-", u.sessions))
	}
	u.mu.Unlock()
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if err != nil || m.Kind != rpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	begun := false
	say := func(text string) {
		id := fmt.Sprintf("%v", m.ID)
		if s, ok := m.ID.(string); ok {
			id = `"` + s + `"`
		}
		text = strings.ReplaceAll(text, "ID", id)
		if !begun {
			w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[u.events])
			begun = true
		}
		if u.events {
			text = "id: 7\r\nevent: message\r\ndata: " + text + "\r\n\r\n"
		}
		_, _ = io.WriteString(w, text)
	}
	if u.part != nil && u.part(u, w, r, m, say) {
		return
	}
	switch m.Method {
	case rpc.MethodInitialize:
		say(agreed)
	case rpc.MethodToolsList:
		say(listed(echoTool))
	default:
		say(result)
	}
}

// visit is a client of a gate over HTTP.
type visit struct {
	t       *testing.T
	url     string
	session string
}

// open starts a gate before a server, and returns its URL.
func openWeb(t *testing.T, o gate.Options, server string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Decide == nil {
		o.Decide = func(_ context.Context, call gate.Call) gate.Answer {
			_, no := call.Params["no"]
			return gate.Answer{Allowed: !no, Text: "REFUSE the test refuses"}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- gate.HTTP(ctx, o, l, server, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/"
}

// do sends a request, and returns the status and the body.
func (v *visit) do(method, body string, header ...string) (int, string, http.Header) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.url, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if v.session != "" {
		r.Header.Set("Mcp-Session-Id", v.session)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// begin opens a session.
func (v *visit) begin() *visit {
	v.t.Helper()
	status, text, header := v.do("POST", initialize)
	if v.session = header.Get("Mcp-Session-Id"); status != 200 || v.session == "" || strings.HasPrefix(v.session, "upstream") {
		v.t.Fatalf("initialize: %d %s %v", status, text, header)
	}
	if status, text, _ := v.do("POST", initialized); status != 202 {
		v.t.Fatalf("initialized: %d %s", status, text)
	}
	return v
}

// want sends a message, and wants a status and texts.
func (v *visit) want(status int, message string, texts ...string) {
	v.t.Helper()
	got, text, _ := v.do("POST", message)
	if got != status {
		v.t.Errorf("%.300s: %d %s, want %d", message, got, text, status)
	}
	for _, one := range texts {
		if !strings.Contains(text, one) {
			v.t.Errorf("%.300s: %s, want %s", message, text, one)
		}
	}
}

// TestWebCall: calls over HTTP, with answers in JSON and in streams.
func TestWebCall(t *testing.T) {
	for _, events := range []bool{false, true} {
		u := newUpstream(t, events, nil)
		v := (&visit{t: t, url: openWeb(t, gate.Options{}, u.URL)}).begin()
		v.want(200, call("1", "echo", `{ "b":1.0, "a":"\u0041" }`), `"id":1`, "done")
		v.want(200, call("2", "echo", `{"no":1}`), `"id":2`, `"isError":true`, "REFUSE the test refuses")
		v.want(200, call("3", "never", `{}`), "TOOL_UNKNOWN")
		v.want(200, `{"jsonrpc":"2.0","id":"1.0",  "method":"prompts/list"}`, `"id":"1.0"`, "done")
		v.want(202, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		v.want(200, `{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"a","Name":"b"}}`, `"code":-32600`, `"id":4`)
		v.want(200, `{"jsonrpc":"2.0","id":4,"method":"server/discover"}`, `"code":-32601`, `"id":4`)
		v.want(400, `[]`, `"code":-32600`)
		v.want(400, `{"jsonrpc":"2.0","id":4,"result":{}}`, `"code":-32600`)
		v.want(400, strings.Repeat("a", 5<<20), `"code":-32600`)
		all := strings.Join(u.all(), "\n")
		if !strings.Contains(all, `POST {"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"a":"A","b":1},"name":"echo"}}`) || strings.Count(all, "tools/call") != 1 ||
			!strings.Contains(all, `"id":"1.0",  "method"`) {
			t.Errorf("the server has read %s", all)
		}
		if status, _, _ := v.do("GET", ""); status != 405 {
			t.Errorf("GET: %d", status)
		}
		if status, _, _ := v.do("DELETE", ""); status != 202 {
			t.Errorf("DELETE: %d", status)
		}
		v.want(404, call("5", "echo", `{}`))
		for _, h := range u.headers[1:] {
			if h.Get("Mcp-Session-Id") != "upstream-1" {
				t.Errorf("the session is %v", h)
			}
		}
	}
}

// TestWebStrangers: requests of other hosts, origins, types and sessions are refused, and the
// server does not see them.
func TestWebStrangers(t *testing.T) {
	u := newUpstream(t, false, nil)
	at := openWeb(t, gate.Options{}, u.URL)
	v := &visit{t: t, url: at}
	here, _ := url.Parse(at)
	for _, c := range []struct {
		status int
		method string
		header []string
	}{
		{403, "POST", []string{"Host", "evil.example"}},
		{403, "POST", []string{"Host", "evil.example:" + here.Port()}},
		{403, "POST", []string{"Host", "127.0.0.1"}},
		{403, "POST", []string{"Host", "127.0.0.1:1"}},
		{403, "POST", []string{"Host", "127.0.0.1.evil.example:" + here.Port()}},
		{403, "POST", []string{"Host", "10.0.0.1:" + here.Port()}},
		{403, "POST", []string{"Origin", "https://evil.example"}},
		{403, "POST", []string{"Origin", "null"}},
		{403, "POST", []string{"Origin", "http://127.0.0.1:1"}},
		{403, "POST", []string{"Origin", "https://" + here.Host}},
		{403, "POST", []string{"Origin", "http://" + here.Host + ".evil.example"}},
		{403, "GET", []string{"Origin", "https://evil.example"}},
		{403, "OPTIONS", []string{"Origin", "https://evil.example"}},
		{415, "POST", []string{"Content-Type", "text/plain"}},
		{405, "PUT", nil},
		{400, "GET", nil},
		{400, "DELETE", nil},
		{404, "POST", []string{"Mcp-Session-Id", "upstream-1"}},
		{404, "GET", []string{"Mcp-Session-Id", "x"}},
	} {
		if status, text, _ := v.do(c.method, initialize, c.header...); status != c.status {
			t.Errorf("%s %v: %d %s", c.method, c.header, status, text)
		}
	}
	v.want(400, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	v.want(200, call("1", "echo", "{}"), `"code":-32600`)
	v.want(200, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, `"code":-32601`)
	if heard := u.all(); len(heard) > 0 {
		t.Errorf("the server has read %q", heard)
	}
	if status, _, _ := v.do("POST", initialize, "Host", "localhost:"+here.Port(), "Origin", "http://localhost:"+here.Port()); status != 200 {
		t.Errorf("localhost: %d", status)
	}
}

// TestWebHeaders: Authorization goes to the server, and a redirect is not followed.
func TestWebHeaders(t *testing.T) {
	other := newUpstream(t, false, nil)
	u := newUpstream(t, false, func(u *upstream, w http.ResponseWriter, r *http.Request, m *rpc.Message, say func(string)) bool {
		switch m.Method {
		case "prompts/list":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "resources/list":
			w.Header().Set("WWW-Authenticate", "Bearer x")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	})
	v := (&visit{t: t, url: openWeb(t, gate.Options{}, u.URL)}).begin()
	if status, text, _ := v.do("POST", call("1", "echo", `{}`), "Authorization", "Bearer s", "Cookie", "a=b", "X-Other", "1", "MCP-Protocol-Version", "2025-06-18"); status != 200 || !strings.Contains(text, "done") {
		t.Errorf("%d %s", status, text)
	}
	u.mu.Lock()
	last := u.headers[len(u.headers)-1]
	u.mu.Unlock()
	if last.Get("Authorization") != "Bearer s" || last.Get("MCP-Protocol-Version") != "2025-06-18" || last.Get("Cookie")+last.Get("X-Other") != "" {
		t.Errorf("the server has the headers %v", last)
	}
	v.want(502, `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`, `"code":-32000`, `"id":2`, "redirect")
	status, text, header := v.do("POST", `{"jsonrpc":"2.0","id":3,"method":"resources/list"}`)
	if status != 401 || header.Get("WWW-Authenticate") != "Bearer x" || !strings.Contains(text, `"id":3`) {
		t.Errorf("%d %s %v", status, text, header)
	}
	if len(other.all()) > 0 {
		t.Error("the redirect was followed")
	}
	u.Close()
	v.want(502, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, `"code":-32000`, `"id":4`)
	for _, bad := range []string{"", "ftp://a", "http://example.com/", "https://user:pass@example.com/", "http:///x", "://"} {
		if _, err := gate.Handler(t.Context(), gate.Options{}, bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestWebStream: what a server sends in a stream is judged message by message.
func TestWebStream(t *testing.T) {
	u := newUpstream(t, true, func(u *upstream, w http.ResponseWriter, r *http.Request, m *rpc.Message, say func(string)) bool {
		switch {
		case m.Method == rpc.MethodToolsCall && m.Params["name"] == "echo":
			say(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`)
			say(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			say(`{"jsonrpc":"2.0","id":99,"result":{}}`)
			say(changed)
		case m.Method == "prompts/list":
			return true // an answer without a message
		case m.Method == rpc.MethodToolsList && u.lists > 1:
			say(listed(strings.Replace(echoTool, `{`, `{"description":"now evil",`, 1)))
			return true
		}
		return false
	})
	log := &rehearsal.Buffer{}
	v := (&visit{t: t, url: openWeb(t, gate.Options{Log: log}, u.URL)}).begin()
	status, text, header := v.do("POST", call("1", "echo", `{}`))
	if status != 200 || header.Get("Content-Type") != "text/event-stream" || strings.Contains(text, "sampling") || strings.Contains(text, `"id":99`) ||
		!strings.Contains(text, "roots/list") || !strings.Contains(text, "notifications/progress") || !strings.Contains(text, "done") || !strings.Contains(text, "id: 7\n") {
		t.Errorf("%d %s", status, text)
	}
	if !strings.Contains(log.String(), "dropped") {
		t.Errorf("the log is %s", log)
	}
	v.want(202, `{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`)
	v.want(200, call("2", "echo", `{}`), `"isError":true`, "TOOL_CHANGED")
	v.want(200, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, `"tools":[]`)
	v.want(200, `{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`, `"code":-32000`, `"id":4`)
	for end := time.Now().Add(time.Minute); !strings.Contains(strings.Join(u.all(), "\n"), `"code":-32601`); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server has read %q", u.all())
		}
	}
}

// TestWebSessions: there are 100 sessions. The one that has been idle for the longest time makes
// room for another.
func TestWebSessions(t *testing.T) {
	u := newUpstream(t, false, nil)
	at := openWeb(t, gate.Options{}, u.URL)
	var all []*visit
	for range 101 {
		all = append(all, (&visit{t: t, url: at}).begin())
	}
	all[0].want(404, call("1", "echo", `{}`))
	for _, v := range all[1:] {
		v.want(200, call("1", "echo", `{}`), "done")
	}
	for end := time.Now().Add(time.Minute); !slices.Contains(u.all(), "DELETE "); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server does not hear of the session that has ended")
		}
	}
}

// TestWebCancelled: a call that is cancelled before its decision does not reach the server, nor
// does one whose client has gone.
func TestWebCancelled(t *testing.T) {
	u := newUpstream(t, false, nil)
	begun, ended := make(chan bool), make(chan bool)
	v := (&visit{t: t, url: openWeb(t, gate.Options{Decide: func(ctx context.Context, call gate.Call) gate.Answer {
		begun <- true
		<-ctx.Done()
		ended <- true
		return gate.Answer{Allowed: true}
	}}, u.URL)}).begin()
	done := make(chan string)
	go func() {
		_, text, _ := v.do("POST", call("1", "echo", `{}`))
		done <- text
	}()
	<-begun
	v.want(202, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-ended
	if text := <-done; !strings.Contains(text, `"code":-32000`) {
		t.Error(text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", v.url, bytes.NewReader([]byte(call("2", "echo", `{}`))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {v.session}}
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
		t.Error(resp.Status)
	}
	<-ended
	if all := strings.Join(u.all(), "\n"); strings.Contains(all, "tools/call") || strings.Contains(all, "cancelled") {
		t.Errorf("the server has read %s", all)
	}
}
