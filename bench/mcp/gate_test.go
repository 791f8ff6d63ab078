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

// between starts a server, behind a gate or without one, and returns the streams of its client
// with the transcript of what passes. All ends with the test, after the client.
func between(t *testing.T, o *gate.Options, command ...string) (in io.ReadCloser, out io.WriteCloser, said *transcript) {
	t.Helper()
	said = &transcript{}
	fromClient, out := io.Pipe()
	answers, toClient := io.Pipe()
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
		cmd.Stdin, cmd.Stdout, cmd.WaitDelay = said.tap("client", fromClient), toClient, time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(done)
			_ = cmd.Wait()
			toClient.Close()
		}()
	}
	t.Cleanup(func() {
		out.Close()
		cancel()
		answers.Close()
		<-done
	})
	return said.tap("server", answers), out, said
}

// allow allows every call.
func allow(context.Context, gate.Call) gate.Answer { return gate.Answer{Allowed: true} }

// hold has one conversation, and returns its transcript. A step ends when nothing was said for a
// time.
func hold(t *testing.T, o *gate.Options, silence time.Duration, connect client, asked bool, steps []step, command ...string) [][]string {
	t.Helper()
	in, out, said := between(t, o, command...)
	take := connect(t, asked, in, out)
	said.quiet(t, max(silence, time.Second))
	for _, s := range steps {
		take(s)
		if s.Cancelled {
			time.Sleep(3 * time.Second) // the server goes on by itself
		}
		said.quiet(t, silence)
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	return said.steps
}

// TestGateIsTransparent: where the gate allows every call, the clients of the official SDKs and the
// reference servers say the same, message by message, with and without the gate.
func TestGateIsTransparent(t *testing.T) {
	const common = "roots/list notifications/progress notifications/cancelled notifications/message structuredContent demo://resource prompts/get completion/complete resources/subscribe logging/setLevel tools/list_changed isError"
	for _, tc := range []struct {
		name    string
		command []string
		relay   bool
		said    string // what the conversation is about
	}{
		{"everything", []string{"mcp-server-everything", "stdio"}, false, common},
		{"everything, with sampling and elicitation", []string{"mcp-server-everything", "stdio"}, true, common + " sampled decline sampling/createMessage elicitation/create"},
		{"filesystem", []string{"mcp-server-filesystem"}, false, "roots/list write_file structuredContent isError"},
	} {
		for language, connect := range clients {
			t.Run(language+", "+tc.name, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(tc.command[0]); err != nil {
					t.Skip(tc.command[0] + " is not in PATH; npm installs it from @modelcontextprotocol/" + strings.TrimPrefix(tc.command[0], "mcp-"))
				}
				command, steps := tc.command, everything(tc.relay)
				dir := t.TempDir()
				if command[0] == "mcp-server-filesystem" {
					command, steps = append(command, dir), files(dir)
				}
				var said [2][][]string
				// On a machine that stalls, a server is silent for longer within a step. Then the
				// same messages are in other steps, or one is missing at the end of one conversation.
				spare := 1
				for silence := 300 * time.Millisecond; silence < 5*time.Second; silence *= 2 {
					for i, o := range []*gate.Options{nil, {Decide: allow, RelayRequests: tc.relay}} {
						if err := os.RemoveAll(filepath.Join(dir, "c.txt")); err != nil {
							t.Fatal(err)
						}
						said[i] = hold(t, o, silence, connect, tc.relay, steps, command...)
					}
					if slices.EqualFunc(said[0], said[1], slices.Equal) {
						break
					}
					if !slices.Equal(messages(said[0]), messages(said[1])) {
						if spare == 0 {
							break
						}
						spare--
					}
				}
				alike(t, said[0], said[1])
				all := strings.Join(slices.Concat(said[1]...), "\n")
				for text := range strings.FieldsSeq(tc.said) {
					if !strings.Contains(all, text) {
						t.Errorf("nobody says %s", text)
					}
				}
			})
		}
	}
}

// messages are those of all steps, sorted.
func messages(steps [][]string) []string {
	return slices.Sorted(slices.Values(slices.Concat(steps...)))
}

// alike checks that two transcripts are equal, step by step.
func alike(t *testing.T, without, with [][]string) {
	t.Helper()
	for i := range without {
		for _, line := range without[i] {
			if !slices.Contains(with[i], line) {
				t.Errorf("step %d: without the gate alone: %.1000s", i, line)
			}
		}
		for _, line := range with[i] {
			if !slices.Contains(without[i], line) {
				t.Errorf("step %d: with the gate alone: %.1000s", i, line)
			}
		}
		if !t.Failed() && !slices.Equal(with[i], without[i]) {
			t.Errorf("step %d: %q and %q", i, without[i], with[i])
		}
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
