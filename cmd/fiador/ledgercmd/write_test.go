package ledgercmd

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// TestLedgerColumns: the help of list names every column, in its order.
func TestLedgerColumns(t *testing.T) {
	long := listCommand(&cli.App{}).Long
	_, text, _ := strings.Cut(long, "The columns of csv, in their order:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	text = regexp.MustCompile(`\([^)]*\)|(?m:^  \S.*?  )`).ReplaceAllString(text, "")
	if got := strings.Fields(strings.ReplaceAll(text, ",", " ")); !slices.Equal(got, ledger.Columns()) {
		t.Errorf("the help has the columns %q", got)
	}
}

func TestListWidth(t *testing.T) {
	r := ledger.Record{
		Kind: ledger.KindDecision, Timestamp: "2026-03-01T10:00:00.000Z", RunID: "run_20260301T100000Z_0123456789abcdef", Policy: "default",
		IntentSHA256: canon.ContentHash("sha256:" + strings.Repeat("aaaa", 16)), ResultKind: "REFUSE", Reasons: []string{"CMD_NOT_ALLOWED", "PATH_ABSOLUTE"},
	}
	for _, c := range []struct {
		width int
		color bool
		want  string
	}{
		{0, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{140, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{120, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED,\n                                                  PATH_ABSOLUTE"},
		{119, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{80, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  CMD_NOT_ALLOWED,\n                                      PATH_ABSOLUTE"},
		{62, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa\n                             CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{40, false, "    7  2026-03-01 10:00:00Z  REFUSE\n       default     aaaaaaaaaaaa\n       CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{40, true, "    7  2026-03-01 10:00:00Z  \x1b[31mREFUSE\x1b[0m\n       default     aaaaaaaaaaaa\n       CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
	} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		w := listWriter{out: out, t: cli.Terminal{Color: c.color}, layout: screen.Layout{Columns: c.width}, digits: 1, some: true}
		if err := errors.Join(w.entry(7, ledger.Entry{Record: r}), out.Flush()); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.TrimRight(got, " \n") != strings.TrimRight(c.want, " ") {
			t.Errorf("width %d:\n%q\nwant\n%q", c.width, got, c.want)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s ago", 0: "0s ago", 59 * time.Second: "59s ago", 90 * time.Second: "1m ago", 119 * time.Minute: "1h ago",
		47 * time.Hour: "1d ago", 10000 * time.Hour: "416d ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
