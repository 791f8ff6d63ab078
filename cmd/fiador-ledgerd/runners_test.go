package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestRunnersAtOnce: many runners run one intent with one run id at once. All get the same
// answer, byte for byte, and the log has one entry. Where half of them have another policy, the
// half that comes later gets no decision.
func TestRunnersAtOnce(t *testing.T) {
	server := newPlace(t).process()
	runners := rehearsal.Count(8, 64)
	race := func(run string, policies ...string) {
		var all sync.WaitGroup
		var mu sync.Mutex
		said, decided := map[string]int{}, map[string]int{}
		for i := range runners {
			m, policy := server.machine(t, "ci"), policies[i%len(policies)]
			all.Go(func() {
				out, errs, status := m.run("run", "intent.json", "--run-id", run, "--policy", policy)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case status == 0 && strings.Contains(out, `"accepted":true`):
					said[out]++
					decided[policy]++
				case status != 2 || len(policies) == 1 || !strings.Contains(out+errs, "the run id was recorded before") || strings.Contains(out, "accepted"):
					t.Errorf("%s, policy %s: exit status %d\n%s%s", run, policy, status, out, errs)
				}
			})
		}
		all.Wait()
		if len(said) != 1 || len(decided) != 1 {
			t.Fatalf("%s: %d different decisions, of policies %v", run, len(said), decided)
		}
		for _, n := range said {
			if n != runners/len(policies) {
				t.Errorf("%s: %d decisions of %d runners", run, n, runners)
			}
		}
	}
	race("one", "default")
	race("two", "default", "dev")
	if n := len(server.log(3)); n != 3 {
		t.Errorf("the log has %d entries", n)
	}
}
