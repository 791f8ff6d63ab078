package cli

import (
	"testing"
	"time"
)

// TestNextAfterAStall: a chunk that is there counts, even if the time is over too, as a process
// finds it that has not run for a while.
func TestNextAfterAStall(t *testing.T) {
	t.Parallel()
	for range 100 { // a select takes either
		over, chunks := make(chan time.Time, 1), make(chan chunk, 1)
		over <- time.Time{}
		chunks <- chunk{bytes: []byte("x")}
		if c := next(t.Context(), over, chunks, "-"); string(c.bytes) != "x" || c.err != nil {
			t.Fatalf("%q, %v", c.bytes, c.err)
		}
	}
}
