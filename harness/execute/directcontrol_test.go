package execute

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fiador/fiador/harness/sandbox"
)

// TestDirectControlPaths: a control path that a direct command made is removed and named.
// A changed one and a missing one are named.
func TestDirectControlPaths(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".vscode/tasks.json", "{}")
	write("mise.toml", "a")
	write(".envrc", "a")
	write("src/a.go", "a")
	write(".tool-versions", "{}")
	c, err := controlsOf(Task{Sandbox: sandbox.Request{Write: sandbox.Direct, Work: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.settle(); err != nil || len(got) > 0 {
		t.Fatalf("nothing was done: %q, %v", got, err)
	}
	write(".git/hooks/pre-commit", "evil")
	write("sub/.claude/settings.json", "{}")
	write(".vscode/launch.json", "{}")
	write("mise.toml", "longer")
	write("src/a.go", "longer")
	old := c.files[".tool-versions"].ModTime()
	write(".tool-versions", "[]")
	if err := os.Chtimes(filepath.Join(dir, ".tool-versions"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, ".envrc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, ".husky")); err != nil {
		t.Fatal(err)
	}
	// A second name of an existing control path was not moved.
	if err := os.Link(filepath.Join(dir, ".tool-versions"), filepath.Join(dir, ".autoenv")); err != nil {
		t.Fatal(err)
	}
	got, err := c.settle()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".autoenv", ".envrc", ".git", ".husky", ".vscode/launch.json", "mise.toml", ".tool-versions", "sub/.claude"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	for _, gone := range []string{".autoenv", ".git", ".husky", ".vscode/launch.json", "sub/.claude"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s stands there: %v", gone, err)
		}
	}
	for _, stays := range []string{".vscode/tasks.json", "mise.toml", "src/a.go"} {
		if _, err := os.Lstat(filepath.Join(dir, stays)); err != nil {
			t.Error(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, ".vscode"), filepath.Join(dir, "src/.vscode")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.settle(); err != nil || !slices.Contains(got, ".vscode") || !slices.Contains(got, "src/.vscode") {
		t.Errorf("moved: %q, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "src/.vscode/tasks.json")); err != nil || string(text) != "{}" {
		t.Errorf("what was moved is gone: %v", err)
	}
	if got, want := c.standing(), []string{".envrc", ".tool-versions", ".vscode", "mise.toml"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("the link was followed: %v", err)
	}
}

// TestDirectControlPathsShut: a command cannot hide a control path in a folder by removing
// the folder's permissions. Such a control path is removed. No folder is closed to root.
func TestDirectControlPathsShut(t *testing.T) {
	dir := t.TempDir()
	c, err := controlsOf(Task{Sandbox: sandbox.Request{Write: sandbox.Direct, Work: dir}})
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"shut": 0o311, ".claude": 0, "kept": 0o555} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, ".envrc"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(folder, 0o755) })
	}
	want := []string{".claude", "kept/.envrc", "shut"}
	if os.Geteuid() == 0 {
		want = []string{".claude", ".claude/.envrc", "kept/.envrc", "shut/.envrc"}
	}
	if got, err := c.settle(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, gone := range []string{".claude", "kept/.envrc"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s stands there: %v", gone, err)
		}
	}
}
