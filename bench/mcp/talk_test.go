//lint:file-ignore SA1019 servers ask for roots and samples until the protocol no longer has them

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// step is one request of a client.
type step struct {
	Method    string         `json:"method"`
	Params    map[string]any `json:"params,omitempty"`
	Cancelled bool           `json:"cancelled,omitempty"` // after the first progress
}

func tool(name string, arguments map[string]any) step {
	return step{Method: "tools/call", Params: map[string]any{"name": name, "arguments": arguments}}
}

// long is a call whose progress the client wants to know.
func long(token string, seconds, steps int, cancelled bool) step {
	s := tool("trigger-long-running-operation", map[string]any{"duration": seconds, "steps": steps})
	s.Params["_meta"], s.Cancelled = map[string]any{"progressToken": token}, cancelled
	return s
}

// everything is a conversation with the reference server of that name. asks says that the server
// may ask the client: it has more tools then.
func everything(asks bool) []step {
	var more []step
	if asks {
		more = []step{
			tool("trigger-sampling-request", map[string]any{"prompt": "p", "maxTokens": 9}),
			tool("trigger-elicitation-request", map[string]any{}),
		}
	}
	const dynamic = "demo://resource/dynamic/text/1"
	return append(more,
		step{Method: "tools/list"},
		step{Method: "resources/list"},
		step{Method: "resources/templates/list"},
		step{Method: "prompts/list"},
		step{Method: "ping"},
		step{Method: "logging/setLevel", Params: map[string]any{"level": "debug"}},
		tool("echo", map[string]any{"message": "é < \u2028 & 1"}),
		tool("echo", map[string]any{"message": 1}),
		tool("get-sum", map[string]any{"a": 1.5, "b": 1e21}),
		tool("get-structured-content", map[string]any{"location": "Chicago"}),
		tool("get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}),
		tool("get-resource-links", map[string]any{"count": 2}),
		tool("get-tiny-image", map[string]any{}),
		tool("get-roots-list", map[string]any{}),
		step{Method: "resources/read", Params: map[string]any{"uri": "demo://resource/static/document/features.md"}},
		step{Method: "resources/read", Params: map[string]any{"uri": "demo://nothing"}},
		step{Method: "resources/subscribe", Params: map[string]any{"uri": dynamic}},
		step{Method: "resources/unsubscribe", Params: map[string]any{"uri": dynamic}},
		step{Method: "prompts/get", Params: map[string]any{"name": "args-prompt", "arguments": map[string]any{"city": "Ulm"}}},
		step{Method: "completion/complete", Params: map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "completable-prompt"},
			"argument": map[string]any{"name": "department", "value": "E"}}},
		long("token", 1, 4, false),
		long("cancelled", 4, 2, true),
	)
}

// files is a conversation with the reference server filesystem about a folder.
func files(dir string) []step {
	at := func(name string) string { return filepath.Join(dir, name) }
	return []step{
		{Method: "tools/list"},
		tool("list_allowed_directories", map[string]any{}),
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

// client connects to a server over a pair of streams, and returns a function that makes a step
// and waits for its end. asked says that it answers what a server may ask, and not the question
// for roots alone. An error of the server is an answer like any other.
type client func(t *testing.T, asked bool, in io.ReadCloser, out io.WriteCloser) (take func(step))

// clients are the clients of the two official SDKs.
var clients = map[string]client{"Go": inGo, "TypeScript": inTypeScript}

func inGo(t *testing.T, asked bool, in io.ReadCloser, out io.WriteCloser) func(step) {
	progress := make(chan bool, 100)
	session, err := asking(asked, progress).Connect(soon(t), &sdk.IOTransport{Reader: in, Writer: out}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return func(s step) {
		for len(progress) > 0 {
			<-progress
		}
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		if s.Cancelled {
			go func() {
				select {
				case <-progress:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		params, err := json.Marshal(s.Params)
		if err == nil {
			err = methods[s.Method](ctx, session, params)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

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

// method makes a request with params. Its error says that they do not fit.
type method func(ctx context.Context, c *sdk.ClientSession, params []byte) error

// methods are the requests of the Go SDK's client.
var methods = map[string]method{
	"completion/complete":      answers((*sdk.ClientSession).Complete),
	"logging/setLevel":         ends((*sdk.ClientSession).SetLoggingLevel),
	"ping":                     ends((*sdk.ClientSession).Ping),
	"prompts/get":              answers((*sdk.ClientSession).GetPrompt),
	"prompts/list":             answers((*sdk.ClientSession).ListPrompts),
	"resources/list":           answers((*sdk.ClientSession).ListResources),
	"resources/read":           answers((*sdk.ClientSession).ReadResource),
	"resources/subscribe":      ends((*sdk.ClientSession).Subscribe),
	"resources/templates/list": answers((*sdk.ClientSession).ListResourceTemplates),
	"resources/unsubscribe":    ends((*sdk.ClientSession).Unsubscribe),
	"tools/call":               answers((*sdk.ClientSession).CallTool),
	"tools/list":               answers((*sdk.ClientSession).ListTools),
}

// ends returns the method of a request whose answer is empty.
func ends[P any](request func(*sdk.ClientSession, context.Context, *P) error) method {
	return func(ctx context.Context, c *sdk.ClientSession, params []byte) error {
		p := new(P)
		if err := json.Unmarshal(params, p); err != nil {
			return err
		}
		_ = request(c, ctx, p)
		return nil
	}
}

func answers[P, R any](request func(*sdk.ClientSession, context.Context, *P) (R, error)) method {
	return ends(func(c *sdk.ClientSession, ctx context.Context, p *P) error {
		_, err := request(c, ctx, p)
		return err
	})
}

// inTypeScript starts testdata/client.mjs. The SDK is the one that the reference servers depend on.
func inTypeScript(t *testing.T, asked bool, in io.ReadCloser, out io.WriteCloser) func(step) {
	server, err := exec.LookPath("mcp-server-everything")
	if err == nil {
		server, err = filepath.EvalSymlinks(server)
	}
	if err != nil {
		t.Skip("the TypeScript SDK is looked for beside mcp-server-everything: " + err.Error())
	}
	asks := "roots"
	if asked {
		asks = "all"
	}
	cmd := exec.CommandContext(t.Context(), "node", "testdata/client.mjs", server, asks)
	steps, toClient, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromClient, done, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = in, out, t.Output(), []*os.File{steps, done}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	steps.Close()
	done.Close()
	t.Cleanup(func() {
		toClient.Close()
		out.Close()
		in.Close()
		fromClient.Close()
		_ = cmd.Wait()
	})
	said := bufio.NewReader(fromClient)
	wait := func() {
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatalf("the client in TypeScript has ended: %v", err)
		}
	}
	wait()
	return func(s step) {
		if err := json.NewEncoder(toClient).Encode(s); err != nil {
			t.Fatal(err)
		}
		wait()
	}
}
