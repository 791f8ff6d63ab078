package specs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// TestHolds: a schema of a user decides about a value, or says why it cannot.
func TestHolds(t *testing.T) {
	for _, c := range []struct{ schema, value, fault, err string }{
		{`{"type":"object","required":["a"]}`, `{"a":1}`, "", ""},
		{`{"type":"object","required":["a"]}`, `{}`, ": a is required", ""},
		{`{"properties":{"a":{"properties":{"b":{"type":"integer"}}}}}`, `{"a":{"b":"x"}}`, ".a.b: Invalid type. Expected: integer, given: string", ""},
		{`{"properties":{"n":{"const":12345678901234567890}}}`, `{"n":12345678901234567890}`, "", ""},
		{`{"definitions":{"node":{"type":"object","properties":{"next":{"$ref":"#/definitions/node"}}}},"$ref":"#/definitions/node"}`, `{"next":{"next":1}}`, ".next.next: Invalid type. Expected: object, given: integer", ""},
		{`{"$ref":"#"}`, `1`, "", "leads back to itself, or multiplies"},
		{`{"allOf":[{"$ref":"#"}]}`, `1`, "", "leads back to itself, or multiplies"},
		{`{"definitions":{"a":{"not":{"$ref":"#/definitions/b"}},"b":{"if":{"$ref":"#/definitions/a"}}},"$ref":"#/definitions/a"}`, `1`, "", "leads back to itself, or multiplies"},
		{`{"$ref":"#/definitions/none"}`, `1`, "", "no JSON Schema"},
		{`{"$ref":"file:///etc/passwd"}`, `1`, "", "no JSON Schema"},
		{`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}`, `{}`, "", "no JSON Schema"},
		{doubled(40), `1`, "", "leads back to itself, or multiplies"},
		{`{"definitions":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/definitions/n"}},"required":["x"]},{"properties":{"c":{"$ref":"#/definitions/n"}},"required":["y"]}]}},"$ref":"#/definitions/n"}`,
			strings.Repeat(`{"c":`, 40) + "1" + strings.Repeat("}", 40), "", "leads back to itself, or multiplies"},
		{`{"type":"nothing"}`, `1`, "", "no JSON Schema"},
		{`{"pattern":"("}`, `"x"`, "", "no JSON Schema"},
		{`{"title":"` + strings.Repeat("x", specs.MaxGiven) + `"}`, `1`, "", "more than 65536 bytes"},
	} {
		var schema any
		if err := json.Unmarshal([]byte(c.schema), &schema); err != nil {
			t.Fatal(err)
		}
		before, err := canon.Canonical(schema)
		if err != nil {
			t.Fatal(err)
		}
		value, err := canon.ParseLiteral([]byte(c.value), len(c.value), 1000)
		if err != nil {
			t.Fatal(err)
		}
		fault, err := specs.Holds(schema, value)
		if fault != c.fault || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.80s, %s: %q, %v; want %q, %q", c.schema, c.value, fault, err, c.fault, c.err)
		}
		if after, err := canon.Canonical(schema); err != nil || string(after) != string(before) {
			t.Errorf("%.80s: the schema has changed", c.schema)
		}
	}
}

// doubled returns a schema in which each definition demands the next one twice.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/definitions/d%d"},{"$ref":"#/definitions/d%d"}]},`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"definitions":{%s"d%d":{}},"$ref":"#/definitions/d0"}`, b.String(), n)
}
