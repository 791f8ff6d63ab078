package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger/disk/disktest"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// ledgerRun runs the program in this process, with the ledger of disktest.Recorded.
func ledgerRun(t *testing.T, stdout io.Writer, args ...string) (stderr string, code int) {
	t.Helper()
	return ledgerRunIn(t, func(ctx context.Context) context.Context { return ctx }, stdout, args...)
}

func ledgerRunIn(t *testing.T, in func(context.Context) context.Context, stdout io.Writer, args ...string) (stderr string, code int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gate")
	if err := disktest.Recorded(dir); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	code = cli.Run(in(t.Context()), append([]string{"ledger"}, args...), cli.System{
		Stdin: os.Stdin, Stdout: stdout, Stderr: &errs, Now: time.Now,
		Env: func(name string) string { return map[string]string{"FIADOR_LEDGER": dir}[name] },
	}, commands)
	return errs.String(), code
}

// TestLedgerJSONIsCanonical: every JSON document and every JSON line is canonical.
func TestLedgerJSONIsCanonical(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"list --format json", "list --format json --last 1", "list --format json --reverse", "list --format json --reason NONE",
		"list --format jsonl", "export", "show 4 --format json", "show run_c --format json", "stats --format json", "drift --format json",
	} {
		var out bytes.Buffer
		if stderr, code := ledgerRun(t, &out, strings.Fields(args)...); code == cli.ExitError || out.Len() == 0 {
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

// TestLedgerLinesFitTheSchema: each line of a ledger's file fits the schema that the
// program prints.
func TestLedgerLinesFitTheSchema(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gate")
	if err := disktest.Recorded(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || len(text) == 0 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	set := specstest.NewSpecs(t)
	for line := range bytes.Lines(text) {
		specstest.Valid(t, set, specs.KindLedgerRecord, line)
	}
}

// TestLedgerInterrupted: an interrupted command says so, and ends with exit status 2.
func TestLedgerInterrupted(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"list", "list --reverse", "list --last 1 --kind decision", "stats", "drift", "export"} {
		var out bytes.Buffer
		stderr, code := ledgerRunIn(t, func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("a signal"))
			return ctx
		}, &out, strings.Fields(args)...)
		if code != cli.ExitError || out.Len() > 0 || !strings.Contains(stderr, "interrupted: not every entry was read") {
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
	t.Parallel()
	for _, args := range []string{
		"list", "list --reverse", "list --format json", "list --format jsonl", "list --format csv", "export", "export --format csv",
		"show 1", "show 1 --line", "show 1 --evidence", "stats", "stats --format csv", "drift", "drift --format json",
	} {
		stderr, code := ledgerRun(t, &full{10}, strings.Fields(args)...)
		if code != cli.ExitError || !strings.Contains(stderr, "standard output could not be written: no room") {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}
