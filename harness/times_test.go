package harness

import (
	"testing"
	"time"
)

// TestTimesLieInTheRun: what is told of an execution lies in its run, by one clock, whether
// the clock was set meanwhile, stands still, or is not that of the execution.
func TestTimesLieInTheRun(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		now, started, ended time.Time
		from, to            time.Time
	}{
		"in order":       {at.Add(9 * time.Second), at.Add(time.Second), at.Add(2 * time.Second), at.Add(time.Second), at.Add(2 * time.Second)},
		"set back":       {at.Add(-time.Hour), at.Add(-time.Hour), at.Add(-time.Minute), at, at},
		"stands still":   {at, at.Add(time.Hour), at.Add(2 * time.Hour), at, at},
		"set back later": {at.Add(time.Second), at.Add(time.Second), at.Add(5 * time.Second), at.Add(time.Second), at.Add(time.Second)},
	} {
		completed := ended(at, tc.now)
		if completed.Before(at) {
			t.Errorf("%s: ended %s before it started", name, completed)
		}
		p := &Performed{Started: tc.started, Ended: tc.ended}
		if from, to := p.times(); from != tc.started || to != tc.ended {
			t.Errorf("%s: without a run %s to %s", name, from, to)
		}
		p.within(at, completed)
		if from, to := p.times(); !from.Equal(tc.from) || !to.Equal(tc.to) {
			t.Errorf("%s: %s to %s, want %s to %s", name, from, to, tc.from, tc.to)
		}
	}
	began := time.Now()
	now := began.Add(time.Minute) // by the clock that nobody sets
	if d := ended(began, now).Sub(began); d != time.Minute {
		t.Errorf("a minute later is %s later", d)
	}
}
