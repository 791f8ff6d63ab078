//go:build linux && (amd64 || arm64)

package worker_test

import (
	"testing"

	"github.com/fiador/fiador/harness/sandbox"
)

// TestSmoke: one command changes one file.
func TestSmoke(t *testing.T) {
	for _, user := range users() {
		l := newAction(t, specOf(sandbox.Full, sh("echo hello; echo x >a")), "", nil)
		l.user = user
		a := l.perform(t)
		if a.Refused != nil || string(a.files["stdout/0"]) != "hello\n" || string(a.files["files/0"]) != "x\n" || text64(t, a.Changes[0].Path) != "a" {
			t.Errorf("%s", a.result)
		}
	}
}
