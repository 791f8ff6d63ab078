package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fiador/fiador/harness/gate"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// transcript has what a client sends and receives, in steps. The messages of a step are sorted:
// messages without an order overtake each other, with and without a gate.
type transcript struct {
	mu    sync.Mutex
	last  time.Time
	step  []string
	steps [][]string
}

// tap hands on the lines of from, and keeps each in its canonical form.
func (s *transcript) tap(side string, from io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				w.CloseWithError(err)
				return
			}
			text := string(line)
			if doc, err := canon.Parse(line, rpc.MaxMessageBytes); err == nil {
				text = string(doc.Bytes())
			}
			s.mu.Lock()
			s.step, s.last = append(s.step, side+" "+text), time.Now()
			s.mu.Unlock()
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}()
	return r
}

// quiet waits until nothing was said for some time, and begins a new step.
func (s *transcript) quiet(t *testing.T, whole time.Duration) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for time.Sleep(whole); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		if time.Since(s.last) > whole {
			slices.Sort(s.step)
			s.steps, s.step = append(s.steps, s.step), nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
	t.Fatal("the server does not stop to talk")
}

// dial connects a client of the SDK to a server, through a gate or without one.
func dial(t *testing.T, o *gate.Options, client *sdk.Client, command ...string) (*sdk.ClientSession, *transcript) {
	t.Helper()
	said := &transcript{}
	fromClient, out := io.Pipe()
	in, toClient := io.Pipe()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	if o != nil {
		o.Server = "peer"
		go func() {
			defer close(done)
			if _, err := gate.Stdio(ctx, *o, said.tap("client", fromClient), toClient, command); err != nil {
				t.Error(err)
			}
			toClient.Close()
		}()
	} else {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		server, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		answers, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(done)
			go func() {
				_, _ = io.Copy(server, said.tap("client", fromClient))
				server.Close()
			}()
			_, _ = io.Copy(toClient, answers)
			toClient.Close()
			_ = cmd.Wait()
		}()
	}
	session, err := client.Connect(soon(t), &sdk.IOTransport{Reader: said.tap("server", in), Writer: out}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		cancel()
		in.Close()
		<-done
	})
	return session, said
}

// allow allows every call.
func allow(context.Context, gate.Call) gate.Answer { return gate.Answer{Allowed: true} }

// asking returns a client that answers what a server asks, or that has roots alone.
func asking(all bool, progress chan<- bool) *sdk.Client {
	o := &sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) {
		select {
		case progress <- true:
		default:
		}
	}}
	if all {
		o.CreateMessageHandler = func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Content: &sdk.TextContent{Text: "sampled"}, Model: "m", Role: "assistant"}, nil
		}
		o.ElicitationHandler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "decline"}, nil
		}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, o)
	c.AddRoots(&sdk.Root{URI: "file:///a", Name: "a"})
	return c
}

// talk is one conversation with a server: each step is a function. An error of the server is a
// message like any other.
type talk []func(ctx context.Context, c *sdk.ClientSession)

func tool(name string, arguments map[string]any) func(context.Context, *sdk.ClientSession) {
	return func(ctx context.Context, c *sdk.ClientSession) {
		p := &sdk.CallToolParams{Name: name}
		if arguments != nil {
			p.Arguments = arguments
		}
		_, _ = c.CallTool(ctx, p)
	}
}

// everything is a conversation with the reference server of that name. asks says that the server
// may ask the client: it has more tools then.
func everything(asks bool, progress <-chan bool) talk {
	var more talk
	if asks {
		more = talk{
			tool("trigger-sampling-request", map[string]any{"prompt": "p", "maxTokens": 9}),
			tool("trigger-elicitation-request", nil),
		}
	}
	return append(more,
		func(ctx context.Context, c *sdk.ClientSession) { _, _ = c.ListTools(ctx, nil) },
		func(ctx context.Context, c *sdk.ClientSession) { _, _ = c.ListResources(ctx, nil) },
		func(ctx context.Context, c *sdk.ClientSession) { _, _ = c.ListResourceTemplates(ctx, nil) },
		func(ctx context.Context, c *sdk.ClientSession) { _, _ = c.ListPrompts(ctx, nil) },
		func(ctx context.Context, c *sdk.ClientSession) { _ = c.Ping(ctx, nil) },
		func(ctx context.Context, c *sdk.ClientSession) {
			_ = c.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "debug"})
		},
		tool("echo", map[string]any{"message": "é < \u2028 & 1"}),
		tool("echo", map[string]any{"message": 1}),
		tool("get-sum", map[string]any{"a": 1.5, "b": 1e21}),
		tool("get-structured-content", map[string]any{"location": "Chicago"}),
		tool("get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}),
		tool("get-resource-links", map[string]any{"count": 2}),
		tool("get-tiny-image", nil),
		tool("get-roots-list", nil),
		func(ctx context.Context, c *sdk.ClientSession) {
			_, _ = c.ReadResource(ctx, &sdk.ReadResourceParams{URI: "demo://resource/static/document/features.md"})
		},
		func(ctx context.Context, c *sdk.ClientSession) {
			_, _ = c.ReadResource(ctx, &sdk.ReadResourceParams{URI: "demo://nothing"})
		},
		func(ctx context.Context, c *sdk.ClientSession) {
			const uri = "demo://resource/dynamic/text/1"
			_ = c.Subscribe(ctx, &sdk.SubscribeParams{URI: uri})
			_ = c.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri})
		},
		func(ctx context.Context, c *sdk.ClientSession) {
			_, _ = c.GetPrompt(ctx, &sdk.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": "Ulm"}})
		},
		func(ctx context.Context, c *sdk.ClientSession) {
			_, _ = c.Complete(ctx, &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"},
				Argument: sdk.CompleteParamsArgument{Name: "department", Value: "E"}})
		},
		func(ctx context.Context, c *sdk.ClientSession) {
			p := &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 1, "steps": 4}}
			p.SetProgressToken("token")
			_, _ = c.CallTool(ctx, p)
		},
		func(ctx context.Context, c *sdk.ClientSession) { // cancelled after its first step
			for len(progress) > 0 {
				<-progress
			}
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				<-progress
				cancel()
			}()
			p := &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 4, "steps": 2}}
			p.SetProgressToken("cancelled")
			_, _ = c.CallTool(ctx, p)
			time.Sleep(3 * time.Second) // the server goes on by itself
		},
	)
}

// files is a conversation with the reference server filesystem about a folder.
func files(dir string) talk {
	at := func(name string) string { return filepath.Join(dir, name) }
	return talk{
		func(ctx context.Context, c *sdk.ClientSession) { _, _ = c.ListTools(ctx, nil) },
		tool("list_allowed_directories", nil),
		tool("write_file", map[string]any{"path": at("b.txt"), "content": "one\ntwo\n"}),
		tool("read_text_file", map[string]any{"path": at("b.txt"), "head": 1}),
		tool("edit_file", map[string]any{"path": at("b.txt"), "edits": []any{map[string]any{"oldText": "two", "newText": "three"}}}),
		tool("list_directory", map[string]any{"path": dir}),
		tool("move_file", map[string]any{"source": at("b.txt"), "destination": at("c.txt")}),
		tool("read_multiple_files", map[string]any{"paths": []any{at("c.txt"), at("nothing")}}),
		tool("directory_tree", map[string]any{"path": dir}),
		tool("read_text_file", map[string]any{"path": "/etc/hostname"}),
	}
}

// hold has one conversation, and returns its transcript.
func hold(t *testing.T, o *gate.Options, client *sdk.Client, steps talk, command ...string) [][]string {
	t.Helper()
	c, said := dial(t, o, client, command...)
	said.quiet(t, time.Second)
	for _, step := range steps {
		step(soon(t), c)
		said.quiet(t, 300*time.Millisecond)
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	return said.steps
}

// TestGateIsTransparent: where the gate allows every call, a client of the SDK and the reference
// servers say the same, message by message, with and without the gate.
func TestGateIsTransparent(t *testing.T) {
	const common = "roots/list notifications/progress notifications/cancelled notifications/message structuredContent demo://resource prompts/get completion/complete resources/subscribe logging/setLevel tools/list_changed isError"
	dir := t.TempDir()
	for _, tc := range []struct {
		name    string
		command []string
		relay   bool
		said    string // what the conversation is about
	}{
		{"everything", []string{"mcp-server-everything", "stdio"}, false, common},
		{"everything, with sampling and elicitation", []string{"mcp-server-everything", "stdio"}, true, common + " sampled decline sampling/createMessage elicitation/create"},
		{"filesystem", []string{"mcp-server-filesystem", dir}, false, "roots/list write_file structuredContent isError"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tc.command[0]); err != nil {
				t.Skip(tc.command[0] + " is not in PATH; npm installs it from @modelcontextprotocol/" + strings.TrimPrefix(tc.command[0], "mcp-"))
			}
			var said [2][][]string
			for i, o := range []*gate.Options{nil, {Decide: allow, RelayRequests: tc.relay}} {
				if err := os.RemoveAll(filepath.Join(dir, "c.txt")); err != nil {
					t.Fatal(err)
				}
				progress := make(chan bool, 100)
				steps := files(dir)
				if tc.command[0] == "mcp-server-everything" {
					steps = everything(tc.relay, progress)
				}
				said[i] = hold(t, o, asking(tc.relay, progress), steps, tc.command...)
			}
			for i, without := range said[0] {
				with := said[1][i]
				for _, line := range without {
					if !slices.Contains(with, line) {
						t.Errorf("step %d: without the gate alone: %.1000s", i, line)
					}
				}
				for _, line := range with {
					if !slices.Contains(without, line) {
						t.Errorf("step %d: with the gate alone: %.1000s", i, line)
					}
				}
				if !t.Failed() && !slices.Equal(with, without) {
					t.Errorf("step %d: %q and %q", i, without, with)
				}
			}
			all := strings.Join(slices.Concat(said[1]...), "\n")
			for text := range strings.FieldsSeq(tc.said) {
				if !strings.Contains(all, text) {
					t.Errorf("nobody says %s", text)
				}
			}
		})
	}
}

// TestGateOverHTTP: through the gate, a client of the SDK has the results that it has without it.
func TestGateOverHTTP(t *testing.T) {
	for name, o := range map[string]sdk.StreamableHTTPOptions{
		"events": {}, "JSON": {JSONResponse: true}, "no sessions": {Stateless: true}, "the past": {EventStore: sdk.NewMemoryEventStore(nil)},
	} {
		server := newServer()
		direct := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &o))
		t.Cleanup(direct.Close)
		h, err := gate.Handler(t.Context(), gate.Options{Server: "peer", Decide: allow, Log: t.Output()}, direct.URL)
		if err != nil {
			t.Fatal(err)
		}
		gated := httptest.NewServer(h)
		t.Cleanup(gated.Close)
		for _, version := range []string{"", "2025-11-25", "2025-06-18"} {
			var sessions [2]*sdk.ClientSession
			progress := make(chan bool, 10)
			for i, url := range []string{direct.URL, gated.URL} {
				options := &sdk.ClientSessionOptions{ProtocolVersion: version}
				if version == "" && i == 0 {
					options.ProtocolVersion = "2025-11-25" // the gate does not pass on what the newest version begins with
				}
				sessions[i], err = asking(false, progress).Connect(soon(t), &sdk.StreamableClientTransport{Endpoint: url}, options)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, version, err)
				}
			}
			for _, tool := range []string{"add", "fails", "tells", "pings", "zzz"} {
				if tool == "pings" && name != "events" && name != "the past" {
					continue // the SDK's server does not ask there
				}
				var said [2]string
				for i, c := range sessions {
					r, err := c.CallTool(soon(t), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"a": 1, "b": 2}})
					if err != nil {
						said[i] = "failed"
						continue
					}
					text, err := json.Marshal(r)
					if err != nil {
						t.Fatal(err)
					}
					said[i] = string(text)
				}
				if said[0] != said[1] || said[1] == "failed" {
					t.Errorf("%s, %s, %s: %s without the gate, %s with it", name, version, tool, said[0], said[1])
				}
			}
			var lists [2]string
			for i, c := range sessions {
				for tool, err := range c.Tools(soon(t), nil) {
					if err != nil {
						t.Fatal(err)
					}
					lists[i] += tool.Name + " "
				}
				_ = c.Close()
			}
			if lists[0] != lists[1] || lists[0] == "" {
				t.Errorf("%s: the tools are %q and %q", name, lists[0], lists[1])
			}
		}
	}
}
