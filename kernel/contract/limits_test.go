package contract

import "testing"

// TestLimits checks the defaults and bounds of the code execution contract.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name              string
		limit             Limit
		least, most, dflt int
	}{
		{"timeout_ms", TimeoutMS(), 1000, 600000, 30000},
		{"memory_mb", MemoryMB(), 64, 4096, 512},
		{"cpu_cores", CPUCores(), 1, 4, 1},
		{"max_children", MaxChildren(), 0, 100, 10},
	} {
		if tc.limit != (Limit{Default: tc.dflt, Min: tc.least, Max: tc.most}) {
			t.Errorf("%s is %+v", tc.name, tc.limit)
		}
		for v, want := range map[int]bool{tc.least - 1: false, tc.least: true, tc.dflt: true, tc.most: true, tc.most + 1: false} {
			if tc.limit.Holds(v) != want {
				t.Errorf("%s holds %d: %v", tc.name, v, !want)
			}
		}
	}
}
