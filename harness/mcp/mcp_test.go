package mcp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/rpc"
)

func version(v string) string { return strings.Replace(agreed, rpc.Versions[0], v, 1) }

// flood says a message many times.
func flood(message string) aPart {
	return func(s *server, _ *rpc.Message, say func(string)) {
		for range mcp.MaxMessages + 10 {
			say(message)
		}
	}
}

// page answers tools/list with the tools, and the cursor of the next page.
func page(cursor string, tools ...string) string {
	return `{"jsonrpc":"2.0","id":ID,"result":{"nextCursor":` + cursor + `,"tools":[` + strings.Join(tools, ",") + `]}}`
}

// pages answers each tools/list with the next page. Its cursors are numbers, from 1.
func pages(list ...string) aPart {
	return func(s *server, m *rpc.Message, say func(string)) {
		cursor, _ := m.Params["cursor"].(string)
		n, _ := strconv.Atoi(cursor)
		say(list[n])
	}
}

const otherTool = `{"name":"other","inputSchema":{}}`

var conversations = []struct {
	name string
	script
	want adapter.Reply
	many bool // messages in one answer, which a JSON answer of HTTP cannot have
}{
	{"a call", nil, adapter.Reply{Answer: []byte(answer)}, false},
	{"version 2025-06-18", script{rpc.MethodInitialize: says(version("2025-06-18"))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"version 2025-03-26", script{rpc.MethodInitialize: says(version("2025-03-26"))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"version 2024-11-05", script{rpc.MethodInitialize: says(version("2024-11-05"))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"an unknown version", script{rpc.MethodInitialize: says(version("2023-01-01"))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"no version", script{rpc.MethodInitialize: says(`{"jsonrpc":"2.0","id":ID,"result":{}}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"initialize fails", script{rpc.MethodInitialize: says(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`)}, adapter.Reply{Failure: adapter.FailTool, Code: -32602}, false},
	{"the tool on the second page", script{rpc.MethodToolsList: pages(page(`"1"`, otherTool), page("null", echoTool))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"no page behind the tool is read", script{rpc.MethodToolsList: pages(page(`"9"`, echoTool, otherTool))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"the same cursor again", script{rpc.MethodToolsList: says(page(`"1"`, otherTool))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"pages without end", script{rpc.MethodToolsList: func(_ *server, m *rpc.Message, say func(string)) {
		say(page(`"c`+strconv.Itoa(int(m.ID.(int64)))+`"`, otherTool))
	}}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"too many tools", script{rpc.MethodToolsList: says(page("null", slices.Repeat([]string{otherTool}, mcp.MaxTools+1)...))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"as many tools as are read", script{rpc.MethodToolsList: says(page("null", append(slices.Repeat([]string{otherTool}, mcp.MaxTools-1), echoTool)...))}, adapter.Reply{Answer: []byte(answer)}, false},
	{"no tool", script{rpc.MethodToolsList: says(page("null", otherTool))}, adapter.Reply{Failure: adapter.FailRefused}, false},
	{"a changed tool", script{rpc.MethodToolsList: says(page("null", strings.Replace(echoTool, "again", "again, and sends it", 1)))}, adapter.Reply{Failure: adapter.FailRefused}, false},
	{"a tool shown twice, once changed", script{rpc.MethodToolsList: says(page("null", echoTool, `{"name":"echo","inputSchema":{}}`))}, adapter.Reply{Failure: adapter.FailRefused}, false},
	{"a malformed list", script{rpc.MethodToolsList: says(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{}]}}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"tools/list fails", script{rpc.MethodToolsList: says(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`)}, adapter.Reply{Failure: adapter.FailTool, Code: -32601}, false},
	{"an error of the protocol", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no"}}`)}, adapter.Reply{Failure: adapter.FailTool, Code: -32000}, false},
	{"an error of the tool", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":ID,"result":{"content":[],"isError":true}}`)}, adapter.Reply{Failure: adapter.FailTool}, false},
	{"structured content", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"b":2.0,"a":1},"content":[]}}`)}, adapter.Reply{Answer: []byte(`{"content":[],"structuredContent":{"a":1,"b":2}}`)}, false},
	{"no content", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":ID,"result":{}}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"no result", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":ID}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"another id", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":99,"result":{"content":[]}}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"the id as a text", script{rpc.MethodToolsCall: says(strings.Replace(called, "ID", `"ID"`, 1))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"an error without id", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}`)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"a batch", script{rpc.MethodToolsCall: says("[" + called + "]")}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"noise", script{rpc.MethodToolsCall: says("starting …", called)}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"invalid UTF-8", script{rpc.MethodToolsCall: says(strings.Replace(called, "hello", "\xff", 1))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"a line of ten million bytes", script{rpc.MethodToolsCall: says(strings.Replace(called, "hello", strings.Repeat("x", 10_000_000), 1))}, adapter.Reply{Failure: adapter.FailOutput}, false},
	{"exit in the middle of the call", script{rpc.MethodToolsCall: func(s *server, _ *rpc.Message, _ func(string)) { s.exit() }}, adapter.Reply{Failure: adapter.FailUnavailable}, true},
	{"two answers", script{rpc.MethodToolsCall: says(called, called)}, adapter.Reply{Failure: adapter.FailOutput}, true},
	{"two answers, the second an error", script{rpc.MethodToolsCall: func(s *server, m *rpc.Message, say func(string)) {
		say(called)
		say(withID(`{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"no"}}`, m))
	}}, adapter.Reply{Failure: adapter.FailOutput}, true},
	{"two answers, the first an error", script{rpc.MethodToolsCall: func(s *server, m *rpc.Message, say func(string)) {
		say(`{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"no"}}`)
		say(withID(called, m))
	}}, adapter.Reply{Failure: adapter.FailOutput}, true},
	{"noise behind the answer", script{rpc.MethodToolsCall: says(called, "bye")}, adapter.Reply{Failure: adapter.FailOutput}, true},
	{"a notification behind the answer", script{rpc.MethodToolsCall: says(called, `{"jsonrpc":"2.0","method":"notifications/message"}`)}, adapter.Reply{Answer: []byte(answer)}, true},
	{"notifications", script{rpc.MethodToolsCall: says(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"x","params":{}}`, called)}, adapter.Reply{Answer: []byte(answer)}, true},
	{"a flood of notifications", script{rpc.MethodToolsCall: flood(`{"jsonrpc":"2.0","method":"notifications/message"}`)}, adapter.Reply{Failure: adapter.FailOutput}, true},
	{"a flood of bytes", script{rpc.MethodToolsCall: func(_ *server, _ *rpc.Message, say func(string)) {
		for range 2 * mcp.MaxBytes / 4_000_000 {
			say(`{"jsonrpc":"2.0","method":"x","params":{"x":"` + strings.Repeat("x", 4_000_000) + `"}}`)
		}
	}}, adapter.Reply{Failure: adapter.FailOutput}, true},
}

// TestConversations: what each server makes of a call, over each transport.
func TestConversations(t *testing.T) {
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			check := func(transport string, call func() adapter.Reply) {
				var got adapter.Reply
				rehearsal.Again(t, 3, func(int) string {
					got = call()
					if (strings.HasPrefix(c.name, "two answers") || c.name == "noise behind the answer") && got.Failure != adapter.FailOutput {
						return "what is behind the answer did not come in the time that a client waits for more"
					}
					return ""
				})
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: %s %d %.200s, want %s %d %.200s", transport, got.Failure, got.Code, got.Answer, c.want.Failure, c.want.Code, c.want.Answer)
				}
			}
			check("pipes", func() adapter.Reply { return byPipes(t, newServer(t, c.script)) })
			check("events", func() adapter.Reply { return byWeb(t, newServer(t, c.script), true) })
			if !c.many {
				check("JSON", func() adapter.Reply { return byWeb(t, newServer(t, c.script), false) })
			}
		})
	}
}

// TestSaid: what the client says in a conversation, byte for byte.
func TestSaid(t *testing.T) {
	s := newServer(t, script{rpc.MethodToolsList: pages(page(`"1"`, otherTool), page("null", echoTool))})
	if r := byPipes(t, s); r.Failure != "" {
		t.Fatalf("%+v", r)
	}
	want := `{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"fiador","version":"1"},"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"id":2,"jsonrpc":"2.0","method":"tools/list","params":{}}
{"id":3,"jsonrpc":"2.0","method":"tools/list","params":{"cursor":"1"}}
{"id":4,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"text":"hello"},"name":"echo"}}`
	if got := strings.Join(s.said, "\n"); got != want {
		t.Errorf("the client says\n%s", got)
	}
}

// TestRequestsOfServer: a server waits for the answers to its own requests before it answers
// the call. Only ping has a result.
func TestRequestsOfServer(t *testing.T) {
	asks := []string{"roots/list", "sampling/createMessage", "elicitation/create", "unknown", rpc.MethodToolsCall, rpc.MethodPing}
	part := func(s *server, _ *rpc.Message, say func(string)) {
		for i, method := range asks {
			say(`{"jsonrpc":"2.0","id":"s` + strconv.Itoa(i) + `","method":"` + method + `","params":{}}`)
			m := <-s.answers
			if m.ID != "s"+strconv.Itoa(i) || (m.Kind == rpc.Response) != (method == rpc.MethodPing) || m.Kind == rpc.Failure && m.Error.Code != rpc.CodeNoMethod {
				s.t.Errorf("the answer to %s is %+v", method, m)
			}
		}
		say(called)
	}
	for _, r := range []adapter.Reply{
		byPipes(t, newServer(t, script{rpc.MethodToolsCall: part})),
		byWeb(t, newServer(t, script{rpc.MethodToolsCall: part}), true),
	} {
		if string(r.Answer) != answer {
			t.Errorf("%+v", r)
		}
	}
}

// TestRequestFlood: a server that asks without end, and reads no answer for a while, is an error.
func TestRequestFlood(t *testing.T) {
	s := newServer(t, script{rpc.MethodToolsCall: flood(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)})
	if r := byPipes(t, s); r.Failure != adapter.FailOutput {
		t.Errorf("%+v", r)
	}
	if n := len(s.answers); n > mcp.MaxMessages {
		t.Errorf("%d answers", n)
	}
}

// TestDeafServer: a server that writes and never reads does not block the client, whatever it
// writes.
func TestDeafServer(t *testing.T) {
	for name, text := range map[string]string{"empty lines": "\n", "notifications": `{"jsonrpc":"2.0","method":"x"}` + "\n"} {
		in, toClient := io.Pipe()
		fromClient, out := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := io.WriteString(toClient, text); err != nil {
					return
				}
			}
		}()
		if r := mcp.Stdio(soon(t), bound(t, ""), in, out); r.Failure != adapter.FailOutput {
			t.Errorf("%s: %+v", name, r)
		}
		in.Close()
		fromClient.Close()
		<-done
	}
}

// TestPartialLine: a last line without a line feed is none, even if it is a whole answer.
func TestPartialLine(t *testing.T) {
	if r := mcp.Stdio(soon(t), bound(t, ""), strings.NewReader(withID(agreed, &rpc.Message{ID: 1})), io.Discard); r.Failure != adapter.FailUnavailable || r.Unsent {
		t.Errorf("%+v", r)
	}
}

// TestClosedInput: a server that reads nothing is judged by what it writes.
func TestClosedInput(t *testing.T) {
	for text, want := range map[string]string{"": adapter.FailUnavailable, "usage: server\n": adapter.FailOutput} {
		closed, out := io.Pipe()
		closed.Close()
		if r := mcp.Stdio(soon(t), bound(t, ""), strings.NewReader(text), out); r.Failure != want {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// TestDeadline: a silent server is a timeout over each transport, whether it reads or not.
func TestDeadline(t *testing.T) {
	silent := script{rpc.MethodToolsCall: func(s *server, _ *rpc.Message, say func(string)) {
		say(`{"jsonrpc":"2.0","method":"x"}`)
		select {
		case <-s.answers:
		case <-s.t.Context().Done():
		}
	}}
	late := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	check := func(name string, r adapter.Reply) {
		if !reflect.DeepEqual(r, adapter.Reply{Failure: adapter.FailTimeout}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	s := newServer(t, silent)
	in, out, stop := s.pipes()
	check("pipes", mcp.Stdio(late(), bound(t, ""), in, out))
	s.answers <- nil
	stop()
	deaf, out := io.Pipe()
	in, quiet := io.Pipe()
	check("a server that does not read", mcp.Stdio(late(), bound(t, ""), in, out))
	deaf.Close()
	quiet.Close()
	for _, events := range []bool{false, true} {
		s = newServer(t, silent)
		web := s.web(events)
		check("HTTP", mcp.HTTP(late(), bound(t, web.URL), web.Client().Do, nil))
		s.answers <- nil
	}
}

// TestServerThatStays: a server that does not end with its input still gives its answer.
func TestServerThatStays(t *testing.T) {
	in, toClient := io.Pipe()
	s := newServer(t, nil)
	from, out, stop := s.pipes()
	go io.Copy(toClient, from) // the end of the server is not passed on
	if r := mcp.Stdio(soon(t), bound(t, ""), in, out); string(r.Answer) != answer {
		t.Errorf("%+v", r)
	}
	in.Close()
	stop()
}

// TestHeaders: each request of a session carries the headers that it must, and the session is
// deleted in the end.
func TestHeaders(t *testing.T) {
	s := newServer(t, nil)
	behind := s.web(true)
	var seen []string
	do := func(r *http.Request) (*http.Response, error) {
		seen = append(seen, strings.Join([]string{r.Method, r.Header.Get("Authorization"), r.Header.Get("Mcp-Session-Id"), r.Header.Get("MCP-Protocol-Version"), r.Header.Get("Accept"), r.Header.Get("Content-Type")}, "|"))
		resp, err := behind.Client().Do(r)
		if len(seen) == 1 {
			resp.Header.Set("Mcp-Session-Id", "one")
		} else if err == nil {
			resp.Header.Set("Mcp-Session-Id", "two")
		}
		return resp, err
	}
	header := http.Header{"Authorization": {"Bearer x"}}
	if r := mcp.HTTP(soon(t), bound(t, behind.URL), do, header); string(r.Answer) != answer {
		t.Fatalf("%+v", r)
	}
	post := "|2025-11-25|application/json, text/event-stream|application/json"
	want := []string{
		"POST|Bearer x|||application/json, text/event-stream|application/json",
		"POST|Bearer x|one" + post, "POST|Bearer x|one" + post, "POST|Bearer x|one" + post, "DELETE|Bearer x|one|2025-11-25||",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the client sends\n%s", strings.Join(seen, "\n"))
	}
	if len(header) != 1 {
		t.Errorf("the given header became %v", header)
	}
}

// TestStatus: what a status, a type or a session of an answer means, at the first request and
// at a later one.
func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header [2]string
		want   adapter.Reply
	}{
		"not found":          {404, [2]string{}, adapter.Reply{Failure: adapter.FailClient, Code: 404}},
		"too many":           {429, [2]string{"Retry-After", "7"}, adapter.Reply{Failure: adapter.FailClient, Code: 429, RetryAfterMS: 7000}},
		"a date":             {503, [2]string{"Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}, adapter.Reply{Failure: adapter.FailServer, Code: 503}},
		"a wait without end": {503, [2]string{"Retry-After", "99999999999999999999"}, adapter.Reply{Failure: adapter.FailServer, Code: 503}},
		"a redirect":         {307, [2]string{"Location", "/other"}, adapter.Reply{Failure: adapter.FailOutput, Code: 307}},
		"accepted":           {202, [2]string{}, adapter.Reply{Failure: adapter.FailOutput}},
		"a page":             {200, [2]string{"Content-Type", "text/html"}, adapter.Reply{Failure: adapter.FailOutput}},
		"nothing":            {200, [2]string{"Content-Type", "application/json"}, adapter.Reply{Failure: adapter.FailOutput}},
	} {
		for _, method := range []string{rpc.MethodInitialize, rpc.MethodToolsCall} {
			s := newServer(t, nil)
			behind := s.web(false)
			do := func(r *http.Request) (*http.Response, error) {
				body, _ := r.GetBody()
				text, _ := io.ReadAll(body)
				if !strings.Contains(string(text), `"`+method+`"`) {
					return behind.Client().Do(r)
				}
				w := httptest.NewRecorder()
				if c.header[0] != "" {
					w.Header().Set(c.header[0], c.header[1])
				}
				w.WriteHeader(c.status)
				return w.Result(), nil
			}
			if r := mcp.HTTP(soon(t), bound(t, behind.URL), do, nil); !reflect.DeepEqual(r, c.want) {
				t.Errorf("%s at %s: %+v, want %+v", name, method, r, c.want)
			}
		}
	}
	for _, id := range []string{"a b", "é", strings.Repeat("x", 2000)} {
		s := newServer(t, nil)
		behind := s.web(false)
		do := func(r *http.Request) (*http.Response, error) {
			resp, err := behind.Client().Do(r)
			if err == nil {
				resp.Header.Set("Mcp-Session-Id", id)
			}
			return resp, err
		}
		if r := mcp.HTTP(soon(t), bound(t, behind.URL), do, nil); r.Failure != adapter.FailOutput {
			t.Errorf("session %.20q: %+v", id, r)
		}
	}
}

// TestNoConnection: only the first request may say that nothing was sent. A refusal of do is
// returned as it is.
func TestNoConnection(t *testing.T) {
	url := "http://" + rehearsal.Closed(t)
	if r := mcp.HTTP(soon(t), bound(t, url), http.DefaultClient.Do, nil); !reflect.DeepEqual(r, adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}) {
		t.Errorf("%+v", r)
	}
	behind := newServer(t, nil).web(true)
	n := 0
	do := func(r *http.Request) (*http.Response, error) {
		if n++; n > 2 {
			return nil, errors.New("broken")
		}
		return behind.Client().Do(r)
	}
	if r := mcp.HTTP(soon(t), bound(t, behind.URL), do, nil); !reflect.DeepEqual(r, adapter.Reply{Failure: adapter.FailUnavailable}) {
		t.Errorf("%+v", r)
	}
	refuse := func(*http.Request) (*http.Response, error) {
		return nil, &mcp.Failure{Reply: adapter.Reply{Failure: adapter.FailRefused}}
	}
	if r := mcp.HTTP(soon(t), bound(t, url), refuse, nil); r.Failure != adapter.FailRefused {
		t.Errorf("%+v", r)
	}
}

// TestBrokenAnswer: a connection that breaks in the middle of an answer is no answer.
func TestBrokenAnswer(t *testing.T) {
	for kind, text := range map[string]string{"application/json": agreed[:20], "text/event-stream": "data: " + agreed + "\n"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", "5000")
			io.WriteString(w, strings.Replace(text, "ID", "1", 1))
		}))
		if r := mcp.HTTP(soon(t), bound(t, web.URL), web.Client().Do, nil); r.Failure != adapter.FailUnavailable {
			t.Errorf("%s: %+v", kind, r)
		}
		web.Close()
	}
}

// TestPins: all tools of all pages, sorted by name, over each transport. A name that is shown
// twice has no one digest.
func TestPins(t *testing.T) {
	list := script{rpc.MethodToolsList: pages(page(`"1"`, otherTool), page(`"2"`, echoTool), page("null", `{"name":"A","inputSchema":{}}`))}
	in, out, stop := newServer(t, list).pipes()
	defer stop()
	web := newServer(t, list).web(false)
	for _, l := range []mcp.Link{mcp.Pipes(in, out), mcp.Web(web.URL, web.Client().Do, nil)} {
		got, err := mcp.Pins(soon(t), l)
		if err != nil || len(got) != 3 || got[0].Name != "A" || got[1].Name != "echo" || got[2].Name != "other" || got[1].SHA256 != bound(t, "").Adapter.Server.Tools["echo"] {
			t.Errorf("%v, %v", got, err)
		}
	}
	for name, bad := range map[string]script{
		"twice":  {rpc.MethodToolsList: pages(page(`"1"`, echoTool), page("null", echoTool))},
		"a loop": {rpc.MethodToolsList: says(page(`"1"`))},
		"noise":  {rpc.MethodInitialize: says("x")},
	} {
		in, out, stop := newServer(t, bad).pipes()
		list, err := mcp.Pins(soon(t), mcp.Pipes(in, out))
		if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Failure != adapter.FailOutput || f.Why == "" {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		stop()
	}
}

// TestLongestMessage: the limit of a message holds to the byte, over each transport.
func TestLongestMessage(t *testing.T) {
	for more, want := range map[int]string{0: "", 1: adapter.FailOutput} {
		part := func(_ *server, m *rpc.Message, say func(string)) {
			text := withID(called, m)
			say(strings.Replace(text, "hello", strings.Repeat("x", rpc.MaxMessageBytes+more-len(text)+len("hello")), 1))
		}
		s := script{rpc.MethodToolsCall: part}
		for _, r := range []adapter.Reply{byPipes(t, newServer(t, s)), byWeb(t, newServer(t, s), false), byWeb(t, newServer(t, s), true)} {
			if r.Failure != want || len(r.Answer) < rpc.MaxMessageBytes/2 && want == "" {
				t.Errorf("%d bytes more than the limit: %s, and an answer of %d bytes", more, r.Failure, len(r.Answer))
			}
		}
	}
}

// TestGoroutinesEnd: when the caller has closed the pipes, nothing of a conversation is left,
// whether it ended by its answer, by the deadline in the middle of a message, or by a fault
// with more behind it. A goroutine that stays fails the test of its bubble.
func TestGoroutinesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		script
		want string
	}{
		"an answer":  {nil, ""},
		"silence":    {script{rpc.MethodToolsCall: says()}, adapter.FailTimeout},
		"noise":      {script{rpc.MethodToolsCall: says("x", "y", "z")}, adapter.FailOutput},
		"half a day": {script{rpc.MethodToolsCall: func(s *server, _ *rpc.Message, _ func(string)) { time.Sleep(12 * time.Hour) }}, adapter.FailTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if r := byPipes(t, newServer(t, c.script)); r.Failure != c.want {
					t.Errorf("%+v", r)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		in, quiet := io.Pipe()
		deaf, out := io.Pipe()
		if r := mcp.Stdio(soon(t), bound(t, ""), in, out); r.Failure != adapter.FailTimeout {
			t.Errorf("%+v", r)
		}
		deaf.Close()
		quiet.Close()
	})
}
