//go:build linux && (amd64 || arm64)

package harness_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
)

// holding counts what this process holds.
type holding struct{ descriptors, mounts, goroutines int }

func (h holding) within(o holding) bool {
	return h.descriptors <= o.descriptors && h.mounts <= o.mounts && h.goroutines <= o.goroutines
}

func held(t *testing.T) holding {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return holding{len(files), rehearsal.Mounts(t, "/fiador-test-"), runtime.NumGoroutine()}
}

// heap returns the bytes that are in use after a collection. The second one frees what the
// first one has finalized, and what pools have kept.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestCallsLeaveNothing: many calls in one process leave no descriptor, mount or goroutine,
// and no memory. The first calls do not count: they open what a process keeps. One isolation
// has 1 000 calls in the full form.
func TestCallsLeaveNothing(t *testing.T) {
	const most = 4 << 20
	first := rehearsal.Count(10, 100)
	for i, isolation := range harnesstest.Tiers {
		all := rehearsal.Count(30, []int{1000, 200}[i])
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
				"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", shellTool, parseJSON),
			}))
			req := x.Request(intents.Actions(callT(`echo '[1, 2]'; echo x >$TMPDIR/x`)), harness.Folders{})
			calls := func(n int) {
				for range n {
					rep, err := harness.Run(t.Context(), x.Deps, x.Gate, req)
					if err != nil {
						t.Fatal(err)
					}
					if !rep.Result.Decision.Accepted || len(rep.Execution.Calls) != 1 {
						t.Fatalf("%s", rep.Bytes)
					}
					if err := rep.Execution.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			calls(first)
			before, bytesBefore := held(t), heap()
			calls(all - first)
			after := held(t)
			for end := time.Now().Add(time.Minute); !after.within(before) && time.Now().Before(end); after = held(t) {
				time.Sleep(10 * time.Millisecond) // what has just ended is still going away
			}
			if !after.within(before) {
				t.Errorf("%d calls: %+v has become %+v", all-first, before, after)
			}
			if grown := heap() - bytesBefore; grown > most {
				t.Errorf("%d calls have left %d bytes", all-first, grown)
			} else {
				t.Logf("%d calls: %+v, then %+v, and %d bytes more", all-first, before, after, grown)
			}
		})
	}
}
