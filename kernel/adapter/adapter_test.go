package adapter_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/adapter/level"
	"github.com/fiador/fiador/kernel/canon"
)

// TestUnchecked: Bind trusts no document that the parsers have not returned.
func TestUnchecked(t *testing.T) {
	tool, a := bindingVectors(t)[0].parts(t)
	other := *tool
	other.ToolID = "U"
	unordered := *a
	cli := *a.Interface.CLI
	cli.ArgOrder = nil
	unordered.Interface.CLI = &cli
	serverless := *a
	serverless.Type = adapter.MCP
	for name, c := range map[string]struct {
		tool *adapter.Tool
		a    *adapter.Adapter
	}{
		"no tool": {nil, a}, "no adapter": {tool, nil}, "an empty tool": {&adapter.Tool{}, a}, "an empty adapter": {tool, &adapter.Adapter{}},
		"another tool": {&other, a}, "no order": {tool, &unordered}, "no server": {tool, &serverless},
	} {
		if bound, found := adapter.Bind(c.tool, c.a, nil); bound != nil || len(found) != 1 {
			t.Errorf("%s: %v %v", name, bound, found)
		}
	}
}

// TestLargeCalls: a call that hands over more than an intent may is refused.
func TestLargeCalls(t *testing.T) {
	for _, v := range bindingVectors(t) {
		tool, a := v.parts(t)
		value := any(strings.Repeat("x", 1<<20))
		many := make([]any, 2000)
		for i := range many {
			many[i] = "x"
		}
		switch v.Name {
		case "cli: twice in a word":
			if bound, _ := adapter.Bind(tool, a, map[string]any{"a": value}); bound != nil {
				t.Errorf("%s: %d bytes", v.Name, len(bound.Request))
			}
		case "cli: a list repeats the words":
			if bound, found := adapter.Bind(tool, a, map[string]any{"a": many}); bound != nil || len(found) != 1 {
				t.Errorf("%s: %v", v.Name, found)
			}
		case "api: a query", "api: a body":
			if bound, found := adapter.Bind(tool, a, map[string]any{"operation": v.Expect.Request["operation"], "q": value}); bound != nil {
				t.Errorf("%s: %v", v.Name, found)
			}
			if bound, found := adapter.Bind(tool, a, map[string]any{"operation": v.Expect.Request["operation"], value.(string)[:500_000]: many}); bound != nil && v.Name == "api: a query" {
				t.Errorf("%s: %v", v.Name, found)
			}
		case "api: a segment is encoded":
			if bound, found := adapter.Bind(tool, a, map[string]any{"operation": "get", "id": value}); bound != nil || len(found) != 1 {
				t.Errorf("%s: %v", v.Name, found)
			}
		case "schema: not additionalProperties by a schema":
			all := map[string]any{}
			for i := range 50_000 {
				all[strconv.Itoa(i)] = "x"
			}
			if _, found := adapter.Bind(tool, a, map[string]any{"a": all}); len(found) != 100 || found[0].Pointer != "/a/0" {
				t.Errorf("%s: %d findings", v.Name, len(found))
			}
		case "cli: an unmapped parameter":
			all := map[string]any{}
			for i := range 5000 {
				all[strings.Repeat("y", 1+i%70)+string(rune('a'+i%26))+string(rune(0x4e00+i))] = "x"
			}
			if _, found := adapter.Bind(tool, a, all); len(found) != 100 {
				t.Errorf("%s: %d findings", v.Name, len(found))
			}
		}
	}
}

// TestURL: the address of a request.
func TestURL(t *testing.T) {
	want := map[string]string{
		"api: the root": "https://a.example/v1/", "api: a path": "https://a.example/v1/r/7", "api: a query": "https://a.example/v1/r?n=2&q=a%20b%26c", "mcp: a tool": "",
	}
	for _, v := range bindingVectors(t) {
		address, known := want[v.Name]
		if !known {
			continue
		}
		tool, a := v.parts(t)
		if bound, found := adapter.Bind(tool, a, decoded(t, v.Params).(map[string]any)); bound == nil || bound.URL() != address {
			t.Errorf("%s: %v %v", v.Name, bound, found)
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("no vectors %v", want)
	}
}

func chainOf(links ...string) map[string]*adapter.Adapter {
	list := map[string]*adapter.Adapter{}
	for _, link := range links {
		id, next, _ := strings.Cut(link, ">")
		a := &adapter.Adapter{AdapterID: id, ToolID: "T"}
		if next != "" {
			a.Errors.Fallback = &adapter.Fallback{AdapterID: next, Condition: "any"}
		}
		list[id] = a
	}
	return list
}

// TestChain: an adapter and its fallbacks, in order; a cycle and a long chain are faults of
// the document that continues them.
func TestChain(t *testing.T) {
	for _, c := range []struct {
		links       string
		want, fault string
	}{
		{"A", "A", ""}, {"A>B B", "A B", ""}, {"A>B B>C C>D D", "A B C D", ""},
		{"A>B B>C C>D D>E E", "", "D"}, {"A>A", "", "A"}, {"A>B B>A", "", "B"}, {"A>B B>C C>B", "", "C"}, {"A>X", "", "A"}, {"B", "", ""},
	} {
		chain, of, err := adapter.Chain(chainOf(strings.Fields(c.links)...), "A")
		var got []string
		for _, a := range chain {
			got = append(got, a.AdapterID)
		}
		var f *adapter.Fault
		if strings.Join(got, " ") != c.want || of != c.fault || (err != nil) != (c.want == "") || err != nil && !errors.As(err, &f) {
			t.Errorf("%s: %v, fault of %q: %v", c.links, got, of, err)
		}
	}
}

// TestAfter: which failures a fallback is for.
func TestAfter(t *testing.T) {
	failures := []string{adapter.FailExit, adapter.FailTimeout, adapter.FailUnavailable, adapter.FailClient, adapter.FailServer, adapter.FailTool, adapter.FailOutput}
	for _, failure := range failures {
		for condition, want := range map[string]bool{"any": true, failure: true, "timeout " + failure: true, "nothing": false, "": false} {
			if got := (&adapter.Fallback{Condition: condition}).After(failure); got != want {
				t.Errorf("%q after %s: %v", condition, failure, got)
			}
		}
	}
	for _, failure := range []string{"", "any", "status_3xx", "refused"} {
		if (&adapter.Fallback{Condition: "any"}).After(failure) {
			t.Errorf("a fallback after %q", failure)
		}
	}
	if (*adapter.Fallback)(nil).After(adapter.FailExit) {
		t.Error("no fallback is used")
	}
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false, "": false} {
		if adapter.RetryConnection(method) != want {
			t.Errorf("%s may be sent again: %v", method, !want)
		}
	}
}

// TestLevels: a level has every member of the level before it, and the last one every member
// of the document.
func TestLevels(t *testing.T) {
	for _, v := range bindingVectors(t) {
		tool, a := v.parts(t)
		var before map[string]any
		for l := level.L0; l <= level.L3; l++ {
			view := decoded(t, level.OfAdapter(a, l)).(map[string]any)
			for name, value := range before {
				if text(t, view[name]) != text(t, value) {
					t.Errorf("%s: level %d changes %s", v.Name, l, name)
				}
			}
			before = view
		}
		for name, value := range a.Doc.(map[string]any) {
			if text(t, before[name]) != text(t, value) {
				t.Errorf("%s: no level has %s", v.Name, name)
			}
		}
		shown := decoded(t, level.OfTool(tool, level.L3)).(map[string]any)
		for name, value := range tool.Doc.(map[string]any) {
			if text(t, shown[name]) != text(t, value) {
				t.Errorf("%s: no level of the tool has %s", v.Name, name)
			}
		}
	}
}

// TestDigest: the digest is the hash of the canonical document and a line feed, so that it
// covers the order of the arguments.
func TestDigest(t *testing.T) {
	doc := decoded(t, map[string]any{"b": 1, "a": []string{"x", "y"}})
	if got, err := adapter.Digest(doc); err != nil || got != canon.Sum([]byte(`{"a":["x","y"],"b":1}`+"\n")) {
		t.Errorf("%s (%v)", got, err)
	}
}
