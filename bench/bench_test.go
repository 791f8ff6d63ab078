package main

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		list []int64
		want int64
	}{{[]int64{3}, 3}, {[]int64{9, 1, 5}, 5}, {[]int64{7, 1, 5, 3, 9}, 5}} {
		before := slices.Clone(tc.list)
		if got := median(tc.list); got != tc.want {
			t.Errorf("median of %v is %d", tc.list, got)
		}
		if !slices.Equal(tc.list, before) {
			t.Errorf("%v was reordered", before)
		}
	}
}

// TestIntentsAreAllowed: what is timed is a decision that allows, at the size
// that the results name.
func TestIntentsAreAllowed(t *testing.T) {
	s, err := newScene(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{
		"1 KiB": sized(1 << 10), "1 MiB": sized(1 << 20), "256 actions": crowded(1 << 20), "numbers": hostile(1 << 20),
	} {
		rep, err := s.decide(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rep.Result.KernelResultKind != kernel.OutcomeBundle {
			t.Errorf("%s: %s %v", name, rep.Result.KernelResultKind, rep.Result.Decision.Reasons)
		}
		if least := canon.MaxIntentBytes * 9 / 10; name != "1 KiB" && (len(src) < least || len(src) > canon.MaxIntentBytes) {
			t.Errorf("%s has %d bytes", name, len(src))
		}
	}
	if n := len(sized(1 << 10)); n < 900 || n > 1100 {
		t.Errorf("1 KiB has %d bytes", n)
	}
}
