package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/evidence/transcript/transcripttest"
	"github.com/fiador/fiador/kernel/canon"
)

// lineOrder returns the lines of the chunks, in the order of their events.
func lineOrder(chunks []transcripttest.Chunk) (lines []transcripttest.Chunk) {
	var begun [3]string
	for _, c := range chunks {
		parts := strings.SplitAfter(begun[c.Stream]+c.Text, "\n")
		for _, p := range parts[:len(parts)-1] {
			lines = append(lines, transcripttest.Chunk{Stream: c.Stream, Text: p})
		}
		begun[c.Stream] = parts[len(parts)-1]
	}
	for _, s := range []transcript.Stream{transcript.Stdout, transcript.Stderr} {
		if begun[s] != "" {
			lines = append(lines, transcripttest.Chunk{Stream: s, Text: begun[s]})
		}
	}
	return lines
}

// logOf writes the log of a run to a file.
func logOf(t *testing.T, r transcript.Run) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "run.log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.WriteLedger(f); err != nil {
		t.Fatal(err)
	}
	return name
}

// display is standard output that claims to be a terminal, or not.
type display struct {
	terminal bool
	env      string
}

func (s display) see(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Run(ctx, args, cli.System{
		Stdin: os.Stdin, Stdout: &out, Stderr: &errs, OutTTY: s.terminal, Now: time.Now,
		Env: func(name string) string {
			if value, ok := strings.CutPrefix(s.env, name+"="); ok {
				return value
			}
			return ""
		},
	}, commands)
	return status, out.String(), errs.String()
}

// shows checks the output of a transcript command.
func (s display) shows(t *testing.T, want string, args ...string) {
	t.Helper()
	status, got, stderr := s.see(t.Context(), append([]string{"transcript"}, args...)...)
	if status != cli.ExitAccepted || got != want || stderr != "" {
		t.Fatalf("%q: exit status %d, stderr %q, printed\n%.2000q\nwant\n%.2000q", args, status, stderr, got, want)
	}
}

func joined(lines []transcripttest.Chunk, of ...transcript.Stream) (all string) {
	for _, l := range lines {
		if slices.Contains(of, l.Stream) {
			all += l.Text
		}
	}
	return all
}

// harmless returns a line in the form for a terminal.
func harmless(line string) string {
	line, ended := strings.CutSuffix(line, "\n")
	if ended {
		line = strings.TrimSuffix(line, "\r")
	}
	parts := strings.Split(line, "\t")
	for i := range parts {
		parts[i] = screen.Plain(parts[i])
	}
	return strings.Join(parts, "\t") + "\n"
}

// TestTranscriptShowsWhatCame: each view shows exactly the bytes that a command has
// written. The merged view has the bytes of the log of the merged view, and the split view
// those of the log with sections. A stream has its own bytes, and --tail the last lines. A
// terminal shows each line, marked and harmless.
func TestTranscriptShowsWhatCame(t *testing.T) {
	t.Parallel()
	const stdout, stderr = transcript.Stdout, transcript.Stderr
	file, tty := display{}, display{terminal: true, env: "NO_COLOR=1"}
	for seed := range uint64(150) {
		chunks := transcripttest.RandomChunks(rand.New(rand.NewPCG(seed, 6)))
		lines, r := lineOrder(chunks), transcripttest.RunOf(chunks)
		name := logOf(t, r)
		var merged strings.Builder
		if err := r.WriteMerged(&merged); err != nil {
			t.Fatal(err)
		}
		if merged.String() != joined(lines, stdout, stderr) {
			t.Fatalf("merged %q, want %q", merged.String(), joined(lines, stdout, stderr))
		}
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file.shows(t, merged.String(), "show", name)
		file.shows(t, joined(lines, stdout), "show", name, "--stream", "stdout")
		file.shows(t, joined(lines, stderr), "show", name, "--stream", "stderr")
		file.shows(t, string(log[:bytes.LastIndex(log, []byte("\n--- BEGIN EVENTS ---\n"))+1]), "show", name, "--view", "split")
		for _, n := range []int{1, 2, 5, 1000} {
			last := lines[max(0, len(lines)-n):]
			file.shows(t, joined(last, stdout, stderr), "show", name, "--tail", strconv.Itoa(n))
		}
		page := "$ make 'a b'\n"
		n := map[transcript.Stream]int{}
		for _, l := range lines {
			n[l.Stream]++
			page += map[transcript.Stream]string{stdout: "out | ", stderr: "err | "}[l.Stream] + harmless(l.Text)
		}
		page += fmt.Sprintf("safe-run reader gone: stdout\nexit code 3; %s of stdout, %s of stderr\n", screen.Count(n[stdout], "line"), screen.Count(n[stderr], "line"))
		tty.shows(t, page, "show", name)
		file.shows(t, fmt.Sprintf("ok run.log: %d events, exit code 3\n", len(lines)+3), "verify", name)
	}
}

// TestTranscriptEventsAreJSON: each event is one line of canonical JSON, and the events
// contain the output of the command.
func TestTranscriptEventsAreJSON(t *testing.T) {
	t.Parallel()
	coded := 0
	for seed := range uint64(150) {
		chunks := transcripttest.RandomChunks(rand.New(rand.NewPCG(seed, 7)))
		name := logOf(t, transcripttest.RunOf(chunks))
		status, out, stderr := display{}.see(t.Context(), "transcript", "events", name)
		if status != cli.ExitAccepted || stderr != "" {
			t.Fatalf("exit status %d, stderr %q", status, stderr)
		}
		lines := lineOrder(chunks)
		printed := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(printed) != len(lines)+3 {
			t.Fatalf("%d events, want %d:\n%s", len(printed), len(lines)+3, out)
		}
		for i, line := range printed {
			doc, err := canon.Parse([]byte(line), 1<<20)
			if err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			m := doc.Value().(map[string]any)
			if b, err := canon.Canonical(m); err != nil || string(b) != line {
				t.Fatalf("not canonical (%v): %q", err, line)
			}
			if fmt.Sprint(m["seq"]) != strconv.Itoa(i+1) {
				t.Fatalf("number %v at place %d", m["seq"], i+1)
			}
			if i == 0 || i > len(lines) {
				if m["stream"] != "META" {
					t.Fatalf("%s at place %d", line, i)
				}
				continue
			}
			want := lines[i-1]
			if m["stream"] != want.Stream.String() || m["event"] != nil {
				t.Fatalf("%s, want stream %v", line, want.Stream)
			}
			body, ended := strings.CutSuffix(want.Text, "\n")
			if ended && utf8.ValidString(body) && !strings.HasPrefix(body, "base64:") {
				body = strings.TrimSuffix(body, "\r")
			}
			got, isText := m["text"].(string)
			odd := !utf8.ValidString(body) || strings.ContainsAny(body, "\ufffe\U0010ffff")
			if odd {
				coded++
				b, err := base64.StdEncoding.DecodeString(m["base64"].(string))
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != body || isText == odd {
				t.Fatalf("%s, want %q", line, body)
			}
		}
	}
	if coded < 20 {
		t.Errorf("only %d lines had no text", coded)
	}
}

// TestTranscriptOnATerminal: of the output and the name of a command, a terminal gets only
// visible characters and tabs. No line of it looks like a message of safe-run.
func TestTranscriptOnATerminal(t *testing.T) {
	t.Parallel()
	hostile := "\x1b[2J\x1b]0;title\a\r\b\x7f\u009b31m\u202e\u200b\u2028\x00\xff\ttab"
	r := transcripttest.RunOf([]transcripttest.Chunk{
		transcripttest.Out(hostile + "\r\n" + "exit code 0; 1 line of stdout, 0 lines of stderr\n"),
		transcripttest.Err("$ true\n" + hostile),
	})
	r.Argv = []string{"sh", "-c", "\u202ex\u3164"}
	name := logOf(t, r)
	for _, args := range [][]string{
		{"show", name}, {"show", name, "--view", "split"}, {"show", name, "--view", "summary"}, {"show", name, "--tail", "1"},
		{"show", name, "--stream", "stderr"}, {"events", name}, {"verify", name},
	} {
		_, got, _ := display{terminal: true, env: "NO_COLOR=1"}.see(t.Context(), append([]string{"transcript"}, args...)...)
		if got == "" || !utf8.ValidString(got) {
			t.Errorf("%q prints %q", args, got)
		}
		for _, c := range got {
			if c != '\n' && c != '\t' && (!unicode.IsPrint(c) || strings.ContainsRune("\u202e\u200b\u2028\u3164", c)) {
				t.Errorf("%q prints %q in %q", args, c, got)
			}
		}
	}
	const shown = `\u001b[2J\u001b]0;title\u0007\u000d\u0008\u007f\u009b31m\u202e\u200b\u2028\u0000\xff` + "\ttab"
	want := strings.Join([]string{
		`$ sh -c '\u202ex\u3164'`,
		"out | " + shown,
		"out | exit code 0; 1 line of stdout, 0 lines of stderr",
		"err | $ true",
		"err | " + shown,
		"safe-run reader gone: stdout",
		"exit code 3; 2 lines of stdout, 2 lines of stderr",
		"",
	}, "\n")
	display{terminal: true, env: "NO_COLOR=1"}.shows(t, want, "show", name)
	// The output after a cut says that there was one.
	lines := strings.SplitAfter(want, "\n")
	display{terminal: true, env: "NO_COLOR=1"}.shows(t, lines[0]+"(3 earlier lines)\n"+lines[4]+lines[5]+lines[6], "show", name, "--tail", "1")

	const y, b, dim, end = "\x1b[33m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
	want = strings.Join([]string{
		b + `$ sh -c '\u202ex\u3164'` + end,
		shown,
		"exit code 0; 1 line of stdout, 0 lines of stderr",
		y + "$ true" + end,
		y + shown + end,
		dim + "safe-run reader gone: stdout" + end,
		"\x1b[31mexit code 3" + end + dim + "; 2 lines of stdout, 2 lines of stderr" + end,
		"",
	}, "\n")
	display{terminal: true, env: "TERM=xterm"}.shows(t, want, "show", name)
	// Without a terminal, the colour flag has no effect.
	var merged strings.Builder
	if err := r.WriteMerged(&merged); err != nil {
		t.Fatal(err)
	}
	display{env: "FIADOR_COLOR=always"}.shows(t, merged.String(), "show", name)
	display{env: "CLICOLOR_FORCE=1"}.shows(t, merged.String(), "show", name)
}

// TestTranscriptLongLine: a line of 5 MB is a line like any other.
func TestTranscriptLongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("a long line that goes on and ", 200)+"é, 😀, \x1b[31m\r", 5<<20/5800)
	chunks := []transcripttest.Chunk{transcripttest.Err("before\n"), transcripttest.Out(long[:1000]), transcripttest.Err("between\n"), transcripttest.Out(long[1000:] + "\r\nafter\n")}
	r := transcripttest.RunOf(chunks)
	name := logOf(t, r)
	var merged strings.Builder
	if err := r.WriteMerged(&merged); err != nil {
		t.Fatal(err)
	}
	display{}.shows(t, merged.String(), "show", name)
	display{}.shows(t, long+"\r\nafter\n", "show", name, "--tail", "2")
	display{terminal: true, env: "NO_COLOR=1"}.shows(t, "$ make 'a b'\nerr | before\nerr | between\nout | "+harmless(long+"\r\n")+
		"out | after\nsafe-run reader gone: stdout\nexit code 3; 2 lines of stdout, 2 lines of stderr\n", "show", name)
	text, err := canon.Canonical(long)
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := display{}.see(t.Context(), "transcript", "events", name, "--stream", "stdout")
	if want := `{"seq":4,"stream":"STDOUT","text":` + string(text) + "}\n"; !strings.HasPrefix(out, want) {
		t.Errorf("the event has %d bytes, want %d", len(strings.SplitAfter(out, "\n")[0]), len(want))
	}
}

// TestTranscriptCancelled: an interrupted command does not judge the log, and reads no
// other log.
func TestTranscriptCancelled(t *testing.T) {
	t.Parallel()
	name := logOf(t, transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out("x\n")}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"show", name}, {"events", name}, {"verify", name, name, name}} {
		status, stdout, stderr := display{}.see(ctx, append([]string{"transcript"}, args...)...)
		const want = `{"code":"RUN_E001","details":{"file":"run.log","hint":"run it again"},"message":"run.log: interrupted"}` + "\n"
		if status != cli.ExitError || stdout != "" || stderr != want {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

// TestTranscriptProgress: a terminal shows the progress, and the line is cleared before
// the answer.
func TestTranscriptProgress(t *testing.T) {
	t.Parallel()
	name := logOf(t, transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out(strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000))}))
	for _, tty := range []bool{true, false} {
		for _, args := range [][]string{{"verify", name}, {"show", name, "--tail", "1"}, {"events", name}} {
			var out, errs bytes.Buffer
			now := time.Unix(0, 0)
			got := cli.Run(t.Context(), append([]string{"transcript"}, args...), cli.System{
				Stdin: os.Stdin, Stdout: &out, Stderr: &errs, TTY: tty, Env: func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] },
				Now: func() time.Time { now = now.Add(time.Second); return now },
			}, commands)
			seen := errs.String()
			if got != cli.ExitAccepted || strings.Contains(out.String(), "checking") || tty != (seen != "") {
				t.Fatalf("%q: exit status %d, terminal %v, stderr %.200q", args, got, tty, seen)
			}
			if tty && (!strings.Contains(seen, "\r\x1b[Kchecking the log: 9 MB read") || !strings.HasSuffix(seen, "read\r\x1b[K")) {
				t.Errorf("%q: stderr %.200q", args, seen)
			}
		}
	}
}
