package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestReadmePromotes: the commands of the README that execute and promote put the page
// where the README says.
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
	cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "site", "out", "page.html")); err != nil || !strings.Contains(string(page), "<li>faster</li>") {
		t.Errorf("%q, %v", page, err)
	}
}

// TestReadmeAudits: the commands of the README's section on auditing print the shown
// output. They run in a folder with the entries of a clone of the repository, so that no
// name is used twice.
func TestReadmeAudits(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## Auditing\n")
	section, _, ended := strings.Cut(section, "\n## ")
	entries, err := os.ReadDir(root)
	if !ok || !ended || err != nil {
		t.Fatal("the README has no such section, or there is no repository: ", err)
	}
	whole, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	clone := "cp -R '" + filepath.Join(whole, "examples") + "' ."
	for _, e := range entries {
		if e.IsDir() && e.Name() != "examples" {
			clone += "\nmkdir " + e.Name()
		}
	}
	for _, p := range placeholders {
		section = regexp.MustCompile(p.text).ReplaceAllString(section, p.name)
	}
	p := runPage(t, "```sh\n"+clone+"\n```\n"+section)
	for _, fault := range p.faults() {
		t.Errorf("README.md, section on auditing: %s", fault)
	}
	if len(p.steps) < 4 {
		t.Errorf("only %d commands found", len(p.steps))
	}
}
