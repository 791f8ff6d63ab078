package canon

import (
	"slices"
	"testing"
)

// TestNames: the names of several maps stand once, in the order of UTF-16 code units.
func TestNames(t *testing.T) {
	got := Names(map[string]int{"b": 1, "\uffee": 2}, nil, map[string]int{"a": 3, "b": 4, "\U0001f600": 5})
	if want := []string{"a", "b", "\U0001f600", "\uffee"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Names[int](); got == nil || len(got) != 0 {
		t.Errorf("without maps: %v", got)
	}
}
