package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness/durable"
)

// folder returns an empty folder, opened.
func folder(t *testing.T) (dir string, root *os.Root) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

// begin begins a file with a text.
func begin(t *testing.T, root *os.Root, name, text string) *durable.File {
	t.Helper()
	f, err := durable.Create(root, name, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f
}

// stands fails the test unless the folder has exactly one file, with a text. An empty text
// stands for no file.
func stands(t *testing.T, dir, name, text string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		if len(list) > 0 {
			t.Errorf("%v is left", list)
		}
		return
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(b) != text || len(list) != 1 {
		t.Errorf("%s has %q, %v, and the folder has %v", name, b, err, list)
	}
}

func TestEnds(t *testing.T) {
	for what, c := range map[string]struct {
		old  string
		end  func(*durable.File) error
		want error
		left string
	}{
		"replace an old file":   {"old", (*durable.File).Replace, nil, "new"},
		"replace nothing":       {"", (*durable.File).Replace, nil, "new"},
		"add":                   {"", (*durable.File).Add, nil, "new"},
		"add where a file is":   {"old", (*durable.File).Add, fs.ErrExist, "old"},
		"abort":                 {"old", (*durable.File).Abort, nil, "old"},
		"abort a new file":      {"", (*durable.File).Abort, nil, ""},
		"replace after a check": {"old", refused, errRefused, "old"},
	} {
		t.Run(what, func(t *testing.T) {
			dir, root := folder(t)
			if c.old != "" {
				if err := os.WriteFile(filepath.Join(dir, "f"), []byte(c.old), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.end(begin(t, root, "f", "new")); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			stands(t, dir, "f", c.left)
		})
	}
}

var errRefused = errors.New("refused")

func refused(f *durable.File) error {
	f.Check = func() error { return errRefused }
	return f.Replace()
}

// TestWrite: a new file has the requested permissions, in a folder beneath the root too.
// If a file is there already, the error names it.
func TestWrite(t *testing.T) {
	dir, root := folder(t)
	if err := root.Mkdir("sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(root, "sub/key", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	stands(t, filepath.Join(dir, "sub"), "key", "secret")
	if info, err := root.Stat("sub/key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	err := durable.Write(root, "sub/key", []byte("other"), 0o600)
	var at *fs.PathError
	if !errors.As(err, &at) || at.Path != "sub/key" || !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	stands(t, filepath.Join(dir, "sub"), "key", "secret")
	if err := durable.Write(root, "none/key", nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestRemove: a file and an empty folder are removed, and a full folder stays.
func TestRemove(t *testing.T) {
	dir, root := folder(t)
	if err := errors.Join(root.Mkdir("sub", 0o755), durable.Write(root, "sub/f", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := durable.Remove(root, "sub"); err == nil {
		t.Error("a full folder was removed")
	}
	for _, name := range []string{"sub/f", "sub"} {
		if err := durable.Remove(root, name); err != nil {
			t.Error(err)
		}
	}
	if err := durable.Remove(root, "sub"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	stands(t, dir, "", "")
}
