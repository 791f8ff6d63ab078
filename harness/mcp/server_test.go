package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// aPart is the part of a scripted server that answers a request of one method: say writes one
// message, in which ID stands for the id of the request.
type aPart func(s *server, m *rpc.Message, say func(string))

// script has the parts of a server that are other than those of good.
type script map[string]aPart

const (
	echoTool = `{"name":"echo","description":"says it again","inputSchema":{"type":"object"}}`
	agreed   = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	listed   = `{"jsonrpc":"2.0","id":ID,"result":{"tools":[` + echoTool + `]}}`
	called   = `{"jsonrpc":"2.0","id":ID,"result":{"_meta":{"a":1},"content":[{"type":"text","text":"hello"}]}}`
	answer   = `{"content":[{"text":"hello","type":"text"}]}`
)

var good = script{rpc.MethodInitialize: says(agreed), rpc.MethodToolsList: says(listed), rpc.MethodToolsCall: says(called)}

// says returns a part that writes messages.
func says(messages ...string) aPart {
	return func(_ *server, _ *rpc.Message, say func(string)) {
		for _, m := range messages {
			say(m)
		}
	}
}

// server plays a script, and keeps what the client says.
type server struct {
	script  script
	t       *testing.T
	answers chan *rpc.Message // of the client

	mu   sync.Mutex
	said []string
	exit func()
}

func newServer(t *testing.T, s script) *server {
	return &server{script: s, t: t, answers: make(chan *rpc.Message, 2*mcp.MaxMessages), exit: func() {}}
}

// hear reads a message of the client, and returns the part that answers it.
func (s *server) hear(text []byte) (*rpc.Message, aPart) {
	m, err := rpc.Read(text)
	if err != nil {
		s.t.Errorf("the client says %q: %v", text, err)
		return nil, nil
	}
	s.mu.Lock()
	s.said = append(s.said, string(text))
	s.mu.Unlock()
	switch {
	case m.Kind == rpc.Response || m.Kind == rpc.Failure:
		s.answers <- m
	case m.Kind == rpc.Request && s.script[m.Method] != nil:
		return m, s.script[m.Method]
	case m.Kind == rpc.Request:
		return m, good[m.Method]
	}
	return m, nil
}

func withID(text string, m *rpc.Message) string {
	return strings.Replace(text, "ID", fmt.Sprint(m.ID), 1)
}

// pipes starts the server behind pipes, as a process that ends when its input does. stop
// closes the pipes, and waits for the server.
func (s *server) pipes() (in io.Reader, out io.WriteCloser, stop func()) {
	in, toClient := io.Pipe()
	fromClient, out := io.Pipe()
	s.exit = func() { toClient.Close() }
	var all, parts sync.WaitGroup
	all.Go(func() {
		r := bufio.NewReader(fromClient)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				break
			}
			if m, part := s.hear(line[:len(line)-1]); part != nil {
				parts.Go(func() { part(s, m, func(text string) { io.WriteString(toClient, withID(text, m)+"\n") }) })
			}
		}
		parts.Wait()
		toClient.Close()
	})
	return in, out, func() {
		fromClient.Close()
		in.(io.Closer).Close()
		out.Close()
		toClient.Close()
		all.Wait()
	}
}

// web starts the server behind HTTP. With events, its answers are streams of events; otherwise
// an answer is the first message.
func (s *server) web(events bool) *httptest.Server {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		m, part := s.hear(body)
		switch {
		case part == nil:
			w.WriteHeader(http.StatusAccepted)
		case events:
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, ": hello\r\nid: 1\r\ndata:\r\n\r\nevent: other\ndata: noise\n\n")
			part(s, m, func(text string) {
				io.WriteString(w, "event: message\ndata: "+withID(text, m)+"\n\n")
				w.(http.Flusher).Flush()
			})
		default:
			w.Header().Set("Content-Type", "application/json")
			var all bytes.Buffer
			part(s, m, func(text string) {
				if all.Len() == 0 {
					all.WriteString(withID(text, m))
				}
			})
			w.Write(all.Bytes())
		}
	}))
	s.t.Cleanup(web.Close)
	return web
}

// bound returns a call of the tool echo, which is pinned to what a server says about it.
func bound(t *testing.T, url string) *adapter.Bound {
	t.Helper()
	doc, err := canon.Parse([]byte(echoTool), 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := rpc.ToolDigest(doc.Value().(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	s := &adapter.Server{URL: url, Tools: map[string]canon.ContentHash{"echo": pin}}
	return &adapter.Bound{Adapter: &adapter.Adapter{Type: adapter.MCP, Server: s}, MCPTool: "echo", Arguments: map[string]any{"text": "hello"}}
}

// soon is a deadline that only a fault reaches.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// byPipes makes the call behind pipes.
func byPipes(t *testing.T, s *server) adapter.Reply {
	in, out, stop := s.pipes()
	defer stop()
	return mcp.Stdio(soon(t), bound(t, ""), in, out)
}

// byWeb makes the call behind HTTP.
func byWeb(t *testing.T, s *server, events bool) adapter.Reply {
	web := s.web(events)
	return mcp.HTTP(soon(t), bound(t, web.URL), web.Client().Do, nil)
}
