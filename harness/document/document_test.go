package document

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// TestOrder: the names of an object come in the order of the text, in both notations.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ text, pointer, want string }{
		{"z: 1\na: 2\n", "", "z a"},
		{"m:\n  z: 1\n  \"a b\": 2\n  'c': 3\n", "/m", "z a b c"},
		{"m: {z: 1, a: 2}\n", "/m", "z a"},
		{"- {z: 1, a: 2}\n- {b: 1, a: 2}\n", "/1", "b a"},
		{`{"z":1,"a":2}`, "", "z a"},
		{`{"m":{"z":{"y":1},"\u0061":[2],"~/":3}}`, "/m", "z a ~/"},
		{`{"a/b":{"z":1,"a":2}}`, "/a~1b", "z a"},
		{"\n[{\"z\":1,\"a\":2}]", "/0", "z a"},
		{`{"m":[]}`, "/m", ""},
		{"m: x\n", "/m", ""},
		{"m: {z: 1}\n", "/n", ""},
		{`{"m":{"z":1}}`, "/n/o", ""},
	} {
		text, err := parse("t", []byte(c.text), Form{MaxBytes: 1000})
		if err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		if got := strings.Join(text.Order(c.pointer), " "); got != c.want {
			t.Errorf("%q at %q: %q, want %q", c.text, c.pointer, got, c.want)
		}
	}
}

// TestRead: the errors of a document have its form's code and advice, in both notations.
func TestRead(t *testing.T) {
	set := specstest.NewSpecs(t)
	form := Form{Name: "a tool", Schema: specs.KindTool, MaxBytes: 300, Invalid: result.CodeProfile, TooLarge: "less"}
	for _, c := range []struct {
		text    string
		code    result.Code
		line    int
		pointer string
		hint    string
	}{
		{"tool_id: T\nname: nn\nversion: \"1.0.0\"\nstatus: active\nadapters: [A]\n", "", 0, "", ""},
		{"tool_id: T\nname: nn\nversion: \"1.0.0\"\nstatus: Active\nadapters: [A]\n", result.CodeProfile, 4, "/status", "fiador schema tool prints what a tool may hold"},
		{"{\"tool_id\":\"T\",\"name\":\"n\",\n\"version\":\"1.0.0\",\"status\":\"active\",\n\"adapters\":[]}", result.CodeProfile, 3, "/adapters", "fiador schema tool prints what a tool may hold"},
		{"tool_id: T\nname: yes\n", result.CodeNotJSON, 2, "/name", "only YAML that every reader reads alike is accepted; a tool in JSON is read too"},
		{"{\"tool_id\":}", result.CodeNotJSON, 1, "", ""},
		{"[\n'a']", result.CodeNotJSON, 2, "", `a file that begins with "{" or "[" is read as JSON; every other one is read as YAML`},
		{"[]", result.CodeProfile, 1, "", ""},
		{strings.Repeat(" ", 301), result.CodeUnreadable, 0, "", "less"},
	} {
		_, err := Read(set, "t", []byte(c.text), form)
		re, _ := err.(*result.RunError)
		if re == nil {
			re = &result.RunError{}
		}
		line, _ := re.Details["line"].(int)
		pointer, _ := re.Details["pointer"].(string)
		if re.Code != c.code || line != c.line || pointer != c.pointer && c.pointer != "" || c.hint != "" && re.Hint != c.hint {
			t.Errorf("%q: %v line %d at %q, hint %q", c.text, err, line, pointer, re.Hint)
		}
	}
}
