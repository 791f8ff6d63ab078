package kernel

import "testing"

// TestIsolationAtLeast tests every pair, and an unknown isolation: it is never enough,
// and only full is enough for it.
func TestIsolationAtLeast(t *testing.T) {
	order := []Isolation{IsolationNone, IsolationConfined, IsolationFull}
	for i, have := range order {
		for j, least := range order {
			if got := have.AtLeast(least); got != (i >= j) {
				t.Errorf("%s is at least %s: %v", have, least, got)
			}
		}
		for _, no := range []Isolation{"", "Full", "full "} {
			if no.AtLeast(have) {
				t.Errorf("%q is at least %s", no, have)
			}
			if got := have.AtLeast(no); got != (have == IsolationFull) {
				t.Errorf("%s is at least %q: %v", have, no, got)
			}
			if no.AtLeast(no) {
				t.Errorf("%q is at least itself", no)
			}
		}
	}
}
