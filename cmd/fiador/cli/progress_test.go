package cli

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// TestLedgerProgress: long work shows one line on a terminal. The line is cleared before
// other output. Other outputs get no such line.
func TestLedgerProgress(t *testing.T) {
	for _, tty := range []bool{true, false} {
		var screen bytes.Buffer
		now := time.Unix(0, 0)
		a := &App{System: System{TTY: tty, Stderr: &screen, Env: func(string) string { return "" }, Now: func() time.Time { now = now.Add(200 * time.Millisecond); return now }}}
		p := NewProgress(a, 5000)
		for range 5000 {
			p.Tell()
		}
		fmt.Fprintln(p.Before(&screen), "row")
		p.Clear()
		want := "row\n"
		if tty {
			want = "\r\x1b[Kread 3072 of 5000 entries\r\x1b[Kread 4096 of 5000 entries\r\x1b[Krow\n"
		}
		if screen.String() != want {
			t.Errorf("terminal %v: %q, want %q", tty, screen.String(), want)
		}
	}
}
