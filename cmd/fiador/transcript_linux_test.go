package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/evidence/transcript/transcripttest"
	"github.com/fiador/fiador/harness/rehearsal"
)

// lineText is an endless stream: lines of 1 KiB, each with its offset.
type lineText struct{}

func (lineText) ReadAt(b []byte, off int64) (int, error) {
	for n := 0; n < len(b); {
		at := off + int64(n)
		line := fmt.Sprintf("%01023d\n", at/1024)
		n += copy(b[n:], line[at%1024:])
	}
	return len(b), nil
}

// TestTranscriptMemory: no command holds a whole log in memory, even if it comes from a
// pipe.
func TestTranscriptMemory(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	const size = 64 << 20
	log := logOf(t, transcript.Run{
		Argv: []string{"yes"}, Code: 1,
		Stdout: io.NewSectionReader(lineText{}, 0, size), Stderr: io.NewSectionReader(lineText{}, 0, size/2),
		Order: func(yield func(transcript.Span, error) bool) {
			for range size / (64 << 10) {
				if !yield(transcript.Span{Stream: transcript.Stdout, N: 64 << 10}, nil) || !yield(transcript.Span{Stream: transcript.Stderr, N: 32 << 10}, nil) {
					return
				}
			}
		},
	})
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "-"}, {"verify", "LOG"}, {"show", "LOG"}, {"show", "LOG", "--tail", "1000"}, {"events", "LOG"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			peak := transcriptPeak(t, log, args)
			t.Logf("%d MB for a log of %d MB", peak>>20, info.Size()>>20)
			if peak > info.Size()/2 {
				t.Errorf("%d MB for a log of %d MB", peak>>20, info.Size()>>20)
			}
		})
	}
}

// transcriptPeak returns the peak memory of a transcript command.
func transcriptPeak(t *testing.T, log string, args []string) int64 {
	t.Helper()
	return peakOf(t, cli.ExitAccepted, func() *exec.Cmd {
		cmd := command(t, append([]string{"transcript"}, args...)...)
		for i, arg := range cmd.Args {
			if arg == "LOG" {
				cmd.Args[i] = log
			}
		}
		f, err := os.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		cmd.Stdin = struct{ io.Reader }{f} // a pipe
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		return cmd
	})
}

// peakOf returns the peak memory of a command in bytes. The command has to end with the
// status want. The value that the system gives after the end includes the memory of the
// parent at the start. Where this process stood still while the command ran, it runs anew.
func peakOf(t *testing.T, want int, anew func() *exec.Cmd) int64 {
	t.Helper()
	for range 5 {
		if peak := watchedPeak(t, anew(), want); peak > 0 {
			return peak
		}
	}
	t.Fatal("no peak is seen")
	return 0
}

// watchedPeak is peakOf for one run. It returns 0 if it has seen no peak.
func watchedPeak(t *testing.T, cmd *exec.Cmd, want int) (peak int64) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if got := status(t, err); got != want {
				t.Fatalf("exit status %d, peak %d", got, peak)
			}
			return peak
		case <-time.After(2 * time.Millisecond):
			b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
			if err != nil {
				continue // it has ended
			}
			var kb int64
			if _, rest, ok := bytes.Cut(b, []byte("VmHWM:")); ok {
				fmt.Sscan(string(rest), &kb)
			}
			peak = max(peak, kb<<10)
		}
	}
}

// TestTranscriptOnAScreen: a real terminal gets the page for people, and errors that do
// not move the cursor.
func TestTranscriptOnAScreen(t *testing.T) {
	t.Parallel()
	name := logOf(t, transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out("\x1b[2Jout\n"), transcripttest.Err("\u009berr")}))
	want := "$ make 'a b'\nout | \\u001b[2Jout\nerr | \\u009berr\nsafe-run reader gone: stdout\nexit code 3; 1 line of stdout, 1 line of stderr\n"
	if got, code := (seat{env: []string{"NO_COLOR=1"}}).shows(t, "transcript", "show", name); lasting(got) != want || code != cli.ExitAccepted {
		t.Errorf("exit status %d, screen\n%q\nwant\n%q", code, got, want)
	}
	if got, code := (seat{}).shows(t, "transcript", "show", name); !strings.Contains(lasting(got), "\n\x1b[33m\\u009berr\x1b[0m\n") || code != cli.ExitAccepted {
		t.Errorf("exit status %d, screen\n%q", code, got)
	}
	bad := put(t, t.TempDir(), "\x1b[2Jbad.log", "=== STDOUT ===\n\n=== STDERR ===\n\n--- BEGIN EVENTS ---\n\x1b[2J\n")
	for _, command := range []string{"show", "events", "verify"} {
		got, code := (seat{env: []string{"NO_COLOR=1"}}).shows(t, "transcript", command, bad)
		if code == cli.ExitAccepted || strings.Contains(lasting(got), "\x1b") || !strings.Contains(got, `bad.log: `) {
			t.Errorf("%s: exit status %d, screen %q", command, code, got)
		}
	}
}

// TestTranscriptInterrupted: Ctrl-C ends the wait for a silent pipe, and for a reader that
// takes nothing.
func TestTranscriptInterrupted(t *testing.T) {
	name := logOf(t, transcripttest.RunOf([]transcripttest.Chunk{transcripttest.Out(strings.Repeat("line\n", 1<<18))}))
	for _, args := range [][]string{{"show", "-"}, {"events", "-"}, {"verify", "-"}, {"show", name}, {"events", name}} {
		t.Run(args[0]+" "+filepath.Base(args[1]), func(t *testing.T) {
			t.Parallel()
			silent, keep, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			defer keep.Close()
			full, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			cmd := command(t, append([]string{"transcript"}, args...)...)
			var stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = silent, out, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out.Close()
			if args[1] == "-" { // more than the pipe holds: it has begun to read
				_, err = keep.WriteString("=== STDOUT ===\n" + strings.Repeat("line\n", 1<<16))
			} else { // it has begun to write
				_, err = io.ReadFull(full, make([]byte, 10))
			}
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if got := status(t, err); got != cli.ExitError {
					t.Errorf("exit status %d, stderr %q", got, stderr.String())
				}
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				t.Fatal("still there a minute after the interrupt")
			}
			if args[1] == "-" && !strings.Contains(stderr.String(), `"message":"-: interrupted"`) {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}
