package agents

import (
	"os"
	"path/filepath"
	"testing"
)

// client returns the client of a name.
func client(t testing.TB, name string) Client {
	t.Helper()
	for _, c := range Clients {
		if c.Name == name {
			c.Find(t)
			return c
		}
	}
	t.Fatalf("no client is named %s", name)
	panic("not reached")
}

// place returns a place of its own for a client, with the MCP server in it.
func place(t testing.TB) Place {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Place{Dir: dir, Seconds: 30}
	p.Server = []string{filepath.Join(dir, "probe"), "probe", p.Project()}
	if err := os.Symlink(self, p.Server[0]); err != nil {
		t.Fatal(err)
	}
	return p
}

// write writes a file and makes its folder.
func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
