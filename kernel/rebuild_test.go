package kernel

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// TestRebuild: Rebuild makes a bundle of the kernel again byte by byte. It does not
// take over a value that does not follow.
func TestRebuild(t *testing.T) {
	ask := []Result{{ID: "B", Text: "Which?", Priority: 90}, {ID: "A", Text: "Which?", Why: "w", Priority: 60, Options: []string{"", "b"}}}
	for _, src := range []string{
		`{"goal":"x"}`,
		`{"goal":"x\n# y","constraints":["TODO","must be stateful","must be stateless"],"outputs":["out/a"]}`,
		`{"goal":"x","actions":[{"kind":"write","path":"./out//a","content_base64":"AP8=","executable":true},{"kind":"write","path":"out/a","content":"\u0000"}]}`,
		`{"goal":"x","actions":[{"kind":"run","argv":["node",""],"cwd":"./out/","env":{"A":"b"},"stdin":"","timeout_ms":1000},{"kind":"call","tool_id":"t","adapter_id":"a","params":{"z":[null]}}]}`,
	} {
		in := parse(t, src)
		for _, questions := range [][]Result{nil, ask} {
			v := permitAll(in)
			v.Clarify = questions
			d := decide(t, in, v)
			again, err := Rebuild(d.Bundle)
			if err != nil || len(again.Refused) > 0 || !bytes.Equal(again.Bytes, d.BundleBytes) {
				t.Errorf("%s: %v %v\n%s\n%s", src, err, again.Refused, again.Bytes, d.BundleBytes)
			}
			if len(questions) == 0 && len(again.Actions) != len(in.Actions) {
				t.Errorf("%s: %d actions", src, len(again.Actions))
			}
			forged := *d.Bundle
			forged.RootNode.Entropy.EntropyScore++
			forged.RootNode.Status, forged.Stats.TotalNodes, forged.ID = "", 2, ""
			if again, err := Rebuild(&forged); err != nil || !bytes.Equal(again.Bytes, d.BundleBytes) {
				t.Errorf("%s: forged: %v\n%s", src, err, again.Bytes)
			}
		}
	}
}

// TestRebuildRefuses: Rebuild names, with its place, a value that no intent can have.
func TestRebuildRefuses(t *testing.T) {
	text := func(kind, content string) Output { return textOutput(kind, "x", content, nil) }
	for pointer, b := range map[string]*Bundle{
		"/root_node/goal":         {KernelVersion: Version},
		"/outputs/0/content":      {KernelVersion: Version, RootNode: Node{Goal: "x"}, Outputs: []Output{text("command", `{"argv": []}`)}},
		"/outputs/0/content/argv": {KernelVersion: Version, RootNode: Node{Goal: "x"}, Outputs: []Output{text("command", `{"argv":[]}`)}},
		"/outputs/1/content/params": {KernelVersion: "9.0.0", RootNode: Node{Goal: " "}, Outputs: []Output{
			text("instruction", ""), text("config", `{"params":1,"tool_id":"t"}`),
		}},
		"/outputs/0/content ": {KernelVersion: Version, RootNode: Node{Goal: "x"}, Outputs: []Output{{Type: "file", Path: "a", Content: "AP9=", Encoding: "base64"}}},
	} {
		again, err := Rebuild(b)
		if err != nil || len(again.Refused) != 1 || again.Refused[0].Pointer != strings.TrimSpace(pointer) {
			t.Errorf("%s: %v %v", pointer, err, again.Refused)
		}
		if _, err := canon.Parse(again.Bytes, len(again.Bytes)); err != nil {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}
