//go:build unix

package gate_test

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/gate"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// TestCall: a call that is allowed reaches the server in canonical form, one that is refused
// does not, and a message that nobody decides is passed on as it is.
func TestCall(t *testing.T) {
	c := begin(t, "good", gate.Options{}).open()
	c.tell(call("1", "echo", `{ "b":1.0, "a":"\u0041" }`))
	c.want(`"id":1`, `"done"`)
	c.tell(call("2", "echo", `{"no":1}`))
	c.want(`"id":2`, `"isError":true`, `REFUSE the test refuses`)
	c.tell(`{"method":"prompts/list",  "jsonrpc":"2.0","id":"1.0", "params":{"a":1.0}}`)
	c.want(`"id":"1.0"`)
	c.tell(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"file:///a"}}`)
	c.want(`"id":3`)
	heard := c.heard()
	want := []string{
		`{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"a":"A","b":1},"name":"echo"}}`,
		`{"method":"prompts/list",  "jsonrpc":"2.0","id":"1.0", "params":{"a":1.0}}`,
		`{"id":3,"jsonrpc":"2.0","method":"resources/read","params":{"uri":"file:///a"}}`,
	}
	for i, line := range heard[len(heard)-3:] {
		if line != want[i] {
			t.Errorf("the server reads %s, want %s", line, want[i])
		}
	}
	c.in.Close()
	if code := <-c.exit; code != 0 {
		t.Errorf("the exit status is %d", code)
	}
}

// TestRefusedMessages: what is not strict, or could mean two things, has an error as its answer
// and does not reach the server. The session goes on.
func TestRefusedMessages(t *testing.T) {
	c := begin(t, "good", gate.Options{}).open()
	invalid := []string{`"code":-32600`}
	for _, m := range []struct {
		text string
		want []string
	}{
		{call("1", "echo", `{"a":1,"a":2}`), []string{`"code":-32600`, `"id":1`, "stands twice"}},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call","params":{"name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","meſſage":1}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"other"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","argumentſ":{}}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{"name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","cursor":"x"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":null}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo"]}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a","URI":"b"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"a":[{"k":1,"K":2}]}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"k":1,"K":2}}`, invalid},
		{call("1", "echo", `{"a":{"path":"x","Path":"y"}}`), []string{`"code":-32600`, `"id":1`, "case"}},
		{call("1", "echo", `{"n":1E400}`), []string{`"code":-32600`, `"id":1`}},
		{call("1", "echo", `{"n":9007199254740993}`), []string{`"code":-32600`, `"id":1`}},
		{call("1", "echo", `{"n":1e-400}`), invalid},
		{call("1", "echo", `{"n":01}`), invalid},
		{call("1", "echo", `{"n":NaN}`), invalid},
		{call("1", "echo", `{"n":"\ud800"}`), invalid},
		{call("1", "echo", "{\"n\":\"\xff\"}"), invalid},
		{call("1", "echo", strings.Repeat(`{"a":`, 70)+"1"+strings.Repeat("}", 70)), invalid},
		{call("null", "echo", `{}`), invalid},
		{call("1.5", "echo", `{}`), invalid},
		{call("[1]", "echo", `{}`), invalid},
		{call("9007199254740993", "echo", `{}`), invalid},
		{"[" + call("1", "echo", `{}`) + "," + call("2", "echo", `{}`) + "]", invalid},
		{"[]", invalid},
		{"null", invalid},
		{"hello", invalid},
		{call("1", "echo", `{}`) + call("2", "echo", `{}`), invalid},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, invalid},
		{`{"id":1,"method":"ping"}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, invalid},
		{`{"jsonrpc":"2.0","id":"fiador-1","result":{}}`, invalid},
		{`{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"result":{},"params":{"name":"echo"}}`, invalid},
		{`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}`, invalid},
		{`{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, invalid},
		{initialize, []string{`"code":-32600`, `"id":0`, "begun already"}},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, []string{`"code":-32601`, `"id":1`}},
		{`{"jsonrpc":"2.0","id":1,"method":"Tools/call","params":{"name":"echo"}}`, []string{`"code":-32601`, `"id":1`}},
		{`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`, []string{`"code":-32601`, `"id":1`}},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","no":1}}`, invalid},
		{call("1", "never", `{}`), []string{`"isError":true`, "TOOL_UNKNOWN"}},
		{call("1", "Echo", `{}`), []string{`"isError":true`, "TOOL_UNKNOWN"}},
	} {
		c.tell(m.text)
		c.want(m.want...)
	}
	if heard := c.heard(); len(heard) != 3 { // initialize, initialized, tools/list of the gate
		t.Errorf("the server has read %q", heard)
	}
	c.tell(call("1", "echo", `{"n":[1e2,1.0,-0,0.10,1E30]}`))
	c.want(`"id":1`, "done")
	heard := c.heard()
	if last := heard[len(heard)-1]; !strings.Contains(last, `"n":[100,1,0,0.1,1e+30]`) {
		t.Errorf("the server reads %s", last)
	}
}

// TestRefusedMethods: a refused call that is none of a tool has an error with the text of the
// decision.
func TestRefusedMethods(t *testing.T) {
	c := begin(t, "good", gate.Options{Decide: func(_ context.Context, call gate.Call) gate.Answer {
		return gate.Answer{Text: "REFUSE " + call.Method + " \xff"}
	}}).open()
	for method, params := range map[string]string{
		"resources/read": `{"uri":"a"}`, "resources/subscribe": `{"uri":"a"}`, "prompts/get": `{"name":"a"}`, "completion/complete": `{"ref":{},"argument":{}}`,
		"tasks/get": `{"taskId":"1"}`, "tasks/result": `{"taskId":"1"}`, "tasks/cancel": `{"taskId":"1"}`, "tasks/list": `{}`,
	} {
		c.tell(`{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":` + params + `}`)
		c.want(`"id":"x"`, `"code":-32000`, "REFUSE "+method)
	}
	if heard := c.heard(); len(heard) > 3 {
		t.Errorf("the server has read %q", heard)
	}
}

// TestHiddenLines: no character of a message that is passed on ends a line for a server that
// takes more characters for the end of one than JSON-RPC does.
func TestHiddenLines(t *testing.T) {
	c := begin(t, "good", gate.Options{}).open()
	hidden := call("7", "echo", `{"evil":true}`)
	c.tell(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[`+"\r"+hidden+"\r]}}",
		call("1", "echo", `{"a":"`+"\u2028"+`{}`+"\u2029\u0085"+`"}`), `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":"`+"\u2028x\u0085"+`"}}`+"\r")
	for range 2 {
		c.hear()
	}
	heard := c.heard()
	c.record = "" // its escapes are not canonical
	for _, line := range heard {
		if strings.ContainsAny(line, "\r\u2028\u2029\u0085") {
			t.Errorf("the server reads %q", line)
		}
	}
	if all := strings.Join(heard, "\n"); !strings.Contains(all, `"a":"\u2028{}\u2029\u0085"`) || !strings.Contains(all, `"a":"\u2028x\u0085"`) {
		t.Errorf("the server reads %s", all)
	}
}

// TestIDs: an id twice in flight is refused, and the answer is not taken for that to the first
// request. 1 and "1" are two ids.
func TestIDs(t *testing.T) {
	c := begin(t, "holds", gate.Options{}).open()
	c.tell(call("1", "echo", `{"n":1}`), call(`"1"`, "echo", `{"n":2}`), call("1", "echo", `{"n":3}`))
	c.want(`"code":-32600`, "belongs to a request")
	c.tell(call("1.0", "echo", `{"n":4}`))
	c.want(`"code":-32600`)
	c.tell(`{"jsonrpc":"2.0","id":"\u0031","method":"ping"}`)
	got := c.hear()
	if !strings.Contains(got, `"code":-32600`) || strings.Contains(got, `"id"`) {
		t.Error(got)
	}
	c.until(func(heard []string) bool { return len(heard) == 5 })
}

// until waits until the server has read what is asked for.
func (c *client) until(there func(heard []string) bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !there(c.heard()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("the server has read %q; the log is %s", c.heard(), c.log)
		}
	}
}

// TestBeforeTheBeginning: before initialize and notifications/initialized no call is decided.
func TestBeforeTheBeginning(t *testing.T) {
	c := begin(t, "good", gate.Options{})
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, `"code":-32600`)
	c.tell(initialized, call("2", "echo", `{}`))
	c.want(`"id":2`, `"code":-32600`)
	c.tell(initialize)
	c.want("protocolVersion")
	c.tell(call("3", "echo", `{}`))
	c.want(`"id":3`, `"code":-32600`)
	c.tell(initialized, call("4", "echo", `{}`)) // the gate lists before the client does
	c.want(`"id":4`, "done")

	c = begin(t, "good", gate.Options{}) // a client that does not wait
	c.tell(initialize, initialized, call("1", "echo", `{}`))
	c.want("protocolVersion")
	c.want(`"id":1`, "done")

	c = begin(t, "has no tools", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "TOOL_UNKNOWN")
	c.until(func(heard []string) bool { return len(heard) == 2 }) // nothing is listed
}

// TestCapabilities: the client's capabilities that the gate refuses to use are not announced.
func TestCapabilities(t *testing.T) {
	rich := strings.Replace(initialize, `{"roots":{}}`, `{"elicitation":{},"roots":{"listChanged":true},"sampling":{},"tasks":{}}`, 1)
	for _, relay := range []bool{false, true} {
		c := begin(t, "asks", gate.Options{RelayRequests: relay})
		c.tell(rich)
		c.want("protocolVersion")
		c.tell(initialized)
		got := c.heard()[0]
		if relay && got != rich || !relay && (strings.Contains(got, "sampling") || strings.Contains(got, "elicitation") || strings.Contains(got, "tasks") || !strings.Contains(got, `"roots":{"listChanged":true}`)) {
			t.Errorf("relay %v: the server reads %s", relay, got)
		}
		c.tell(call("1", "echo", `{}`))
		want := []string{"roots/list", "ping"}
		if relay {
			want = []string{"sampling/createMessage", "elicitation/create", "roots/list", "ping", "tasks/get"}
		}
		for _, method := range want {
			c.want(`"method":"` + method + `"`)
		}
		c.want(`"id":1`, "done")
		c.tell(`{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		c.until(func(heard []string) bool {
			all := strings.Join(heard, "\n")
			return strings.Contains(all, `"roots":[]`) && strings.Count(all, `"code":-32601`) == map[bool]int{false: 4, true: 1}[relay]
		})
		c.tell(`{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`)
		c.want(`"code":-32600`, "answers nothing")
	}
}

// TestTools: which tools are shown and called, by what the server says about them.
func TestTools(t *testing.T) {
	echo := digest(t, echoTool)
	for _, tc := range []struct {
		part        string
		pins        map[string]canon.ContentHash
		shown       string // names of all tools that the client sees
		called      string // of those that it can call
		refused     string // of those that it cannot
		because     string
		cannotShown bool
	}{
		{part: "good", shown: "echo", called: "echo", refused: "other", because: "TOOL_UNKNOWN"},
		{part: "twice", shown: "echo", called: "echo", refused: "twin", because: "TOOL_TWICE"},
		{part: "twice, on two pages", called: "echo", refused: "twin", because: "TOOL_TWICE"},
		{part: "case", shown: "echo", called: "echo", refused: "evil good", because: "TOOL_UNKNOWN"},
		{part: "Tools", refused: "echo", because: "TOOL_UNKNOWN", cannotShown: true},
		{part: "lists nothing", refused: "echo", because: "cannot be listed"},
		{part: "endless pages", refused: "echo t1", because: "more than 100 pages", shown: "t101"},
		{part: "good", pins: map[string]canon.ContentHash{"echo": echo}, shown: "echo", called: "echo"},
		{part: "good", pins: map[string]canon.ContentHash{"echo": canon.Sum(nil)}, refused: "echo", because: "TOOL_UNPINNED"},
		{part: "good", pins: map[string]canon.ContentHash{}, refused: "echo", because: "TOOL_UNPINNED"},
	} {
		c := begin(t, tc.part, gate.Options{Pins: tc.pins}).open()
		for name := range strings.FieldsSeq(tc.called) {
			c.tell(call("1", name, `{}`))
			c.want(`"id":1`, "done")
		}
		for name := range strings.FieldsSeq(tc.refused) {
			c.tell(call("1", name, `{}`))
			c.want(`"id":1`, `"isError":true`, tc.because)
		}
		c.tell(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		got := c.hear()
		if tc.cannotShown {
			if !strings.Contains(got, `"code":-32000`) {
				t.Errorf("%s: %s", tc.part, got)
			}
			continue
		}
		var names []string
		if m, err := rpc.Read([]byte(got)); err != nil {
			t.Error(err)
		} else if m.Kind == rpc.Response {
			list, _, err := rpc.ReadTools(m.Result)
			if err != nil {
				t.Error(err)
			}
			for _, one := range list {
				names = append(names, one.Name)
			}
		}
		if all := strings.Join(names, " "); all != tc.shown {
			t.Errorf("%s: the client sees %q, want %q: %s", tc.part, all, tc.shown, got)
		}
	}
}

// digest returns the digest of a tool.
func digest(t *testing.T, text string) canon.ContentHash {
	t.Helper()
	doc, err := canon.Parse([]byte(text), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := rpc.ReadTool(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	return tool.SHA256
}

// TestChangedTool: a tool that changes within the session is neither called nor shown, whether
// the server tells of the change or not. A new tool is called.
func TestChangedTool(t *testing.T) {
	c := begin(t, "changing", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(changed)
	c.want(`"id":1`, "done")
	c.tell(call("2", "echo", `{}`))
	c.want(`"id":2`, `"isError":true`, "TOOL_CHANGED")
	c.tell(call("3", "new", `{}`))
	c.want(changed)
	c.want(`"id":3`, "done")
	c.tell(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	if got := c.hear(); strings.Contains(got, "evil") || !strings.Contains(got, `"name":"new"`) {
		t.Error(got)
	}

	c = begin(t, "changing in silence", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "done")
	c.tell(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	c.want(`"id":2`, `"tools":[]`)
	c.tell(call("3", "echo", `{}`))
	c.want(`"id":3`, "TOOL_CHANGED")
}

// TestStorm: a storm of changes makes few listings, and calls are decided after it.
func TestStorm(t *testing.T) {
	c := begin(t, "storm", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	for range 20_000 {
		c.want(changed)
	}
	c.want(`"id":1`, "done")
	c.tell(`{"jsonrpc":"2.0","id":"last","method":"ping"}`, call("2", "never", `{}`))
	for got := ""; !strings.Contains(got, "TOOL_UNKNOWN"); got = c.hear() {
	}
	took := 0
	for _, line := range c.heard() {
		if strings.Contains(line, "tools/list") {
			took++
		}
	}
	if took < 2 || took > 1000 {
		t.Errorf("%d listings", took)
	}
}

// TestLongLines: a line over the limit is dropped, from either side, without being held in
// memory. The session goes on.
func TestLongLines(t *testing.T) {
	c := begin(t, "floods", gate.Options{}).open()
	part := strings.Repeat("a", 1<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := io.WriteString(c.in, part); err != nil {
			t.Fatal(err)
		}
	}
	c.tell("")
	c.want(`"code":-32600`, "4194304")
	c.tell(call("1", "echo", `{}`))
	c.want("notifications/after")
	c.want(`"id":1`, "done")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
		t.Errorf("the memory has grown by %d bytes", grown)
	}
	if !strings.Contains(c.log.String(), "dropped") {
		t.Errorf("the log is %q", c.log)
	}
}

// TestServerEnds: open calls have an error when the server is gone, and the exit status is 1.
func TestServerEnds(t *testing.T) {
	for _, part := range []string{"dies", "dies, and leaves a child", "answers nothing, twice"} {
		c := begin(t, part, gate.Options{}).open()
		c.tell(call("1", "echo", `{}`))
		c.want(`"id":1`, `"code":-32000`, "the server has ended")
		if code := <-c.exit; code != 1 {
			t.Errorf("%s: the exit status is %d", part, code)
		}
	}
}

// TestServerFaults: a server that writes first, or what is not strict, loses the message alone.
func TestServerFaults(t *testing.T) {
	c := begin(t, "writes first", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "done")
	if !strings.Contains(c.log.String(), "dropped") {
		t.Errorf("the log is %q", c.log)
	}
	c = begin(t, "answers badly", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, `"code":-32000`, "stands twice")
	c.tell(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	c.want(`"id":2`)
	c = begin(t, "floods with requests", gate.Options{}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "done")
	c = begin(t, "asks without end", gate.Options{}).open() // and does not read: the gate does not wait for it
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, `"code":-32000`)
	if code := <-c.exit; code != 1 || !strings.Contains(c.log.String(), "does not read the answers") {
		t.Errorf("the exit status is %d, the log is %s", code, c.log)
	}
}

// TestClientVanishes: the server is ended, even if it does not want to.
func TestClientVanishes(t *testing.T) {
	for _, part := range []string{"good", "holds", "stays"} {
		c := begin(t, part, gate.Options{}).open()
		c.tell(call("1", "echo", `{}`))
		c.until(func(heard []string) bool { return len(heard) >= 4 })
		c.in.Close()
		if code := <-c.exit; code != 0 {
			t.Errorf("%s: the exit status is %d", part, code)
		}
		if out, err := exec.Command("pgrep", "-f", c.record).Output(); err == nil {
			t.Errorf("%s: the server still runs: %s", part, out)
		}
	}
}

// TestEndBeforeTheListing: a client that ends before the server has listed its tools is no fault
// of the server, and the log says nothing of it.
func TestEndBeforeTheListing(t *testing.T) {
	c := begin(t, "lists never", gate.Options{}).open()
	c.until(func(heard []string) bool { return strings.Contains(strings.Join(heard, ""), rpc.MethodToolsList) })
	c.in.Close()
	if code := <-c.exit; code != 0 || strings.Contains(c.log.String(), "listed") {
		t.Errorf("the exit status is %d, the log is %s", code, c.log)
	}
}

// TestNothingBeforeTheDecision: the server sees a call after its decision. A call that is
// cancelled before never reaches it, and has no answer. The order of calls stays.
func TestNothingBeforeTheDecision(t *testing.T) {
	begun, end := make(chan string, 9), map[string]chan bool{"1": make(chan bool, 1), "2": make(chan bool, 1), "3": make(chan bool, 1)}
	c := begin(t, "good", gate.Options{Decide: func(ctx context.Context, call gate.Call) gate.Answer {
		n := fmt.Sprint(call.Params["n"])
		begun <- n
		select {
		case allowed := <-end[n]:
			return gate.Answer{Allowed: allowed}
		case <-ctx.Done():
			begun <- "cancelled " + n
			return gate.Answer{Allowed: true}
		}
	}}).open()
	c.tell(call("1", "echo", `{"n":1}`), call("2", "echo", `{"n":2}`), call("3", "echo", `{"n":3}`))
	got := []string{<-begun, <-begun, <-begun}
	if slices.Sort(got); strings.Join(got, " ") != "1 2 3" {
		t.Fatal(got)
	}
	end["3"] <- true // decided first, sent last
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if got := <-begun; got != "cancelled 2" {
		t.Fatal(got)
	}
	c.tell(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	c.want(`"id":"p"`)
	if all := strings.Join(c.heard(), "\n"); strings.Contains(all, "tools/call") || strings.Contains(all, "cancelled") {
		t.Errorf("the server reads %s", all)
	}
	end["1"] <- true
	c.want(`"id":1`, "done")
	c.want(`"id":3`, "done")
	heard := c.heard()
	if last := strings.Join(heard[len(heard)-2:], "\n"); !strings.Contains(heard[len(heard)-2], `"n":1`) || !strings.Contains(heard[len(heard)-1], `"n":3`) {
		t.Errorf("the server reads %s", last)
	}
	c.mu.Lock()
	c.allowed = slices.DeleteFunc(c.allowed, func(s string) bool { return strings.Contains(s, `"n":2`) })
	c.mu.Unlock()
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"fiador-1"}}`)
	c.until(func(heard []string) bool { return strings.Contains(heard[len(heard)-1], "fiador-1") })
}

// TestGuessedAnswer: an answer to a call that the server has not read is dropped.
func TestGuessedAnswer(t *testing.T) {
	end := make(chan bool)
	c := begin(t, "guesses", gate.Options{Decide: func(context.Context, gate.Call) gate.Answer { return gate.Answer{Allowed: <-end} }}).open()
	c.tell(call("1", "echo", `{}`), `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	c.want(`"id":2`)
	end <- true
	c.want(`"id":1`, "done")
	if !strings.Contains(c.log.String(), "answers nothing") {
		t.Errorf("the log is %s", c.log)
	}
}

// TestDecisionFails: a decision that panics, and one that there is not, refuse.
func TestDecisionFails(t *testing.T) {
	c := begin(t, "good", gate.Options{Decide: func(context.Context, gate.Call) gate.Answer { panic("no") }}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, `"isError":true`, "not decided")
	if len(c.allowed) > 0 || len(c.heard()) > 3 {
		t.Errorf("allowed are %q, the server reads %q", c.allowed, c.heard())
	}
}

// TestManyCalls: 10 000 calls leave nothing in memory.
func TestManyCalls(t *testing.T) {
	c := begin(t, "good", gate.Options{}).open()
	calls := func(n int) int64 {
		for i := range n {
			c.tell(call(strconv.Itoa(i), "echo", `{"a":"b"}`))
			c.want("done")
		}
		c.mu.Lock()
		c.allowed = nil // the test's own memory
		c.mu.Unlock()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	record := c.record
	c.record = "" // what was allowed is forgotten
	before := calls(1000)
	after := calls(10_000)
	if after > before+1<<20 {
		t.Errorf("the memory has grown from %d to %d bytes; the record is %s", before, after, record)
	}
	t.Logf("%d bytes before 10 000 calls, %d after them", before, after)
}
