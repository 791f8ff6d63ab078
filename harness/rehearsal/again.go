package rehearsal

import "testing"

// Again runs a case until it returns no fault, at most n times, and fails the test with the
// last fault. It is for cases in which a time is the subject, so that no event can stand for
// it: a machine that stalls for some seconds makes one run fail, and a defect makes all fail.
// scale is 1 in the first run, 10 in the second, and 100 in all others; the case multiplies
// its times by it, if they are its own and not the product's.
func Again(t testing.TB, n int, run func(scale int) (fault string)) {
	t.Helper()
	scale := 1
	for i := 1; ; i++ {
		fault := run(scale)
		if fault == "" {
			return
		}
		if i >= n {
			t.Fatalf("in each of %d runs, at last: %s", n, fault)
		}
		scale = min(scale*10, 100)
		t.Logf("run %d failed, and a slow machine may be why; it is run again, with scale %d: %s", i, scale, fault)
	}
}
