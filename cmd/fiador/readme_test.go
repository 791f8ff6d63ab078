package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmePromotes: the commands of the README that execute and promote, pasted, leave
// the page where it says.
func TestReadmePromotes(t *testing.T) {
	needSandbox(t, "node")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## The same, executed\n")
	_, block, shown := strings.Cut(section, "```console\n")
	block, _, ended := strings.Cut(block, "```")
	if !ok || !shown || !ended {
		t.Fatal("the README has no such section")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", strings.ReplaceAll("\n"+block, "\n$ ", "\n"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "site", "out", "page.html")); err != nil || !strings.Contains(string(page), "<li>faster</li>") {
		t.Errorf("%q, %v", page, err)
	}
}
