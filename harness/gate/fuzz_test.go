package gate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// FuzzClient: in what is passed on without a decision, a server finds no call, even if it does
// not tell a case from another, or ends lines where others do not. What is decided is what a
// server that reads in this way calls.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1e2}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"ping","Method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[` + "\r" + `{"jsonrpc":"2.0","id":7,"method":"tools/call"}` + "\r]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\",\"params\":{\"a\":\"\u2028{}\u0085\"}}",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"result":{}}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newSession(context.Background(), Options{Server: "s"})
		s.begun, s.agreed, s.ready = true, true, true
		s.server.open[rpc.ID(int64(3))] = &flight{id: int64(3)}
		o := s.fromClient(text)
		line := o.toServer
		if o.decides() {
			line = o.request.line
		}
		if line == nil {
			if o.toClient == nil && !strings.Contains(string(text), "cancelled") {
				t.Errorf("%q has no answer", text)
			}
			return
		}
		lines := strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune("\n\r\u0085\u2028\u2029", r) })
		if len(lines) != 1 {
			t.Fatalf("%q has several lines", line)
		}
		var m struct {
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		_ = json.Unmarshal([]byte(lines[0]), &m) // what fits: a message that is passed on may have another name of another type
		if _, is := decided.Get()[strings.ToLower(m.Method)]; is != o.decides() {
			t.Fatalf("%q: decided %v, and the server reads the method %q", text, o.decides(), m.Method)
		}
		if m.Method == rpc.MethodToolsCall {
			want, err := canon.Canonical(o.request.call.Params)
			got := []byte("{}")
			if err == nil && m.Params.Arguments != nil {
				got, err = canon.Canonical(m.Params.Arguments)
			}
			if err != nil || string(got) != string(want) || m.Params.Name != o.request.call.Tool {
				t.Fatalf("%q: decided is %s %s, and the server reads %s %s (%v)", text, o.request.call.Tool, want, m.Params.Name, got, err)
			}
		}
	})
}
