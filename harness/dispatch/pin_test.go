package dispatch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// TestPin: the digests of a server's tools take the place of the old ones, and everything else
// of the document stays as it is written.
func TestPin(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	a, b := canon.Sum([]byte("a")), canon.Sum([]byte("b"))
	block := "tools:\n  \"add\": \"" + string(a) + "\"\n  \"list\": \"" + string(b) + "\"\n"
	for _, tc := range []struct{ file, src, want string }{
		{"s.yaml", "# a server\ncommand: [s, \".\"] # its folder\n", "# a server\ncommand: [s, \".\"] # its folder\n" + block},
		{"s.yaml", "command: [s]", "command: [s]\n" + block},
		{"s.yaml", "tools:\n  list: \"" + string(a) + "\"\n  # old\n  x: \"" + string(a) + "\"\ncommand: [s]\n", block + "command: [s]\n"},
		{"s.yaml", "command: [s]\ntools: {x: \"" + string(a) + "\"}\nenv: {A: b}\n", "command: [s]\n" + block + "env: {A: b}\n"},
		{"s.yaml", "command: [s]\n\"tools\":\n    x:\n      \"" + string(a) + "\"\n\n# end\n", "command: [s]\n" + block + "# end\n"},
		{"s.json", `{"tools":{},"command":["s"]}`, "{\n  \"command\": [\n    \"s\"\n  ],\n  \"tools\": {\n    \"add\": \"" + string(a) + "\",\n    \"list\": \"" + string(b) + "\"\n  }\n}\n"},
		{"s.yaml", "command: [s]\ntools:\n  {x: \"" + string(a) + "\",\ny: \"" + string(a) + "\"}\n", ""}, // a line of the value begins at the margin
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "servers"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "servers", tc.file), []byte(tc.src), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := dispatch.ReadServer(set, dir, "s")
		if err != nil {
			if tc.want != "" {
				t.Errorf("%s: %v", tc.src, err)
			}
			continue
		}
		got, err := p.With(map[string]canon.ContentHash{"list": b, "add": a})
		if (err == nil) != (tc.want != "") || err == nil && string(got) != tc.want {
			t.Errorf("%s: %s (%v)", tc.src, got, err)
		}
	}
	if _, err := dispatch.ReadServer(set, t.TempDir(), "../s"); err == nil {
		t.Error("a name with a path is a server")
	}
}
