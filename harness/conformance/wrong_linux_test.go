package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestWrongPrograms: programs with one fault fail, on the vector about this fault, with
// a message that names it.
func TestWrongPrograms(t *testing.T) {
	// Each program is the tool, followed by a wrong step; $log is its log.
	const after = `"$SAFE_RUN_BIN" "$@"; code=$?; for log in .agent/FAIL-LOGS/*.log; do [ -f "$log" ] || log=; done; `
	edit := func(sed string) string {
		return after + `[ -z "$log" ] || { sed '` + sed + `' "$log" >"$TMPDIR/x"; cat "$TMPDIR/x" >"$log"; }; exit $code`
	}
	for _, c := range []struct {
		name, text string
		vector     string
		words      []string
	}{
		{"always 0", after + `exit 0`, "101", []string{`exit code | want "1" | got "0"`}},
		{"always 1", after + `exit 1`, "001", []string{`exit code | want "0" | got "1"`}},
		{"code of a signal", after + `[ $code = 143 ] && exit 15; exit $code`, "120", []string{`exit code | want "143" | got "15"`}},
		{"dies as the command does", after + `[ $code = 137 ] && kill -s KILL $$; exit $code`, "122",
			[]string{`the program was ended by a signal | want "exit code 137" | got "signal 9"`}},
		{"numbers from 0", edit(`s/SEQ=1]/SEQ=0]/`), "501", []string{`log differs at line 9 | want "[SEQ=1][META] safe-run start:`, `got "[SEQ=0][META]`}},
		{"a gap in the numbers", edit(`s/SEQ=3]/SEQ=4]/`), "101", nil},
		{"a gap in the numbers", edit(`s/SEQ=300]/SEQ=301]/`), "408", []string{`an event is out of order | want "[SEQ=300][...] ..." | got "[SEQ=301][`}},
		{"a line of the wrong stream", edit(`s/SEQ=2]\[STDOUT/SEQ=2][STDERR/`), "503", nil},
		{"a line of the wrong stream", edit(`s/SEQ=2]\[STDOUT/SEQ=2][STDERR/`), "502", []string{`log differs`, `[STDERR] out`}},
		{"no exit event", edit(`/safe-run exit/d`), "101", []string{`events of the log differs`}},
		{"no line about an interruption", `trap : TERM; ` + `"$SAFE_RUN_BIN" "$@" & wait $!; kill -s TERM $!; wait $!; code=$?; for log in .agent/FAIL-LOGS/*; do sed '/safe-run interrupted/d' "$log" >"$TMPDIR/x"; cat "$TMPDIR/x" >"$log"; done; exit $code`, "301",
			[]string{`events of the log differs`}},
		{"drops empty lines", edit(`/^$/d`), "508", []string{`log differs at line 2`}},
		{"keeps the CR", edit("s/] dos$/] dos\r/"), "510", []string{`log differs`, `dos\r`}},
		{"no log", after + `rm -rf .agent; exit $code`, "002", []string{`created no log | want "one file in .agent/FAIL-LOGS"`, `stderr differs`, `is not there | want ".agent/FAIL-LOGS"`}},
		{"a log too many", after + `[ -z "$log" ] || cp "$log" "$log.bak"; exit $code`, "101", []string{`created more than a log`}},
		{"a log after a success", after + `mkdir -p .agent/FAIL-LOGS; exit $code`, "001", []string{`created something | want "nothing" | got ".agent/, .agent/FAIL-LOGS/"`, `is there | want "no .agent"`}},
		{"a log in another folder", after + `[ -z "$log" ] || mv "$log" .; exit $code`, "101", []string{`the log is in another folder | want ".agent/FAIL-LOGS" | got "."`}},
		{"a name of its own", after + `[ -z "$log" ] || mv "$log" "${log%/*}/failure.log"; exit $code`, "101",
			[]string{`the name of the log does not match | want "^safe-run-`, `got "failure.log"`, `stderr differs`}},
		{"a fixed name", after + `[ -z "$log" ] || mv "$log" "${log%/*}/safe-run-20240115-103000-a3f9b2.log"; exit $code`, "101",
			[]string{`the name of the log does not have the time of the call, in UTC`}},
		{"an older log is replaced", after + `for new in logs/*; do :; done; cp "$new" logs/safe-run-20240115-103000-a3f9b2.log; exit $code`, "713",
			[]string{`changed or removed what was there before | want "" | got "logs/safe-run-20240115-103000-a3f9b2.log"`}},
		{"an older file is removed", after + `rm -f logs/notes.txt; exit $code`, "713", []string{`changed or removed what was there before | want "" | got "logs/notes.txt"`}},
		{"a log for everybody", after + `[ -z "$log" ] || chmod 644 "$log"; exit $code`, "701", []string{`mode of the log | want "0600" | got "0644"`}},
		{"a folder for everybody", after + `[ -z "$log" ] || chmod 755 "${log%/*}"; exit $code`, "701", []string{`mode of the log's folder | want "0700" | got "0755"`}},
		{"changes standard output", `"$SAFE_RUN_BIN" "$@" | tr a-z A-Z`, "001", []string{`stdout differs | want "ok\n" | got "OK\n"`, `stdout lacks a text | want "ok"`}},
		{"adds to standard output", after + `echo; exit $code`, "223", []string{`stdout does not match`}},
		{"adds to a long output", after + `echo; exit $code`, "524", []string{`stdout has another SHA-256`, `of 108895 bytes`}},
		{"loses standard error", `exec "$SAFE_RUN_BIN" "$@" 2>/dev/null`, "100", []string{`stderr differs | want "err\n" | got ""`}},
		{"one stream for both", `exec "$SAFE_RUN_BIN" "$@" 2>&1`, "807", []string{`stdout differs`, `stderr differs`}},
		{"splits words", `exec "$SAFE_RUN_BIN" $*`, "601", []string{`stdout differs`}},
		{"drops empty words", `for a; do shift; [ -z "$a" ] || set -- "$@" "$a"; done; exec "$SAFE_RUN_BIN" "$@"`, "604", []string{`stdout differs | want "[][a][]" | got "[a]"`}},
		{"loses standard input", `exec "$SAFE_RUN_BIN" "$@" </dev/null`, "420", []string{`stdout differs | want "one\ntwo" | got ""`}},
		{"sets a variable", `VECTOR=mine exec "$SAFE_RUN_BIN" "$@"`, "410", []string{`stdout differs`}},
		{"goes elsewhere", `cd "$HOME"; exec "$SAFE_RUN_BIN" "$@"`, "411", []string{`stdout differs`, `created no log`}},
		{"takes any setting", `unset SAFE_RUN_VIEW; exec "$SAFE_RUN_BIN" "$@"`, "230", []string{`exit code | want "2" | got "3"`, `stdout differs | want "" | got "started\n"`, `stderr lacks a text | want "ledger"`}},
		{"always rfc names", `SAFE_RUN_LOG_NAMES=rfc exec "$SAFE_RUN_BIN" "$@"`, "101", []string{`the name of the log does not match`}},
		{"always the ledger", `unset SAFE_RUN_VIEW; exec "$SAFE_RUN_BIN" "$@"`, "801", []string{`log differs`}},
		{"no last lines", `unset SAFE_SNIPPET_LINES; exec "$SAFE_RUN_BIN" "$@"`, "005", []string{`stderr lacks a text | want "second"`}},
		{"waits for input", `cat >/dev/null; exec "$SAFE_RUN_BIN" "$@"`, "425", []string{`stdout differs`}},
		{"prints when all is over", `"$SAFE_RUN_BIN" "$@" >"$TMPDIR/o"; code=$?; cat "$TMPDIR/o"; exit $code`, "100", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, Runner{Program: script(t, c.text), Names: Contract}, embedded(t, c.vector))
			if c.words == nil && got != "" {
				t.Errorf("fails on vector %s, which is about something else:\n%s", c.vector, got)
			}
			for _, w := range c.words {
				if !strings.Contains(got, w) {
					t.Errorf("vector %s: %q is not said:\n%s", c.vector, w, got)
				}
			}
		})
	}
}

// short is a vector with two seconds; patient has minutes, and passes on a slow machine.
const (
	short   = `[{"id": "short", "name": "n", "deadline_ms": 2000, ` + exits3
	patient = `[{"id": "short", "name": "n", "deadline_ms": 600000, ` + exits3
	exits3  = `"command": {"args": ["sh", "-c", "exit 3"]}, "expected": {"exit_code": 3}}]`
)

// TestHangIsKilled: a program that does not end is killed with all processes that it
// started, also those that have left its session.
func TestHangIsKilled(t *testing.T) {
	napping := "9" + strconv.Itoa(os.Getpid())
	text := `trap "" TERM HUP; sleep ` + napping + `1 & (sleep ` + napping + `2 &) & `
	if _, err := exec.LookPath("setsid"); err == nil {
		text += `setsid sleep ` + napping + `3 & `
	}
	got := run(t, Runner{Program: script(t, text+`"$SAFE_RUN_BIN" sleep `+napping+`4`), Names: Contract}, parsed(t, short))
	if want := "short: the program did not end within 2s and was killed"; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("got %s", got)
	}
	if left := running(t, "sleep\x00"+napping); left != "" {
		t.Errorf("still running: %q", left)
	}
}

// running returns the command lines that begin with a text.
func running(t *testing.T, begin string) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), begin) {
			list = append(list, string(b))
		}
	}
	return strings.Join(list, ", ")
}

// TestFlood: endless output ends the call, long before its time is up.
func TestFlood(t *testing.T) {
	for _, to := range []string{"", " >&2"} {
		got := run(t, Runner{Program: script(t, "while :; do printf %065536d 0; done"+to), Names: Contract}, parsed(t, patient))
		if want := fmt.Sprintf("short: the program wrote more than %d bytes to a stream and was killed", maxStream); !strings.HasPrefix(got, want) {
			t.Errorf("got %s", got)
		}
	}
}

// TestLongOutputIsCut: a fault shows only a little of a program's output.
func TestLongOutputIsCut(t *testing.T) {
	got := run(t, Runner{Program: script(t, "printf %0500000d 0; exit 3"), Names: Contract}, embedded(t, "100", "223"))
	if len(got) > 3000 || !strings.Contains(got, "(500000 bytes)") {
		t.Errorf("%d bytes: %.3000s", len(got), got)
	}
}

// TestLeftRunning: a process that is left behind is named and killed. If the vector
// declares it, it is only killed.
func TestLeftRunning(t *testing.T) {
	nap := "8" + strconv.Itoa(os.Getpid())
	r := Runner{Program: script(t, `sleep `+nap+` >/dev/null 2>&1 & exec "$SAFE_RUN_BIN" "$@"`), Names: Contract}
	if got, want := run(t, r, parsed(t, patient)), `short: left running | want "" | got "sleep `+nap+`"`+"\n"; got != want {
		t.Errorf("got %s", got)
	}
	declared := strings.Replace(patient, `"exit_code": 3`, `"exit_code": 3, "leaves_processes": true`, 1)
	if got := run(t, r, parsed(t, declared)); got != "" {
		t.Errorf("got %s", got)
	}
	if left := running(t, "sleep\x00"+nap); left != "" {
		t.Errorf("still running: %q", left)
	}
	r.Program = script(t, `sleep `+nap+` & exec "$SAFE_RUN_BIN" "$@"`)
	if got, want := run(t, r, parsed(t, declared)), "short: standard output or standard error of the program was still held after its end"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
}

const interrupted = `[{"id": "short", "name": "n", "deadline_ms": %d,
	"command": {"args": ["sh", "-c", "echo ready; exec sleep 60"], "signals": [{"signal": "TERM", "after": "ready", "delay_ms": 100}]},
	"expected": {"exit_code": 143, "artifacts_created": true}}]`

// TestSignalNotForwarded: the program must forward a signal, and a signal that could not
// be sent is named.
func TestSignalNotForwarded(t *testing.T) {
	for _, c := range []struct {
		text     string
		deadline int
		want     string
	}{
		{`exec "$SAFE_RUN_BIN" "$@"`, 600_000, ""},
		{`trap : TERM; "$SAFE_RUN_BIN" "$@" & wait $!; wait $!`, 5000, "short: the program did not end within 5s and was killed | "},
		{`"$SAFE_RUN_BIN" "$@"`, 600_000, `short: the program was ended by a signal | want "exit code 143" | got "signal 15"`},
		{`"$SAFE_RUN_BIN" "$@" >"$TMPDIR/o"; cat "$TMPDIR/o"`, 2000,
			`short: the program did not end within 2s and was killed; TERM was not sent, for "ready" had not come on standard output | `},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			const unsent = "; TERM was not sent"
			var got string
			rehearsal.Again(t, 3, func(int) string {
				got = run(t, Runner{Program: script(t, c.text), Names: Contract}, parsed(t, fmt.Sprintf(interrupted, c.deadline)))
				if strings.Contains(got, unsent) && !strings.Contains(c.want, unsent) {
					return got // the command was not ready before the deadline
				}
				return ""
			})
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestComparison: the comparison finds differences that the vector does not describe,
// and ignores allowed ones.
func TestComparison(t *testing.T) {
	vague := `[{"id": "v", "name": "n", "command": {"args": ["sh", "-c", "pwd; exit 3"]}, "expected": {"exit_code_oneOf": [3, 4]}}]`
	for _, c := range []struct{ text, want string }{
		{`exec "$SAFE_RUN_BIN" "$@"`, ""},
		{`"$SAFE_RUN_BIN" "$@"; exit 4`, `v: differs from the reference: end | want "exit code 3" | got "exit code 4"`},
		{`"$SAFE_RUN_BIN" "$@"; echo more; exit 3`, `v: differs from the reference: stdout`},
		{`"$SAFE_RUN_BIN" "$@"; echo more >&2; exit 3`, `v: differs from the reference: stderr`},
		{`"$SAFE_RUN_BIN" "$@"; : >.agent/more; exit 3`, `v: differs from the reference: files`},
		{`"$SAFE_RUN_BIN" "$@"; for log in .agent/FAIL-LOGS/*; do echo more >>"$log"; done; exit 3`, `v: differs from the reference: log differs at line 11 | want "nothing more" | got "more\n"`},
	} {
		got := run(t, Runner{Program: script(t, c.text), Reference: []string{tool}, Names: Contract}, parsed(t, vague))
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %s", c.text, got)
		}
	}
	own := strings.Replace(vague, `"exit_code_oneOf"`, `"own_words": ["stderr"], "exit_code_oneOf"`, 1)
	r := Runner{Program: script(t, `"$SAFE_RUN_BIN" "$@"; echo more >&2; exit 3`), Reference: []string{tool}, Names: Contract}
	if got := run(t, r, parsed(t, own)); got != "" {
		t.Errorf("words of its own are compared: %s", got)
	}
	r.Program, r.Reference = []string{tool}, script(t, "exec sleep 60")
	hang := strings.Replace(vague, `"command"`, `"deadline_ms": 5000, "command"`, 1)
	rehearsal.Again(t, 3, func(int) string { // the program has no longer than the reference
		got := run(t, r, parsed(t, hang))
		if !strings.HasPrefix(got, "v: the reference did not end within 5s") {
			return "a reference that hangs: " + got
		}
		return ""
	})
}

// TestLineEndsFree: CRLF equals LF if the vector says so, and only then.
func TestLineEndsFree(t *testing.T) {
	section := `[{"id": "v", "name": "n", "command": {"args": ["printf", "a\\r\\n"]}, "expected": {"exit_code": 0, "stdout": "a\n"%s}}]`
	r := Runner{Program: []string{tool}, Names: Contract}
	if got := run(t, r, parsed(t, fmt.Sprintf(section, ""))); !strings.Contains(got, "stdout differs") {
		t.Errorf("got %s", got)
	}
	r.Reference = script(t, `printf 'a\n'`)
	if got := run(t, r, parsed(t, fmt.Sprintf(section, `, "line_ends_free": true`))); got != "" {
		t.Errorf("got %s", got)
	}
}

// TestNotRun: a program that cannot be run gives an error and no verdict.
func TestNotRun(t *testing.T) {
	none := func(Verdict) { t.Error("a verdict") }
	r := Runner{Program: []string{filepath.Join(t.TempDir(), "missing")}, Names: Contract, Dir: folder(t), Parallel: 2}
	if err := r.Run(t.Context(), embedded(t, "00"), none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	r.Program, r.Dir = []string{tool}, filepath.Join(t.TempDir(), "missing")
	if err := r.Run(t.Context(), embedded(t, "00"), none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	r.Dir = folder(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	nap := "7" + strconv.Itoa(os.Getpid())
	r.Program = script(t, "sleep "+nap)
	go func() {
		for running(t, "sleep\x00"+nap) == "" && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(errors.New("enough"))
	}()
	if err := r.Run(ctx, embedded(t, "00"), none); err == nil || err.Error() != "enough" {
		t.Errorf("a run that is stopped: %v", err)
	}
	if left := running(t, "sleep\x00"+nap); left != "" {
		t.Errorf("still running: %q", left)
	}
	if left, err := os.ReadDir(r.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in the folder: %v, %v", left, err)
	}
}
