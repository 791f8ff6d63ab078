package treetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Filled returns a new folder with these files.
func Filled(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		Put(t, filepath.Join(dir, name), text)
	}
	return dir
}

// Put writes a file, and makes the folders above it.
func Put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
