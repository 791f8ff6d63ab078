//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/command"
)

// TestTemporaryFolderInMemory: copies and the temporary folder of a command are in memory,
// and no cgroup counts them. Their size then counts as memory of the processes.
func TestTemporaryFolderInMemory(t *testing.T) {
	t.Parallel()
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil || st.Type != unix.TMPFS_MAGIC || int64(st.Bavail)*st.Bsize < 400*mib {
		t.Skip("/dev/shm has no room for 400 MiB in memory")
	}
	dir, err := os.MkdirTemp("/dev/shm", "fiador-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script string
		full   bool
	}{
		{`for i in 1 2 3; do head -c 20000000 /proc/self/exe /usr/bin/perl >$TMPDIR/$i; done; sleep 1`, false},
		{`i=0; while [ $i -lt 30 ]; do head -c 10000000 /dev/urandom >$TMPDIR/$i; i=$((i+1)); done; sleep 60`, true},
		{`exec 3>$TMPDIR/gone; rm $TMPDIR/gone; while head -c 1000000 /dev/urandom >&3; do :; done; sleep 2`, false},
	} {
		h := NewHost(dir)
		h.ungrouped.Store(true)
		r := Request{Write: Staged, Limits: limits(), Least: Confined, Most: Confined, Actions: []Action{{Argv: []string{"sh", "-c", c.script}}}}
		r.Limits.MemoryMB, r.Limits.OutputBytes = 256, 64*mib
		s, err := h.Start(t.Context(), r)
		if err != nil {
			h.Close()
			t.Skip(err)
		}
		var end End
		res, err := command.Run(t.Context(), s.Command(0, actionTime, &end), command.Spec{Stderr: command.Stream{Keep: 1000}})
		if err != nil || end.OutOfMemory != c.full || c.full != (res.Signal == unix.SIGKILL) {
			t.Errorf("%s: %v, %+v, %+v, %q", c.script, err, res.Exit, end, res.Stderr.Bytes)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
