//go:build amd64 || arm64

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolLibraries calls functions of libraries that are installed with Python and Node.
func TestToolLibraries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tc := range []struct{ language, module, function, params, answer string }{
		{"python", "statistics", "mean", `{"data":[1,2,3,5]}`, "2.75\n"},
		{"python", "statistics", "quantiles", `{"data":[1,2,3],"n":4}`, "[1,2,3]\n"},
		{"python", "json", "dumps", `{"obj":{"b":1,"a":[null]},"sort_keys":true}`, `"{\"a\": [null], \"b\": 1}"` + "\n"},
		{"node", "node:path", "format", `{"dir":"a/b","base":"c.txt"}`, `"a/b/c.txt"` + "\n"},
		{"node", "node:path", "posix.format", `{"dir":"a","name":"c","ext":".d"}`, `"a/c.d"` + "\n"},
		{"node", "node:crypto", "getHashes", `{}`, `"sha256"`},
	} {
		t.Run(tc.module+" "+tc.function, func(t *testing.T) {
			program := map[string]string{"python": "python3", "node": "node"}[tc.language]
			if _, err := exec.LookPath("/usr/bin/" + program); err != nil {
				t.Skipf("%s is not installed here", program)
			}
			b.fill(t, map[string]string{
				"policy/profile.json": toolProfile(""),
				"params.json":         tc.params,
				"tools/T/tool.json":   `{"tool_id":"T","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`,
				"tools/T/A.json": `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"sdk","interface":{"sdk":{"language":"` + tc.language + `","import_path":"` + tc.module +
					`","function_mapping":{"f":"` + tc.function + `"}}},"transforms":{"output":[{"type":"parse","spec":"json"}]}}`,
			})
			answer := filepath.Join(b.dir, "answer.json")
			stdout, stderr, code := b.run(t, "tool", "call", "T", "--tools", filepath.Join(b.dir, "tools"), "--policy", filepath.Join(b.dir, "policy"), "--params", filepath.Join(b.dir, "params.json"), "--out", answer)
			text, err := os.ReadFile(answer)
			if code != 0 || err != nil || string(text) != tc.answer && (tc.function != "getHashes" || !strings.Contains(string(text), tc.answer)) {
				t.Errorf("exit status %d, answer %.200q (%v): %s%s", code, text, err, stdout, stderr)
			}
			_ = os.Remove(answer)
		})
	}
}
