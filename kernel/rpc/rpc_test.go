package rpc_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

var messages = map[string]rpc.Message{
	`{"jsonrpc":"2.0","id":1,"method":"m"}`:                                          {Kind: rpc.Request, ID: int64(1), Method: "m"},
	`{"jsonrpc":"2.0","id":1.0,"method":"m","params":{"a":[]}}`:                      {Kind: rpc.Request, ID: int64(1), Method: "m", Params: map[string]any{"a": []any{}}},
	`{"jsonrpc":"2.0","id":"","method":"m"}`:                                         {Kind: rpc.Request, ID: "", Method: "m"},
	`{"jsonrpc":"2.0","id":"1","method":"m"}`:                                        {Kind: rpc.Request, ID: "1", Method: "m"},
	` {"method":"m","jsonrpc":"2.0","more":1}` + "\r":                                {Kind: rpc.Notification, Method: "m"},
	`{"jsonrpc":"2.0","id":-7,"result":{}}`:                                          {Kind: rpc.Response, ID: int64(-7), Result: map[string]any{}},
	`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no","data":[1]}}`:     {Kind: rpc.Failure, ID: int64(2), Error: rpc.Error{Code: -32601, Message: "no"}},
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}`:           {Kind: rpc.Failure, Error: rpc.Error{Code: -32700, Message: "what"}},
	`{"jsonrpc":"2.0","error":{"code":1,"message":"what"}}`:                          {Kind: rpc.Failure, Error: rpc.Error{Code: 1, Message: "what"}},
	`{"jsonrpc":"2.0","id":9007199254740991,"result":{"content":[],"isError":true}}`: {Kind: rpc.Response, ID: int64(canon.MaxSafeInteger), Result: map[string]any{"content": []any{}, "isError": true}},
}

// TestRead: what each kind of message is read as.
func TestRead(t *testing.T) {
	for text, want := range messages {
		got, err := rpc.Read([]byte(text))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

var malformed = []string{
	``, `x`, `null`, `1`, `"m"`, `[]`, `{}`, `{"jsonrpc":"2.0"}`,
	`[{"jsonrpc":"2.0","method":"m"}]`,
	`{"id":1,"method":"m"}`, `{"jsonrpc":2.0,"id":1,"method":"m"}`, `{"jsonrpc":"1.0","id":1,"method":"m"}`,
	`{"jsonrpc":"2.0","id":null,"method":"m"}`, `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, `{"jsonrpc":"2.0","id":true,"method":"m"}`, `{"jsonrpc":"2.0","id":[1],"method":"m"}`,
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, `{"jsonrpc":"2.0","id":1e300,"method":"m"}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"method":""}`, `{"jsonrpc":"2.0","id":1,"method":1}`, `{"jsonrpc":"2.0","method":null}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`,
	`{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"result":[]}`,
	`{"jsonrpc":"2.0","id":1,"error":"no"}`, `{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`,
	`{"jsonrpc":"2.0","id":1,"method":"m"}{}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":"\ud800","method":"m"}`,
	"\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"m"}`,
}

// TestMalformed: what is no message is refused, and so is one that is too long.
func TestMalformed(t *testing.T) {
	for _, text := range malformed {
		if m, err := rpc.Read([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, m)
		}
	}
	long := func(n int) []byte {
		frame := `{"jsonrpc":"2.0","method":"m","x":""}`
		return []byte(strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1))
	}
	if _, err := rpc.Read(long(rpc.MaxMessageBytes)); err != nil {
		t.Error(err)
	}
	if _, err := rpc.Read(long(rpc.MaxMessageBytes + 1)); err == nil {
		t.Error("a message over the limit is read")
	}
}

// TestEncode: the canonical form of each kind of message, which Read reads back.
func TestEncode(t *testing.T) {
	encoded := func(text []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rpc.Read(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		return string(text)
	}
	for want, got := range map[string]string{
		`{"id":0,"jsonrpc":"2.0","method":"ping"}`: encoded(rpc.EncodeRequest(int64(0), rpc.MethodPing, nil)),
		`{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"n","version":"v"},"protocolVersion":"2025-11-25"}}`: encoded(
			rpc.EncodeRequest(int64(1), rpc.MethodInitialize, rpc.InitializeParams{ProtocolVersion: rpc.Versions[0], ClientInfo: rpc.Peer{Name: "n", Version: "v"}})),
		`{"id":2,"jsonrpc":"2.0","method":"tools/list","params":{}}`:                                           encoded(rpc.EncodeRequest(int64(2), rpc.MethodToolsList, rpc.ListParams{})),
		`{"id":2,"jsonrpc":"2.0","method":"tools/list","params":{"cursor":""}}`:                                encoded(rpc.EncodeRequest(int64(2), rpc.MethodToolsList, rpc.ListParams{Cursor: new("")})),
		`{"id":"x","jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"b":[1.5],"é":1},"name":"t"}}`: encoded(rpc.EncodeRequest("x", rpc.MethodToolsCall, rpc.CallParams{Name: "t", Arguments: map[string]any{"é": json.Number("1"), "b": []any{1.5}}})),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                                               encoded(rpc.EncodeNotification(rpc.MethodInitialized, nil)),
		`{"id":"","jsonrpc":"2.0","result":{}}`:                                                                encoded(rpc.EncodeResult("", struct{}{})),
		`{"error":{"code":-32601,"message":"m"},"id":3,"jsonrpc":"2.0"}`:                                       encoded(rpc.EncodeError(int64(3), rpc.Error{Code: rpc.CodeNoMethod, Message: "m"})),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if text, err := rpc.EncodeRequest(int64(1), "m", map[string]any{"a": "\xff"}); err == nil {
		t.Errorf("not UTF-8: %s", text)
	}
}

func value(t *testing.T, text string) map[string]any {
	t.Helper()
	doc, err := canon.Parse([]byte(text), rpc.MaxMessageBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value().(map[string]any)
}

// TestReadInitialize: unknown members and unknown versions are read, malformed ones are not.
func TestReadInitialize(t *testing.T) {
	for text, want := range map[string]string{
		`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1","x":2},"instructions":"i"}`: "2025-11-25",
		`{"protocolVersion":"1","capabilities":{},"serverInfo":{}}`:                                                                     "1",
		`{"protocolVersion":1,"capabilities":{},"serverInfo":{}}`:                                                                       "",
		`{"capabilities":{},"serverInfo":{}}`:                                                                                           "",
		`{"protocolVersion":"1","capabilities":[],"serverInfo":{}}`:                                                                     "",
		`{"protocolVersion":"1","capabilities":{}}`:                                                                                     "",
	} {
		if got, err := rpc.ReadInitialize(value(t, text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// TestToolDigest: a digest covers the five members as far as the server says them, and
// nothing else. The order of members does not matter.
func TestToolDigest(t *testing.T) {
	digest := func(text string) canon.ContentHash {
		t.Helper()
		hash, err := rpc.ToolDigest(value(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	base := `{"name":"t","description":"d","inputSchema":{"type":"object"}}`
	if got, want := digest(base), canon.Sum([]byte(`{"description":"d","inputSchema":{"type":"object"},"name":"t"}`+"\n")); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	for _, same := range []string{
		`{"inputSchema":{"type":"object"},"name":"t","description":"d"}`,
		`{"name":"t","description":"d","inputSchema":{"type":"object"},"title":"T","icons":[],"_meta":{"a":1}}`,
	} {
		if digest(same) != digest(base) {
			t.Errorf("another digest: %s", same)
		}
	}
	seen := map[canon.ContentHash]string{digest(base): base}
	for _, other := range []string{
		`{"name":"u","description":"d","inputSchema":{"type":"object"}}`,
		`{"name":"t","description":"e","inputSchema":{"type":"object"}}`,
		`{"name":"t","description":null,"inputSchema":{"type":"object"}}`,
		`{"name":"t","inputSchema":{"type":"object"}}`,
		`{"name":"t","description":"d","inputSchema":{}}`,
		`{"name":"t","description":"d","inputSchema":{"type":"object"},"outputSchema":{}}`,
		`{"name":"t","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	} {
		if before := seen[digest(other)]; before != "" {
			t.Errorf("%s has the digest of %s", other, before)
		}
		seen[digest(other)] = other
	}
}

// TestReadTools: a page of tools, and what is none.
func TestReadTools(t *testing.T) {
	list, next, err := rpc.ReadTools(value(t, `{"tools":[{"name":"b","inputSchema":{}},{"name":"a","inputSchema":{}}],"nextCursor":"","more":1}`))
	if err != nil || len(list) != 2 || list[0].Name != "b" || !list[1].SHA256.Valid() || next == nil || *next != "" {
		t.Errorf("%v %v %v", list, next, err)
	}
	for _, last := range []string{`{"tools":[]}`, `{"tools":[],"nextCursor":null}`} {
		if list, next, err := rpc.ReadTools(value(t, last)); err != nil || len(list) != 0 || next != nil {
			t.Errorf("%s: %v %v %v", last, list, next, err)
		}
	}
	for _, bad := range []string{
		`{}`, `{"tools":{}}`, `{"tools":[1]}`, `{"tools":[{"inputSchema":{}}]}`, `{"tools":[{"name":"","inputSchema":{}}]}`, `{"tools":[{"name":"a"}]}`,
		`{"tools":[{"name":"a","inputSchema":[]}]}`, `{"tools":[],"nextCursor":1}`,
	} {
		if list, _, err := rpc.ReadTools(value(t, bad)); err == nil {
			t.Errorf("%s: %v", bad, list)
		}
	}
}

// TestReadCall: the answer of a call is the canonical result without _meta.
func TestReadCall(t *testing.T) {
	for text, want := range map[string]string{
		`{"content":[],"_meta":{"a":1}}`:                                                  `{"content":[]} false`,
		`{"isError":true,"content":[{"type":"text","text":"é","_meta":{}}]}`:              `{"content":[{"_meta":{},"text":"é","type":"text"}],"isError":true} true`,
		`{"structuredContent":{"b":1.0,"a":2},"content":[],"isError":false,"unknown":[]}`: `{"content":[],"isError":false,"structuredContent":{"a":2,"b":1},"unknown":[]} false`,
	} {
		from := value(t, text)
		got, failed, err := rpc.ReadCall(from)
		if err != nil || string(got)+" "+strconv.FormatBool(failed) != want {
			t.Errorf("%s: %s %v %v", text, got, failed, err)
		}
		if !reflect.DeepEqual(from, value(t, text)) {
			t.Errorf("%s was changed", text)
		}
	}
	for _, bad := range []string{
		`{}`, `{"content":{}}`, `{"content":["x"]}`, `{"content":[{"text":"x"}]}`, `{"content":[{"type":1}]}`,
		`{"content":[],"isError":"no"}`, `{"content":[],"structuredContent":[]}`, `{"structuredContent":{}}`,
	} {
		if got, _, err := rpc.ReadCall(value(t, bad)); err == nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

// FuzzRead: what is read as a message is encoded to a text that is read as the same message,
// and the results of the protocol are read without a panic.
func FuzzRead(f *testing.F) {
	for text := range messages {
		f.Add([]byte(text))
	}
	for _, text := range malformed {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"c"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := rpc.Read(text)
		if err != nil {
			return
		}
		var params any
		if m.Params != nil {
			params = m.Params
		}
		var again []byte
		switch m.Kind {
		case rpc.Response:
			rpc.ReadInitialize(m.Result)
			rpc.ReadTools(m.Result)
			if answer, _, err := rpc.ReadCall(m.Result); err == nil && bytes.ContainsAny(answer, "\n") {
				t.Errorf("a line feed in %q", answer)
			}
			again, err = rpc.EncodeResult(m.ID, m.Result)
		case rpc.Failure:
			again, err = rpc.EncodeError(m.ID, m.Error)
		default:
			again, err = rpc.EncodeRequest(m.ID, m.Method, params)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if second, err := rpc.Read(again); err != nil || !reflect.DeepEqual(second, m) {
			t.Errorf("%s became %s: %+v, %v", text, again, second, err)
		}
	})
}
