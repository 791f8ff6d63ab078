package rehearsal

import "testing"

func one() int   { return Count(1, 10) }
func two() int   { return func() int { return Stride(10) }() }
func three() int { return func() int { return func() int { return Count(1, 10) }() }() }

// TestFourths: each function runs in full in one fourth, and all of them with 1.
func TestFourths(t *testing.T) {
	if Raced {
		t.Skip("under the race detector the form is always the short one")
	}
	for name, f := range map[string]func() int{"one": one, "two": two, "three": three} {
		seen := map[int]int{}
		for _, form := range []string{"0/4", "1/4", "2/4", "3/4"} {
			t.Setenv(FullVar, form)
			seen[f()]++
		}
		if seen[1]+seen[10] != 4 || seen[1] != 1 && seen[10] != 1 {
			t.Errorf("%s: %v", name, seen)
		}
		for form, full := range map[string]bool{"1": true, "": false, "4/4": false, "/4": false, "2": false} {
			t.Setenv(FullVar, form)
			if Full() != full {
				t.Errorf("%q: %v", form, Full())
			}
		}
	}
}
