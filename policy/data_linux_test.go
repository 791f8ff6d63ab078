package policy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// takeData fills memory in a watched function, with a watchdog that does not check
// memory.
func takeData() int {
	blind := Limits{Poll: time.Hour, Deadline: time.Hour, Grace: time.Hour, MemoryBytes: 1 << 40}
	t := task{what: "work", failed: KindEval, stop: func() {}}
	_, _ = watched(context.Background(), blind, t, func() (int, error) {
		var kept [][]byte
		for range 4096 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		return len(kept), nil
	})
	return 0
}

// peakMiB returns the greatest memory of a process.
func peakMiB(s *os.ProcessState) int64 { return s.SysUsage().(*syscall.Rusage).Maxrss >> 10 }

// TestDataLimit: a process that takes memory unseen by the watchdog ends with status 2,
// below a gibibyte. The limit stops what asks for memory first: the heap, or the stack of a
// new thread, in a build with cgo.
func TestDataLimit(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dataEnv+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	said := slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "pthread_create failed: Resource temporarily unavailable"}, func(s string) bool {
		return strings.Contains(string(out), s)
	})
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !said {
		t.Errorf("%v: %.300s", err, out)
	}
	if peak := peakMiB(cmd.ProcessState); peak > 1024 {
		t.Errorf("%d MiB of memory were taken", peak)
	}
}

// ownDataLimit returns the limit of this process's data, and a function that reads the
// limit again. It skips the test if the limit is not above the limit for policies.
func ownDataLimit(t *testing.T) (before syscall.Rlimit, read func() syscall.Rlimit) {
	t.Helper()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	read = func() (l syscall.Rlimit) {
		if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if before = read(); before.Cur <= dataBytes {
		t.Skipf("the process may have no more than %d bytes of data here", before.Cur)
	}
	return before, read
}

// neverLimited keeps the limit away from this process. The race detector takes memory in large
// pieces that no question to the system has seen, and ends the process when it gets none.
func neverLimited() { dataLimit.users++ }

// TestDataLimitIsPutBack: the limit holds only while a policy is at work.
func TestDataLimitIsPutBack(t *testing.T) {
	before, read := ownDataLimit(t)
	for _, fails := range []bool{false, true} {
		during, _ := watched(context.Background(), patient(), task{what: "work", stop: func() {}}, func() (syscall.Rlimit, error) {
			if fails {
				panic("within")
			}
			return read(), nil
		})
		if after := read(); !fails && (during.Cur >= before.Cur || during.Max != before.Max) || after != before {
			t.Errorf("limits are %v, %v and %v", before, during, after)
		}
	}
}

// TestDataLimitHoldsForAll: if several policies are at work at once, the limit holds
// until the last policy is done.
func TestDataLimitHoldsForAll(t *testing.T) {
	before, read := ownDataLimit(t)
	first, second := limitData(), limitData()
	first()
	if during := read(); during.Cur >= before.Cur {
		t.Errorf("the limit is %v while the second is at work", during)
	}
	third := limitData()
	second()
	if during := read(); during.Cur >= before.Cur {
		t.Errorf("the limit is %v while the third is at work", during)
	}
	third()
	if after := read(); after != before {
		t.Errorf("the limit is %v at the end, %v before", after, before)
	}
}

// TestOwnData: ownData follows the process's data, whether the system is asked or not. The
// limit is never below what the process has.
func TestOwnData(t *testing.T) {
	dataLimit.Lock()
	defer dataLimit.Unlock()
	const piece, pieces = 16 << 20, 20
	var kept [][]byte
	for range pieces {
		kept = append(kept, bytes.Repeat([]byte{1}, piece))
		if own, system := ownData(), systemData(); own+dataMore <= system || own > system+dataMore {
			t.Errorf("%d bytes, and the system says %d", own, system)
		}
	}
	runtime.KeepAlive(kept)
}

// TestAskingForDataIsRare: an evaluation does not ask the system how much data there is.
func TestAskingForDataIsRare(t *testing.T) {
	limitData()()
	limit, question := testing.AllocsPerRun(100, func() { limitData()() }), testing.AllocsPerRun(100, func() { systemData() })
	if limit >= question {
		t.Errorf("a limit makes %v objects, and a question to the system %v", limit, question)
	}
}
