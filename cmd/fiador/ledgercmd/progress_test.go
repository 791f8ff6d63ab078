package ledgercmd

import (
	"bytes"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// TestProgressOfLedger: one line that overwrites itself, after a moment, and only on a
// terminal.
func TestProgressOfLedger(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for _, tty := range []bool{true, false} {
		var screen bytes.Buffer
		a := &cli.App{System: cli.System{Stderr: &screen, TTY: tty, Env: func(string) string { return "" }, Now: func() time.Time { return now }}}
		tell, clear := progressOf(a, 5000)
		tell(1024)
		if screen.Len() > 0 {
			t.Errorf("terminal %v: at once: %q", tty, screen.String())
		}
		now = now.Add(time.Second)
		tell(2048)
		now = now.Add(time.Second)
		tell(6144)
		clear()
		want := ""
		if tty {
			want = "\r\x1b[Kread 2048 of 5000 entries\r\x1b[Kread 6144 of 6144 entries\r\x1b[K"
		}
		if screen.String() != want {
			t.Errorf("terminal %v: %q", tty, screen.String())
		}
	}
}
