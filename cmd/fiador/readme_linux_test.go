package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestReadme runs the blocks of the README on a terminal, in their order: in an empty folder,
// and in a folder with the entries of a clone, so that no name is used twice. Each block
// prints what the README shows. The block about the source is marked "sh source" and is left
// out: a folder without the source cannot run it (TestReadmeSource).
func TestReadme(t *testing.T) {
	t.Parallel()
	needSandbox(t, "node", "sh")
	needPrograms(t, "jq")
	path := needSafeRun(t)
	file := filepath.Join(root, "README.md")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	clone := func(dir string) {
		for _, e := range entries {
			if e.Name() == ".git" { // an empty one would be a broken repository
				continue
			}
			if e.IsDir() {
				err = os.Mkdir(filepath.Join(dir, e.Name()), 0o755)
			} else {
				err = os.WriteFile(filepath.Join(dir, e.Name()), nil, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, prepare := range map[string]func(dir string){"empty": nil, "clone": clone} {
		t.Run(name, func(t *testing.T) {
			p := runSteps(t, string(src), pageRun{terminal: rehearsal.Terminal, prepare: prepare, path: path})
			if *updateDocs && prepare == nil {
				if err := os.WriteFile(file, []byte(p.updated()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, fault := range p.faults() {
				t.Errorf("README.md:%s", fault)
			}
			if len(p.steps) < 25 {
				t.Errorf("only %d commands found", len(p.steps))
			}
		})
	}
}

// TestReadmeSource: the first of the two commands for a clone runs in a clone. The second is
// this test and all others.
func TestReadmeSource(t *testing.T) {
	t.Parallel()
	needPrograms(t, "go")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\ngo run ./cmd/fiador demo ", "\ngo test ./... "} {
		if !strings.Contains(string(readme), line) {
			t.Errorf("the README does not have %q", line)
		}
	}
	cmd := exec.Command("go", "run", "./cmd/fiador", "demo")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	for _, outcome := range []string{"BUNDLE", "CLARIFY", "REFUSE", "Try next:\n  go run ./cmd/fiador run "} {
		if err != nil || !strings.Contains(string(out), outcome) {
			t.Errorf("%v, without %q: %s", err, outcome, out)
		}
	}
}
