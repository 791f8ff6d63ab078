package rehearsal

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func one() int   { return Count(1, 10) }
func two() int   { return func() int { return Stride(10) }() }
func three() int { return func() int { return func() int { return Count(1, 10) }() }() }

// TestParts: the functions of a file run in full in the same part, and all of them with 1.
func TestParts(t *testing.T) {
	if Raced {
		t.Skip("under the race detector the form is always the short one")
	}
	full := 0
	for _, form := range []string{"0/4", "1/4", "2/4", "3/4"} {
		t.Setenv(FullVar, form)
		if Full() {
			full++
		}
		if (one() == 10) != Full() || (two() == 1) != Full() || (three() == 10) != Full() {
			t.Errorf("%s: %v, %d, %d, %d", form, Full(), one(), two(), three())
		}
	}
	if full != 1 {
		t.Errorf("%d of four fourths are full", full)
	}
	for form, full := range map[string]bool{"1": true, "": false, "4/4": false, "/4": false, "0/0": false, "1/": false, "0/1": true, "2": false} {
		t.Setenv(FullVar, form)
		if Full() != full {
			t.Errorf("%q: %v", form, Full())
		}
	}
}

// TestTrace: a call that strace writes in two lines is one line, and so is one that a kill cut
// off.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	const text = "10 fsync(5</a> <unfinished ...>\n11 write(1, \"x\", 1) = 1\n10 <... fsync resumed>) = ?\n11 openat(3</b>, \"f\" <unfinished ...>\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{`10 fsync(5</a>) = ?`, `11 write(1, "x", 1) = 1`, `11 openat(3</b>, "f") = ?`}
	if got := Trace(t, file); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// told is a test that notes what it is told.
type told struct {
	testing.TB
	logs   int
	failed bool
}

func (*told) Helper()                 {}
func (t *told) Logf(string, ...any)   { t.logs++ }
func (t *told) Fatalf(string, ...any) { t.failed = true; runtime.Goexit() }

// TestAgain: a case is run until it succeeds, with more time in each run, and fails if it
// never does.
func TestAgain(t *testing.T) {
	for n, c := range []struct {
		faults int // of the first runs
		scales []int
		logs   int
		failed bool
	}{
		{0, []int{1}, 0, false},
		{1, []int{1, 10}, 1, false},
		{3, []int{1, 10, 100, 100}, 3, false},
		{4, []int{1, 10, 100, 100}, 3, true},
	} {
		rec, scales := &told{TB: t}, []int(nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Again(rec, 4, func(scale int) string {
				if scales = append(scales, scale); len(scales) <= c.faults {
					return "a fault"
				}
				return ""
			})
		}()
		<-done
		if !slices.Equal(scales, c.scales) || rec.logs != c.logs || rec.failed != c.failed {
			t.Errorf("%d: runs with %d, %d logs, failed %v", n, scales, rec.logs, rec.failed)
		}
	}
}

// TestClosed: until the end of the test, no other program gets the port.
func TestClosed(t *testing.T) {
	addr := Closed(t)
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Errorf("somebody listens at %s", addr)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Errorf("%s is free", addr)
	}
}
