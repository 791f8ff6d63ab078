package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
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
