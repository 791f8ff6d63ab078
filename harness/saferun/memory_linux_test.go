package saferun_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// mostMemory is the limit for the resident memory of safe-run. The output of the runs here
// is larger.
const mostMemory = 64 << 20

// space skips the test unless a folder has room for so many bytes.
func space(t *testing.T, folder string, need int64) {
	t.Helper()
	var fs syscall.Statfs_t
	ok(t, syscall.Statfs(folder, &fs))
	if free := int64(fs.Bavail) * fs.Bsize; free < need+1<<30 {
		t.Skipf("the disk has %d MB free, and %d MB are needed", free>>20, (need+1<<30)>>20)
	}
}

// peak returns the peak of the resident memory of safe-run, as it was shortly before the
// end, and how often it was looked at.
func (p *tool) peak(t *testing.T) (r result, most int64, looks int) {
	t.Helper()
	status := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for ; ; time.Sleep(2 * time.Millisecond) {
			text, err := os.ReadFile(status)
			if _, after, found := bytes.Cut(text, []byte("VmHWM:")); err == nil && found {
				kb, err := strconv.ParseInt(string(bytes.Fields(after)[0]), 10, 64)
				if err != nil {
					t.Error(err)
				}
				most = max(most, kb<<10)
				looks++
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	r = p.wait()
	close(done)
	watcher.Wait()
	return r, most, looks
}

// null opens /dev/null, for output that the test ignores.
func null(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	ok(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestBoundedMemory: memory does not grow with the output, or with a long line of it,
// while the command runs or while the log is written. TestRecordingOrder covers the
// switches between two streams.
func TestBoundedMemory(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	const mb = 1_000_000
	flood := int64(rehearsal.Count(200, 1000)) * mb
	for _, tc := range []struct {
		name   string
		env    string
		script string
		size   int64 // of the output
		code   int
	}{
		{"a flood", "", fmt.Sprintf(`head -c %d /dev/zero`, flood), flood, 0},
		{"lines", "SAFE_SNIPPET_LINES=10000", `yes "a line of some length, as many programs print, about a hundred bytes until its end, which is here" | head -c 80000000; exit 3`, 80 * mb, 3},
		{"one endless line", "SAFE_SNIPPET_LINES=1", `head -c 80000000 /dev/zero; exit 3`, 80 * mb, 3},
		{"one endless line of other bytes", "", `head -c 80000000 /dev/zero | tr '\0' '\377'; exit 3`, 80 * mb, 3},
		{"merged", "SAFE_RUN_VIEW=merged", `yes "a line of some length, so that there are not too many" | head -c 80000000; exit 3`, 80 * mb, 3},
		{"a long line beside short ones", "", `head -c 40000000 /dev/zero & yes "a line of some length, so that there are not too many" | head -c 40000000 >&2; wait; exit 3`, 80 * mb, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			space(t, dir, 4*tc.size)
			var r result
			var most int64
			rehearsal.Again(t, 4, func(int) string {
				looks := 0
				o := options{dir: dir, env: []string{"TMPDIR=" + dir, tc.env}, stdout: null(t), stderr: null(t)}
				if r, most, looks = start(t, o, sh(tc.script)...).peak(t); looks < 5 {
					return fmt.Sprintf("the memory was looked at %d times", looks)
				}
				return ""
			})
			t.Logf("%d MB of output, %.1f MB of memory", tc.size/mb, float64(most)/mb)
			if r.code != tc.code || most > mostMemory || most == 0 {
				t.Errorf("exit status %d, and %d bytes of memory for %d bytes of output", r.code, most, tc.size)
			}
			list := logs(t, filepath.Join(dir, ".agent/FAIL-LOGS"))
			if (len(list) > 0) != (tc.code != 0) {
				t.Fatalf("there is %q", list)
			}
			for _, name := range list {
				info, err := os.Stat(filepath.Join(dir, ".agent/FAIL-LOGS", name))
				if err != nil || info.Size() < tc.size {
					t.Errorf("the log has %d bytes, %v", info.Size(), err)
				}
			}
		})
	}
}
