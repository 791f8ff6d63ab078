package harness

import (
	"slices"
	"testing"
	"time"
)

// TestTimesLieInTheRun: the times of an execution lie within its run, by one clock, even
// if that clock was set meanwhile or stands still.
func TestTimesLieInTheRun(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct{ says, told []time.Duration }{
		"in order":       {[]time.Duration{1, 2, 9}, []time.Duration{1, 2, 9}},
		"set back":       {[]time.Duration{-3600, -60, -3600}, []time.Duration{0, 0, 0}},
		"stands still":   {[]time.Duration{0, 0, 0}, []time.Duration{0, 0, 0}},
		"set back later": {[]time.Duration{1, 5, 1}, []time.Duration{1, 5, 5}},
		"set forward":    {[]time.Duration{1, 3600, 3601}, []time.Duration{1, 3600, 3601}},
	} {
		i := -1
		clock := steady(at, func() time.Time { i++; return at.Add(tc.says[i] * time.Second) })
		var told []time.Duration
		for range tc.says {
			told = append(told, clock().Sub(at)/time.Second)
		}
		if !slices.Equal(told, tc.told) {
			t.Errorf("%s: %v, want %v", name, told, tc.told)
		}
	}
	began := time.Now()
	now := began.Add(time.Minute) // by the clock that nobody sets
	if d := steady(began, func() time.Time { return now })().Sub(began); d != time.Minute {
		t.Errorf("a minute later is %s later", d)
	}
}
