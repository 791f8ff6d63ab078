package packcmd

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestInTurn: results come in the order of the items, whichever is ready first. The caller
// can stop at any result.
func TestInTurn(t *testing.T) {
	var items []int
	for i := range 1000 {
		items = append(items, i)
	}
	for _, workers := range []int{1, 2, 7} {
		var got []int
		for r := range inTurn(items, workers, func(i int) int {
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
			return 2 * i
		}) {
			got = append(got, r/2)
		}
		if !slices.Equal(got, items) {
			t.Errorf("%d workers: %v", workers, got)
		}
		got = nil
		for r := range inTurn(items, workers, func(i int) int { return i }) {
			if got = append(got, r); len(got) == 3 {
				break
			}
		}
		if !slices.Equal(got, items[:3]) {
			t.Errorf("%d workers, stopped: %v", workers, got)
		}
	}
	for range inTurn(nil, 2, func(i int) int { return i }) {
		t.Error("a result of nothing")
	}
}

// TestInTurnKeepsFew: while the first item takes long, only few others are processed.
func TestInTurnKeepsFew(t *testing.T) {
	const workers, enough = 2, 500
	var done atomic.Int64
	first := make(chan struct{})
	items := make([]int, 10*enough)
	items[0] = 1
	count := 0
	for range inTurn(items, workers, func(held int) int {
		if held == 1 {
			select {
			case <-first:
			case <-time.After(200 * time.Millisecond):
			}
		}
		if done.Add(1) == enough {
			close(first)
		}
		return held
	}) {
		if count == 0 && done.Load() >= enough {
			t.Errorf("%d results wait for the first", done.Load())
		}
		count++
	}
	if count != len(items) {
		t.Errorf("%d results of %d", count, len(items))
	}
}
