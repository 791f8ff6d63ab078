package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

type sum struct {
	A int `json:"a"`
	B int `json:"b" jsonschema:"the second number"`
}

type total struct {
	Total int `json:"total"`
}

// newServer returns a server of the SDK with five tools, and pages of two.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "adds <two> numbers & tells", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, Title: "Add"}},
		func(_ context.Context, _ *sdk.CallToolRequest, in sum) (*sdk.CallToolResult, total, error) {
			return nil, total{in.A + in.B}, nil
		})
	object := json.RawMessage(`{"type":"object"}`)
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	s.AddTool(&sdk.Tool{Name: "fails", InputSchema: object}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("it failed")
		r.IsError = true
		return r, nil
	})
	s.AddTool(&sdk.Tool{Name: "pings", InputSchema: object}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if err := r.Session.Ping(ctx, nil); err != nil {
			return nil, err
		}
		return text("the client answers"), nil
	})
	s.AddTool(&sdk.Tool{Name: "tells", InputSchema: object}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "p", Progress: 1})
		return text("é < ü"), err
	})
	s.AddTool(&sdk.Tool{Name: "zzz", InputSchema: object}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("last"), nil })
	return s
}

// transport opens a link to a server, for one conversation.
type transport func(t *testing.T, s *sdk.Server) link

// link is one conversation with a server: Pins, or one call.
type link struct {
	pins func() ([]rpc.Tool, error)
	call func(*adapter.Bound) adapter.Reply
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func overPipes(t *testing.T, s *sdk.Server) link {
	in, toClient := io.Pipe()
	fromClient, out := io.Pipe()
	go s.Run(soon(t), &sdk.IOTransport{Reader: fromClient, Writer: toClient})
	t.Cleanup(func() { in.Close(); out.Close() })
	return link{
		pins: func() ([]rpc.Tool, error) { return mcp.Pins(soon(t), mcp.Pipes(in, out)) },
		call: func(b *adapter.Bound) adapter.Reply { return mcp.Stdio(soon(t), b, in, out) },
	}
}

func overHTTP(o sdk.StreamableHTTPOptions) transport {
	return func(t *testing.T, s *sdk.Server) link {
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &o))
		t.Cleanup(web.Close)
		return link{
			pins: func() ([]rpc.Tool, error) { return mcp.Pins(soon(t), mcp.Web(web.URL, web.Client().Do, nil)) },
			call: func(b *adapter.Bound) adapter.Reply {
				b.Adapter.Server.URL = web.URL
				return mcp.HTTP(soon(t), b, web.Client().Do, nil)
			},
		}
	}
}

var transports = map[string]transport{
	"pipes":                overPipes,
	"events":               overHTTP(sdk.StreamableHTTPOptions{}),
	"JSON":                 overHTTP(sdk.StreamableHTTPOptions{JSONResponse: true}),
	"events, no sessions":  overHTTP(sdk.StreamableHTTPOptions{Stateless: true}),
	"JSON, no sessions":    overHTTP(sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}),
	"events, and the past": overHTTP(sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}),
}

// bound returns a call of a tool that is pinned to what the server says about it at pinning.
func bound(tools []rpc.Tool, name string, arguments map[string]any) *adapter.Bound {
	s := &adapter.Server{Tools: map[string]canon.ContentHash{}}
	for _, t := range tools {
		s.Tools[t.Name] = t.SHA256
	}
	return &adapter.Bound{Adapter: &adapter.Adapter{Type: adapter.MCP, Server: s}, MCPTool: name, Arguments: arguments}
}

// session returns a session of the SDK's own client.
func session(t *testing.T, s *sdk.Server) *sdk.ClientSession {
	t.Helper()
	a, b := sdk.NewInMemoryTransports()
	if _, err := s.Connect(soon(t), a, nil); err != nil {
		t.Fatal(err)
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(soon(t), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// decoded returns a value of the SDK as its JSON says it.
func decoded(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(text, rpc.MaxMessageBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value().(map[string]any)
}

// TestPins: over each transport, all pages give the digests of what the SDK's own client reads.
func TestPins(t *testing.T) {
	var want []rpc.Tool
	for tool, err := range session(t, newServer()).Tools(soon(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		hash, err := rpc.ToolDigest(decoded(t, tool))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, rpc.Tool{Name: tool.Name, SHA256: hash})
	}
	slices.SortFunc(want, func(a, b rpc.Tool) int { return strings.Compare(a.Name, b.Name) })
	if len(want) != 5 {
		t.Fatalf("the SDK lists %v", want)
	}
	for name, open := range transports {
		if got, err := open(t, newServer()).pins(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}

// TestCalls: over each transport, a call gives what the SDK's own client reads, without _meta.
func TestCalls(t *testing.T) {
	own := session(t, newServer())
	for name, open := range transports {
		tools, err := open(t, newServer()).pins()
		if err != nil {
			t.Fatal(err)
		}
		for tool, arguments := range map[string]map[string]any{
			"add": {"a": 2, "b": 3}, "fails": {}, "tells": {}, "zzz": {}, "pings": {},
		} {
			if strings.Contains(name, "JSON") && (tool == "pings" || tool == "tells") || strings.Contains(name, "no sessions") && tool == "pings" {
				continue // the SDK's server sends nothing else in a JSON answer, and without a session it does not ask
			}
			r, err := own.CallTool(soon(t), &sdk.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			said := decoded(t, r)
			delete(said, "resultType") // of version 2026-07-28, which the SDK's client speaks
			want, failed, err := rpc.ReadCall(said)
			if err != nil {
				t.Fatal(err)
			}
			got := open(t, newServer()).call(bound(tools, tool, arguments))
			if failed != (tool == "fails") {
				t.Fatalf("the SDK's client reads %s", want)
			}
			if failed && got.Failure != adapter.FailTool || !failed && string(got.Answer) != string(want) {
				t.Errorf("%s, %s: %s %d %s, want %s", name, tool, got.Failure, got.Code, got.Answer, want)
			}
		}
		got := open(t, newServer()).call(bound(tools, "add", map[string]any{"a": "x"}))
		if got.Failure != adapter.FailTool {
			t.Errorf("%s: wrong arguments: %s %d %s", name, got.Failure, got.Code, got.Answer)
		}
	}
}

// TestChangedTool: a server that changes or removes a tool after the pin is refused.
func TestChangedTool(t *testing.T) {
	for name, open := range transports {
		s := newServer()
		tools, err := open(t, s).pins()
		if err != nil {
			t.Fatal(err)
		}
		called := false
		s.AddTool(&sdk.Tool{Name: "zzz", Description: "now with a description", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				called = true
				return &sdk.CallToolResult{}, nil
			})
		if r := open(t, s).call(bound(tools, "zzz", map[string]any{})); r.Failure != adapter.FailRefused {
			t.Errorf("%s, changed: %+v", name, r)
		}
		s.RemoveTools("zzz")
		if r := open(t, s).call(bound(tools, "zzz", map[string]any{})); r.Failure != adapter.FailRefused || called {
			t.Errorf("%s, removed: %+v, called %v", name, r, called)
		}
	}
}
