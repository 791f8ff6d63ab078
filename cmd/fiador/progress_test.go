package main

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
		a := &app{system: system{tty: tty, stderr: &screen, now: func() time.Time { now = now.Add(200 * time.Millisecond); return now }}}
		p := newProgress(a, 5000)
		for range 5000 {
			p.tell()
		}
		fmt.Fprintln(p.before(&screen), "row")
		p.clear()
		want := "row\n"
		if tty {
			want = "\r\x1b[Kread 3072 of 5000 entries\r\x1b[Kread 4096 of 5000 entries\r\x1b[Krow\n"
		}
		if screen.String() != want {
			t.Errorf("terminal %v: %q, want %q", tty, screen.String(), want)
		}
	}
}
