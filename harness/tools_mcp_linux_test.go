//go:build linux && (amd64 || arm64)

package harness_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/ask"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/harness/toolio"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// shownTool is what the server of these tests says about its tool.
const shownTool = `{"name":"echo","description":"d","inputSchema":{"type":"object"}}`

// The messages of a server in the order of the conversation, as lines of the shell.
const (
	sayReady  = `read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'; read l; read l; `
	sayTools  = `echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[` + shownTool + `]}}'; read l; `
	sayAnswer = `echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"four"}]}}'; `
)

// mcpRegistry is a registry of the tool T, which a server answers that is this script.
func mcpRegistry(script, more string) map[string]string {
	pin, _, err := canonDigest(shownTool)
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"T/tool.json":    harnesstest.Tool(`"A"`),
		"T/A.json":       `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"mcp","interface":{"mcp":{"server":"s","transport":"stdio","tool_mapping":{"echo":"echo"}}}` + more + `}`,
		"servers/s.json": `{"command":["sh","-c",` + quoteJSON(script) + `],"tools":{"echo":"` + string(pin) + `"}}`,
	}
}

func canonDigest(text string) (canon.ContentHash, []byte, error) {
	doc, err := canon.Parse([]byte(text), len(text))
	if err != nil {
		return "", nil, err
	}
	b, hash, err := canon.Artifact(doc.Value())
	return hash, b, err
}

func quoteJSON(text string) string {
	b, err := canon.Canonical(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestServerCalls makes calls of MCP servers over their pipes. Every run is also packed and
// verified, and after each call the sandbox still works.
func TestServerCalls(t *testing.T) {
	const text = `,"transforms":{"output":[{"type":"parse","spec":"json"},{"type":"extract","spec":"$.content[0].text"}]}`
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, script, more string
				answer             string // empty: none
				reasons            []string
				code               int
				failure            string
			}{
				{name: "answer", script: sayReady + sayTools + sayAnswer, more: text, answer: "\"four\"\n"},
				{name: "it ends with a code", script: sayReady + sayTools + sayAnswer + "exit 9", more: text, answer: "\"four\"\n"},
				{name: "it does not end", script: sayReady + sayTools + sayAnswer + "trap '' TERM; while :; do sleep 1; done", more: text, answer: "\"four\"\n"},
				{name: "a child does not end", script: sayReady + sayTools + "(trap '' TERM; sleep 100) & " + sayAnswer, more: text, answer: "\"four\"\n"},
				{name: "a flood of its log", script: "head -c 3000000 /dev/full >&2; " + sayReady + sayTools + sayAnswer, more: text, reasons: []string{"CALL_OUTPUT /actions/1", "STREAM_LIMIT /actions/1"}, code: 125, failure: "invalid_output"},
				{name: "tool error", script: sayReady + sayTools + strings.Replace(sayAnswer, `"content"`, `"isError":true,"content"`, 1), reasons: []string{"CALL_FAILED /actions/1"}, code: 125, failure: "tool_error"},
				{name: "another tool", script: sayReady + strings.Replace(sayTools, `"d"`, `"e"`, 1) + sayAnswer, reasons: []string{"CALL_REFUSED /actions/1"}, code: 125, failure: "refused"},
				{name: "noise", script: "echo hello; " + sayReady + sayTools + sayAnswer, reasons: []string{"CALL_OUTPUT /actions/1"}, code: 125, failure: "invalid_output"},
				{name: "it ends in the call", script: sayReady + sayTools + "exit 3", reasons: []string{"EXIT 3"}, code: 3, failure: "unavailable"},
				{name: "it ends well in the call", script: sayReady + sayTools + "exit 0", reasons: []string{"CALL_FAILED /actions/1"}, code: 125, failure: "unavailable"},
				{name: "no such command", script: "", more: "", reasons: []string{"NOT_FOUND"}, code: 127, failure: "unavailable"},
				{name: "timeout", script: sayReady + "sleep 100", more: `,"sandbox_override":{"timeout_ms":1000}`, reasons: []string{"TIMEOUT"}, code: 143, failure: "timeout"},
			} {
				t.Run(tc.name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, nil)
					files := mcpRegistry(tc.script, tc.more)
					if tc.script == "" {
						files["servers/s.json"] = strings.Replace(files["servers/s.json"], `["sh","-c",""]`, `["absent-program"]`, 1)
					}
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, files))
					call := `{"kind":"call","tool_id":"T","params":{"message":"two and two"}}`
					rep := x.Run(t, intents.Actions(intents.Sh("mkdir out"), call, intents.Sh("cat calls/002.response.json")), harness.Folders{})
					d, e := rep.Result.Decision, rep.Execution
					if e == nil || !slices.Equal(d.Reasons, append([]string{}, tc.reasons...)) || rep.Result.Execution.ExitCode != tc.code {
						t.Fatalf("%s", rep.Bytes)
					}
					if len(e.Attempts) != 1 || e.Attempts[0].Failure != tc.failure {
						t.Errorf("attempts %+v", e.Attempts)
					}
					if got := string(e.Stdout.Bytes); tc.answer != "" && got != tc.answer {
						t.Errorf("the answer is %q", got)
					}
					if (len(e.Calls) == 1) != (tc.answer != "") {
						t.Errorf("calls %+v", e.Calls)
					}
					if ev, err := harnesstest.Packed(t, rep).Evidence(); err != nil || (ev.Status == pack.StatusComplete) != (tc.answer != "") {
						t.Errorf("evidence %+v (%v)", ev, err)
					}
				})
			}
		})
	}
}

// webServer is an MCP server over HTTP with the tool of these tests. It wants a key.
func webServer(t *testing.T, key string, shown *string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments json.RawMessage }
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		said := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list": `{"tools":[` + *shown + `]}`,
			"tools/call": `{"content":[{"type":"text","text":` + strconv.Quote(string(m.Params.Arguments)) + `}]}`,
		}[m.Method]
		if said == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, said)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestServerOverHTTP: a call of a server over HTTP is recorded, and answered without the
// server. A server that says something else about its tool does not get the call.
func TestServerOverHTTP(t *testing.T) {
	const key = "key of the server"
	shown := shownTool
	s := webServer(t, key, &shown)
	host := fmt.Sprintf("localhost:%d", s.Listener.Addr().(*net.TCPAddr).Port)
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, harnesstest.Tiers[0]), func(p *kernel.Profile) {
		p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{Names: []string{"private:" + host}}
		p.ModelModes = []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}
	})
	files := mcpRegistry("", `,"sandbox_override":{"network":{"enabled":true,"allow":["private:`+host+`"]}}`)
	files["T/A.json"] = strings.Replace(files["T/A.json"], `"stdio"`, `"http"`, 1)
	files["servers/s.json"] = strings.Replace(files["servers/s.json"], `"command":["sh","-c",""]`, `"url":"http://`+host+`/mcp","auth":{"secret_env":"KEY"}`, 1)
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, files))
	call := func(text string) string {
		return intents.Actions(`{"kind":"call","tool_id":"T","params":{"message":"` + text + `"}}`)
	}
	live := func(mode string) harnesstest.Executor {
		y := x.Caller(mode, nil)
		y.Deps.Secrets = secret.New(func(string) string { return key })
		y.Deps.Asker = ask.New(y.Deps.Secrets)
		if mode == harness.ModelRecord {
			y.Deps.Asker = toolio.NewRecorder(y.Deps.Asker, time.Now)
		}
		return y
	}
	rep := live(harness.ModelRecord).Run(t, call("one"), harness.Folders{})
	if !rep.Result.Decision.Accepted || len(rep.Execution.Calls) != 1 || bytes.Contains(rep.Execution.ToolIO, []byte(key)) {
		t.Fatalf("%s %s", rep.Bytes, rep.Execution.ToolIO)
	}
	harnesstest.Packed(t, rep)
	shown = strings.Replace(shownTool, `"d"`, `"e"`, 1)
	if other := live(harness.ModelNone).Run(t, call("one"), harness.Folders{}); !slices.Equal(other.Result.Decision.Reasons, []string{"CALL_REFUSED /actions/0"}) {
		t.Errorf("another tool: %s", other.Bytes)
	}
	s.Close()
	recorded, err := pack.ParseToolIO(rep.Execution.ToolIO)
	if err != nil {
		t.Fatal(err)
	}
	player := x.Caller(harness.ModelReplay, nil)
	player.Deps.Asker = toolio.NewPlayer(recorded)
	if again := player.Run(t, call("one"), harness.Folders{}); !again.Result.Decision.Accepted || again.Execution.Calls[0] != rep.Execution.Calls[0] {
		t.Errorf("replayed: %s", again.Bytes)
	}
	player.Deps.Asker = toolio.NewPlayer(recorded)
	if re := player.Fails(t, call("two"), harness.Folders{}); re.Code != result.CodeEvidence {
		t.Errorf("another parameter: %v", re)
	}
}
