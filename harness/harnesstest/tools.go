package harnesstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/specs"
)

// Registry makes a registry of files, by their names, with its index.
func Registry(t *testing.T, set *specs.Set, files map[string]string) harness.Tools {
	t.Helper()
	tools, err := MakeRegistry(t, set, files)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// MakeRegistry is Registry for files that may have a fault.
func MakeRegistry(t *testing.T, set *specs.Set, files map[string]string) (harness.Tools, error) {
	t.Helper()
	dir, err := ToolsFolder(t, set, files)
	if err != nil {
		return nil, err
	}
	return OpenTools(t, set, dir), nil
}

// OpenTools opens a folder of tools until the end of the test.
func OpenTools(t *testing.T, set *specs.Set, dir string) harness.Tools {
	t.Helper()
	r, err := dispatch.Open(set, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return harness.ToolsOf(r)
}

// ToolsFolder makes a folder of files, by their names, with its index.
func ToolsFolder(t *testing.T, set *specs.Set, files map[string]string) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	put := func(name string, text []byte) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		put(name, []byte(text))
	}
	index, _, err := dispatch.MakeIndex(set, dir)
	if err != nil {
		return "", err
	}
	put(dispatch.IndexFile, index)
	return dir, nil
}

// Tool returns the document of the active tool T with adapters.
func Tool(adapters string) string {
	return `{"tool_id":"T","name":"t","version":"1.0.0","status":"active","adapters":[` + adapters + `]}`
}

// CLI returns the document of an adapter of the tool T, of type cli. cli holds the members of
// its interface, and more further members of the document.
func CLI(id, cli, more string) string {
	return `{"adapter_id":"` + id + `","name":"a","version":"1.0.0","tool_id":"T","type":"cli","interface":{"cli":{` + cli + `}}` + more + `}`
}
