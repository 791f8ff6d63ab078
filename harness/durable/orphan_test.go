package durable

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// TestOrphan: a temporary file is an orphan when its process has ended.
func TestOrphan(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("where files are put in place by programs that are killed")
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]bool{
		fmt.Sprintf(".fiador-%d-0", ended.Process.Pid): true,
		fmt.Sprintf(".fiador-%d-0", os.Getpid()):       false,
		".fiador-1-0":                                  false,
		".fiador-apply-1":                              false,
		fmt.Sprintf("fiador-%d-0", ended.Process.Pid):  false,
		"index": false,
	} {
		if got := Orphan(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
