package main

import (
	"runtime"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
)

// TestWorstIntents: each intent is within the limits of the schema, and is decided
// whatever the machine's speed. It has no more findings than a policy judges. It allocates
// no more than a fixed multiple of the allocations of a small intent.
func TestWorstIntents(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	s, err := newScene(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const most = 1500 // for the largest intents, which have 1024 times as many bytes
	allocations := func(src []byte) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.decide(src)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Error(err)
		}
		return float64(after.Mallocs - before.Mallocs)
	}
	allocations(sized(1 << 10))
	small := allocations(sized(1 << 10))
	list := worstIntents()
	if len(list) < 35 {
		t.Errorf("%d intents", len(list))
	}
	for _, w := range list {
		if len(w.src) > canon.MaxIntentBytes {
			t.Errorf("%s has %d bytes", w.name, len(w.src))
			continue
		}
		q, err := s.question(w.src)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		if n := len(q.Findings); n > 1000 {
			t.Errorf("%s has %d findings", w.name, n)
		}
		if took := allocations(w.src) / small; took > most {
			t.Errorf("%s takes %.0f times the allocations of a small intent", w.name, took)
		}
	}
}
