package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// needSafeRun builds safe-run and returns the environment with its folder in PATH.
func needSafeRun(t *testing.T) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("commands are run on linux only")
	}
	needPrograms(t, "go")
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "safe-run"), filepath.Join(root, "cmd", "safe-run")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return []string{dir}
}

// TestReadmeLogs: the commands of the README's section on logging print the shown output.
// Names of logs differ, but the names in the README have the right form.
func TestReadmeLogs(t *testing.T) {
	path := needSafeRun(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n## Logging\n")
	if !found {
		t.Fatal("the README has no section on logging")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, p := range placeholders {
		section = regexp.MustCompile(p.text).ReplaceAllString(section, p.name)
	}
	p := runPage(t, section, path...)
	for _, fault := range p.faults() {
		t.Errorf("README.md, line %s", fault)
	}
	if len(p.steps) < 2 {
		t.Errorf("only %d commands found", len(p.steps))
	}
}
