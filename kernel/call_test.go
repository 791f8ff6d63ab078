package kernel_test

import (
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// TestAllowedTools: an entry below another one lists nothing that the other does not list.
// A slash in the name of an MCP server's or a client's tool divides no adapter from it.
func TestAllowedTools(t *testing.T) {
	hash, other := canon.Sum([]byte("a")), canon.Sum([]byte("b"))
	in, err := kernel.ParseIntent(map[string]any{"goal": "call", "actions": []any{
		map[string]any{"kind": "call", "tool_id": "placeholder", "params": map[string]any{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	lists := func(entry, tool, adapter string, doc canon.ContentHash) bool {
		in := in
		call := kernel.ForeignCall(tool, doc)
		call.Candidates[0].AdapterID = adapter
		in.Actions = []kernel.Action{{Kind: kernel.ActionCall, ToolID: tool}}
		return in.Bind(map[int]kernel.Call{0: call}).Effects(kernel.Profile{AllowedTools: kernel.AllowList{Names: []string{entry}}})[0].Listed
	}
	tools := [][2]string{{"T", "A"}, {"T", "B"}, {"U", "A"}, {"mcp:s/t", ""}, {"mcp:s/tt", ""}, {"mcp:s#m/n", ""}, {"client:c/t", ""}}
	entries := []string{
		"T", "T/A", "T*", "T/*", "T@" + string(hash), "T/A@" + string(hash), "mcp:s", "mcp:s/t", "mcp:s/*", "mcp:s*", "mcp:*",
		"mcp:s/t@" + string(hash), "mcp:s#m/n", "mcp:s#*", "client:c/t", "client:c", "c*",
	}
	for _, want := range []struct{ entry, tool string }{
		{"mcp:s/t", "mcp:s/t"}, {"mcp:s#m/n", "mcp:s#m/n"}, {"client:c/t", "client:c/t"}, {"mcp:s/*", "mcp:s/tt"}, {"mcp:s/t@" + string(hash), "mcp:s/t"},
	} {
		if !lists(want.entry, want.tool, "", hash) {
			t.Errorf("%s does not list %s", want.entry, want.tool)
		}
	}
	for _, never := range []struct{ entry, tool string }{{"mcp:s", "mcp:s/t"}, {"mcp:s/t", "mcp:s/tt"}, {"client:c", "client:c/t"}, {"mcp:s/*", "mcp:s#m/n"}} {
		if lists(never.entry, never.tool, "", hash) {
			t.Errorf("%s lists %s", never.entry, never.tool)
		}
	}
	for _, narrow := range entries {
		for _, wide := range entries {
			if !kernel.ToolBelow(narrow, wide) {
				continue
			}
			for _, tool := range tools {
				for _, doc := range []canon.ContentHash{hash, other, ""} {
					if lists(narrow, tool[0], tool[1], doc) && !lists(wide, tool[0], tool[1], doc) {
						t.Errorf("%s is below %s, which does not list %v", narrow, wide, tool)
					}
				}
			}
		}
	}
}
