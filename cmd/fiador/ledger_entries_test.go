package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// ledgerRun runs the program in this process, with the ledger of recordedLedger.
func ledgerRun(t *testing.T, stdout io.Writer, args ...string) (stderr string, code int) {
	t.Helper()
	return ledgerRunIn(t, func(ctx context.Context) context.Context { return ctx }, stdout, args...)
}

func ledgerRunIn(t *testing.T, in func(context.Context) context.Context, stdout io.Writer, args ...string) (stderr string, code int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gate")
	if err := recordedLedger(dir); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	code = run(in(t.Context()), append([]string{"ledger"}, args...), system{
		stdin: os.Stdin, stdout: stdout, stderr: &errs, now: time.Now,
		env: func(name string) string { return map[string]string{"FIADOR_LEDGER": dir}[name] },
	}, commands)
	return errs.String(), code
}

// TestLedgerJSONIsCanonical: every JSON document and every JSON line is canonical.
func TestLedgerJSONIsCanonical(t *testing.T) {
	for _, args := range []string{
		"list --format json", "list --format json --last 1", "list --format json --reverse", "list --format json --reason NONE",
		"list --format jsonl", "export", "show 4 --format json", "show run_c --format json", "stats --format json", "drift --format json",
	} {
		var out bytes.Buffer
		if stderr, code := ledgerRun(t, &out, strings.Fields(args)...); code == exitError || out.Len() == 0 {
			t.Fatalf("%s: %d, %s", args, code, stderr)
		}
		for line := range strings.Lines(out.String()) {
			doc, err := canon.Parse([]byte(line), 1<<20)
			if err != nil || string(doc.Bytes())+"\n" != line {
				t.Errorf("%s: not canonical: %v: %s", args, err, line)
			}
		}
		if lines := strings.Count(out.String(), "\n"); strings.Contains(args, "json ") && lines != 1 {
			t.Errorf("%s: %d lines", args, lines)
		}
	}
}

// TestLedgerColumns: the help of list names every column, in its order.
func TestLedgerColumns(t *testing.T) {
	long := ledgerListCommand(&app{}).Long
	_, text, _ := strings.Cut(long, "The columns of csv: ")
	text, _, _ = strings.Cut(text, ".\n\n")
	text = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(text, "")
	if got := strings.Fields(strings.ReplaceAll(text, ",", " ")); !slices.Equal(got, ledger.Columns()) {
		t.Errorf("the help has the columns %q", got)
	}
}

// TestLedgerInterrupted: an interrupted command says so, and ends with exit status 2.
func TestLedgerInterrupted(t *testing.T) {
	for _, args := range []string{"list", "list --reverse", "list --last 1 --kind decision", "stats", "drift", "export"} {
		var out bytes.Buffer
		stderr, code := ledgerRunIn(t, func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("a signal"))
			return ctx
		}, &out, strings.Fields(args)...)
		if code != exitError || out.Len() > 0 || !strings.Contains(stderr, "interrupted: not every entry was read") {
			t.Errorf("%s: %d, %q, %s", args, code, out.String(), stderr)
		}
	}
}

// full is a writer that fails after some bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no room")
	}
	return len(b), nil
}

// TestLedgerOutputThatCannotBeWritten: an answer that cannot be written is exit status 2.
func TestLedgerOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range []string{
		"list", "list --reverse", "list --format json", "list --format jsonl", "list --format csv", "export", "export --format csv",
		"show 1", "show 1 --line", "show 1 --evidence", "stats", "stats --format csv", "drift", "drift --format json",
	} {
		stderr, code := ledgerRun(t, &full{10}, strings.Fields(args)...)
		if code != exitError || !strings.Contains(stderr, "standard output could not be written: no room") {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}

func TestListWidth(t *testing.T) {
	r := ledger.Record{
		Kind: ledger.KindDecision, Timestamp: "2026-03-01T10:00:00.000Z", RunID: "run_20260301T100000Z_0123456789abcdef", Policy: "default",
		IntentSHA256: fixtureHash(0xaaaa), ResultKind: "REFUSE", Reasons: []string{"CMD_NOT_ALLOWED", "PATH_ABSOLUTE"},
	}
	for _, c := range []struct {
		width int
		color bool
		want  string
	}{
		{0, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{140, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{120, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  run_20260301T100000Z_0123456789abcdef  CMD_NOT_ALLOWED,…"},
		{119, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  CMD_NOT_ALLOWED, PATH_ABSOLUTE"},
		{80, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  CMD_NOT_ALLOWED…"},
		{64, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa  "},
		{62, false, "    7  2026-03-01 10:00:00Z  REFUSE   default     aaaaaaaaaaaa"},
		{40, false, "    7  2026-03-01 10:00:00Z  REFUSE   d…"},
		{20, false, "    7  2026-03-01 1…"},
		{40, true, "    7  2026-03-01 10:00:00Z  \x1b[31mREFUSE \x1b[0m  d…"},
	} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		w := listWriter{out: out, t: terminal{color: c.color}, width: c.width, digits: 1, some: true}
		if err := errors.Join(w.entry(7, disk.Entry{Record: r}), out.Flush()); err != nil {
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
