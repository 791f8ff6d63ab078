package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/manual"
	"github.com/fiador/fiador/harness/saferun"
)

// manualPages are the pages of all commands, topics and programs.
func manualPages(t *testing.T) []manual.Page {
	t.Helper()
	list := manual.Pages(cli.Root(&cli.App{}, commands(&cli.App{})...))
	if len(list) < 90 || list[len(list)-1].Short == "" {
		t.Fatalf("%d pages, and the last is %+v", len(list), list[len(list)-1])
	}
	return list
}

// TestCommandsPage: docs/cli.md says what the help of the commands says.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	page := "# The command line\n\nEvery command, as its `--help` describes it. The test that fails when this\npage is stale also writes it: `-run CommandsPage -update-pages`.\n" +
		string(manual.Markdown(manualPages(t)))
	file := filepath.Join(root, "docs", "cli.md")
	if *updateDocs {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page {
		t.Errorf("docs/cli.md is not what the commands say (%v): go test ./cmd/fiador -run CommandsPage -update-pages writes it", err)
	}
}

// TestManPages: mandoc finds nothing to complain about in a man page, and shows every word
// of the help.
func TestManPages(t *testing.T) {
	t.Parallel()
	pages := manualPages(t)
	dir := t.TempDir()
	var names []string
	for _, p := range pages {
		names = append(names, filepath.Join(dir, p.File()))
		if err := os.WriteFile(names[len(names)-1], p.Man("0.1.0", "2026-01-02"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	needPrograms(t, "mandoc")
	if out, err := exec.Command("mandoc", append([]string{"-Tlint", "-Wwarning"}, names...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	var help bytes.Buffer
	saferun.Run([]string{"--help"}, saferun.System{Stdout: &help})
	shown, err := exec.Command("mandoc", "-Tascii", "-O", "width=200", names[len(names)-1]).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(plain(shown))
	for word := range strings.FieldsSeq(strings.NewReplacer("Usage:", "", "Environment:", "ENVIRONMENT", "Exit codes:", "EXIT STATUS").Replace(help.String())) {
		if !strings.Contains(text, word) {
			t.Errorf("safe-run.1 lacks %q", word)
		}
	}
}

// plain returns the output of mandoc without what is printed twice to be bold.
func plain(b []byte) []byte {
	var out []byte
	for i, c := range b {
		if c != '\b' && (i+1 >= len(b) || b[i+1] != '\b') {
			out = append(out, c)
		}
	}
	return out
}
