//go:build unix

package gate_test

import (
	"testing"

	"github.com/fiador/fiador/harness/gate"
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
