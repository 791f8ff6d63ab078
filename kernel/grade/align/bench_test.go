package align

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// retrievals is a trace of one unit for each event: the query of the i-th is of(i), and its
// document is found(i).
func retrievals(n int, of, found func(i int) int) map[string]any {
	tr := trace{output: "done"}
	for i := range n {
		tr.events = append(tr.events, object("type", "retrieval", "ts", numberOf(i), "query", fmt.Sprint(of(i)), "doc_ids", []any{fmt.Sprint(found(i))}))
	}
	return tr.doc()
}

// worstPairs are pairs of traces that are hard to align.
func worstPairs() map[string][2]map[string]any {
	r := rand.New(rand.NewPCG(5, 6))
	one := func(int) int { return 1 }
	index := func(i int) int { return i }
	coin := func(int) int { return r.IntN(2) }
	pairs := make(map[string][2]map[string]any)
	steps := stepsOf(5000, 0, r)
	pairs["one-change"] = [2]map[string]any{joined(steps).doc(), joined(append([][]any{step(1, 1)}, steps...)).doc()}
	pairs["calls-different"] = [2]map[string]any{joined(steps).doc(), joined(stepsOf(5000, 1000, r)).doc()}
	for _, n := range []int{3990, 9000} {
		back := func(i int) int { return n - i }
		pairs[fmt.Sprint("all-different-", n)] = [2]map[string]any{retrievals(n, index, one), retrievals(n, func(i int) int { return n + i }, one)}
		pairs[fmt.Sprint("backwards-", n)] = [2]map[string]any{retrievals(n, index, one), retrievals(n, back, one)}
		pairs[fmt.Sprint("backwards-and-changed-", n)] = [2]map[string]any{retrievals(n, index, index), retrievals(n, back, func(i int) int { return n + i })}
		pairs[fmt.Sprint("equal-keys-", n)] = [2]map[string]any{retrievals(n, one, coin), retrievals(n, one, coin)}
		pairs[fmt.Sprint("equal-", n)] = [2]map[string]any{retrievals(n, one, one), retrievals(n, one, one)}
	}
	return pairs
}

func BenchmarkAlign(b *testing.B) {
	for name, p := range worstPairs() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if Align(p[0], p[1]) == nil {
					b.Fatal("nil")
				}
			}
		})
	}
}

// TestAlignTakesLittleMemory: no pair of traces takes memory that grows with the square of its length.
func TestAlignTakesLittleMemory(t *testing.T) {
	for name, p := range worstPairs() {
		units := len(Units(p[0])) + len(Units(p[1]))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := Align(p[0], p[1])
		runtime.ReadMemStats(&after)
		wellFormed(t, a, p[0], p[1])
		if each := (after.TotalAlloc - before.TotalAlloc) / uint64(units); each > 3<<10 {
			t.Errorf("%s: %d bytes for each of %d units", name, each, units)
		}
		if long := units > 2*maxMyers; a.Approximate && !long || long && !a.Approximate && !strings.HasPrefix(name, "equal-") {
			t.Errorf("%s: approximate %v", name, a.Approximate)
		}
	}
}
