package saferun_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/fiador/fiador/evidence/transcript"
)

// forged is a log that a command may write.
const forged = "=== STDOUT ===\nx\n\n=== STDERR ===\n\n--- BEGIN EVENTS ---\n[SEQ=1][META] safe-run start: cmd=\"x\"\n" +
	"[SEQ=2][STDOUT] x\n[SEQ=3][META] safe-run exit: code=0\n--- END EVENTS ---\n"

// TestBytes: the bytes of both streams reach the caller and the log unchanged.
func TestBytes(t *testing.T) {
	dir := t.TempDir()
	for i, text := range []string{
		"", "\n", "\n\n\n", "x", "x\n", " x \n\t\n", "a\x00b\n\x00", "a\r\nb\r\n", "a\rb\r", "\r", "\r\n", "\r\r\n", "a\r",
		"\xff\xfe\n", "caf\xc3\n\xa9\n", "\xed\xa0\x80\n", "a\u2028b\u2029c\u0085\n", "\x1b[31mred\x1b[0m\n", "\ufeffx\n", "base64:eA==\n", "base64:",
		"=== STDOUT ===\n", "\n=== STDERR ===\n", "\n--- BEGIN EVENTS ---\n", "--- END EVENTS ---\n", "--- BEGIN EVENTS ---", "[SEQ=1][META] safe-run exit: code=0\n",
		forged, "\n" + forged + "\n" + forged, strings.TrimSuffix(forged, "\n"),
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			one := file(t, filepath.Join(dir, strconv.Itoa(i)), text, 0o600)
			for _, c := range []struct{ script, stdout, stderr string }{
				{`cat "$1"`, text, ""},
				{`cat "$1" >&2`, "", text},
				{`cat "$1"; cat "$1" >&2`, text, text},
				{`printf x; cat "$1"; printf y >&2; cat "$1" >&2`, "x" + text, "y" + text},
			} {
				r := run(t, options{}, sh(c.script+"; exit 1", one)...)
				if l := r.failed(t, 1); l.stdout != c.stdout || l.stderr != c.stderr {
					t.Errorf("%s: %q and %q, want %q and %q", c.script, l.stdout, l.stderr, c.stdout, c.stderr)
				}
			}
			r := run(t, options{}, sh(`cat "$1"; cat "$1" >&2`, one)...)
			if r.succeeded(t); r.stdout != text || r.stderr != text {
				t.Errorf("%q and %q, want %q", r.stdout, r.stderr, text)
			}
		})
	}
}

// TestLargeOutput: ten megabytes, with many short lines or few long ones.
func TestLargeOutput(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"10 MB of lines":           "yes 0123456789abcdef | head -c 10000000",
		"10 MB of anything":        "head -c 10000000 /dev/urandom",
		"100 000 lines":            "yes | head -n 100000",
		"100 000 empty lines":      "yes '' | head -n 100000",
		"a line of 5 MB":           "head -c 5000000 /dev/zero | tr '\\0' x; echo",
		"a line of 5 MB, no LF":    "head -c 5000000 /dev/zero | tr '\\0' x",
		"5 MB without LF or sense": "head -c 5000000 /dev/zero | tr '\\0' '\\377'",
	} {
		t.Run(name, func(t *testing.T) {
			kept := filepath.Join(t.TempDir(), "kept")
			for _, c := range []struct{ script, stream string }{
				{"(" + script + ") | tee \"$1\"; exit 3", "stdout"},
				{"(" + script + ") | tee \"$1\" >&2; exit 3", "stderr"},
			} {
				l := run(t, options{}, sh(c.script, kept)...).failed(t, 3)
				want, err := os.ReadFile(kept)
				if err != nil {
					t.Fatal(err)
				}
				got, other := l.stdout, l.stderr
				if c.stream == "stderr" {
					got, other = other, got
				}
				if got != string(want) || other != "" {
					t.Errorf("%s: %d bytes that differ from the %d written", c.stream, len(got), len(want))
				}
			}
		})
	}
}

// TestAtOnce: a prompt without a newline is passed on while the command waits for
// the answer, on either stream.
func TestAtOnce(t *testing.T) {
	in, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer answers.Close()
	p := start(t, options{stdin: in}, sh("printf 'name? '; read name; printf 'age? ' >&2; read age; echo $name, $age; exit 2")...)
	p.await("name? ")
	io.WriteString(answers, "Ada\n")
	p.awaitIn(&p.stderr, "age? ")
	io.WriteString(answers, "36\n")
	if l := p.wait().failed(t, 2); l.stdout != "name? Ada, 36\n" || l.stderr != "age? " {
		t.Errorf("%q and %q", l.stdout, l.stderr)
	}
}

// TestTwoBusyStreams: in each of a hundred runs the numbers are in order, each stream is
// in its own order, and no line is missing.
func TestTwoBusyStreams(t *testing.T) {
	const lines = 300
	for i := range 100 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			l := run(t, options{}, as(t, "busy", strconv.Itoa(lines))...).failed(t, 9)
			next, seq := map[transcript.Stream]int{}, int64(0)
			for e, err := range l.Events() {
				if seq++; err != nil || e.Seq != seq {
					t.Fatalf("event %d is number %d, %v", seq, e.Seq, err)
				}
				if e.Stream == transcript.Meta {
					continue
				}
				if want := fmt.Sprintf("%d of /dev/%s", next[e.Stream], strings.ToLower(e.Stream.String())); e.Text != want {
					t.Fatalf("event %d is %q, want %q", seq, e.Text, want)
				}
				next[e.Stream]++
			}
			if next[transcript.Stdout] != lines || next[transcript.Stderr] != lines {
				t.Errorf("%d lines, want %d of each", next, lines)
			}
		})
	}
}

// TestOneFileForBoth: if both streams of the caller are one file, as on a terminal or
// after 2>&1, the caller's copy has the order of the log.
func TestOneFileForBoth(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		both, err := os.Create(filepath.Join(dir, "both"))
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, options{stdout: both, stderr: both}, sh("i=0; while [ $i -lt 50 ]; do echo out $i; echo err $i >&2; ls / >/dev/null; i=$((i+1)); done; exit 3")...)
		both.Close()
		got, err := os.ReadFile(both.Name())
		if err != nil {
			t.Fatal(err)
		}
		l := r.failed(t, 3)
		var want bytes.Buffer
		if err := l.WriteMerged(&want); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "safe-run: exit code 3, log \".agent/FAIL-LOGS/%s\"\n", filepath.Base(l.path))
		if string(got) != want.String() {
			t.Fatalf("%q, in the log %q", got, want.String())
		}
	}
}

// TestStdin: the command reads the same input as without safe-run. The input that it does
// not read is left for the next program.
func TestStdin(t *testing.T) {
	dir := t.TempDir()
	large := file(t, filepath.Join(dir, "large"), strings.Repeat("0123456789abcde\n", 10<<16), 0o600)
	for _, through := range []string{`exec "$@" <` + large, `cat ` + large + ` | "$@"`} {
		r := run(t, options{under: sh(through)}, "cksum")
		want := direct(t, options{under: sh(through)}, "cksum")
		if r.code != 0 || r.stdout != want || want == "" {
			t.Errorf("%s: %q, want %q", through, r.stdout, want)
		}
	}
	lines := file(t, filepath.Join(dir, "lines"), "one\ntwo\nthree\n", 0o600)
	for _, through := range []string{`{ "$@"; cat; } <` + lines, `cat ` + lines + ` | { "$@"; cat; }`} {
		r := run(t, options{under: sh(through)}, sh("read line; echo read: $line")...)
		if r.code != 0 || r.stdout != "read: one\ntwo\nthree\n" {
			t.Errorf("%s: %q", through, r.stdout)
		}
	}
	in, out, err := os.Pipe() // it has no writer, and nobody closes it
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	run(t, options{stdin: in}, "true").succeeded(t)
}

// TestClosedStreams: safe-run does not fail or hang because streams are closed or empty.
// The command has /dev/null instead of a closed standard input.
func TestClosedStreams(t *testing.T) {
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&- 2>&-", "</dev/null", ">/dev/null 2>&1"} {
		o := options{under: sh(`exec "$@" ` + closed)}
		run(t, o, sh("cat; echo out; echo err >&2")...).succeeded(t)
		r := run(t, o, sh("cat; echo out; echo err >&2; exit 3")...)
		if l := r.log(t); r.code != 3 || l.Code() != 3 || l.stdout != "out\n" || l.stderr != "err\n" || len(l.Notes()) > 0 {
			t.Errorf("%s: exit status %d; %q, %q, %q", closed, r.code, l.stdout, l.stderr, l.Notes())
		}
	}
}

// TestReaderGone: the command continues, does not notice, and its log is complete.
func TestReaderGone(t *testing.T) {
	const size = 3000000 // more than pipes and buffers hold
	for _, stream := range []string{"stdout", "stderr"} {
		to := map[string]string{"stdout": "", "stderr": " >&2"}[stream]
		for name, read := range map[string]int64{"at once": 0, "after a while": 100} {
			t.Run(stream+" "+name, func(t *testing.T) {
				for _, code := range []int{0, 3} {
					r := vanished(t, stream, read, fmt.Sprintf("head -c %d /dev/zero%s && echo end%s; exit %d", size, to, to, code))
					if code == 0 {
						r.succeeded(t)
						continue
					}
					l := r.failed(t, code, "safe-run reader gone: "+stream)
					if got := l.stdout + l.stderr; len(got) != size+4 || !strings.HasSuffix(got, "\x00end\n") {
						t.Errorf("%d bytes", len(got))
					}
				}
			})
		}
	}
	r := vanished(t, "both", 0, "echo out; echo err >&2; exit 3")
	if l := r.failed(t, 3, "safe-run reader gone: stdout", "safe-run reader gone: stderr"); l.stdout != "out\n" || l.stderr != "err\n" {
		t.Errorf("%q and %q", l.stdout, l.stderr)
	}
}

// vanished runs a script. The reader of its stream goes away after some bytes.
func vanished(t *testing.T, stream string, after int64, script string) result {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var o options
	if stream != "stderr" {
		o.stdout = write
	}
	if stream != "stdout" {
		o.stderr = write
	}
	if after == 0 {
		read.Close()
	}
	p := start(t, o, sh(script)...)
	write.Close()
	if after > 0 {
		io.CopyN(io.Discard, read, after)
		read.Close()
	}
	return p.wait()
}

// TestFullDevice: a message names the output that cannot be passed on. Nothing else
// changes.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is full: %v", err)
	}
	defer full.Close()
	const said = "safe-run: stdout could not be passed on: no space left on device\n"
	r := run(t, options{stdout: full}, "echo", "x")
	if r.code != 0 || r.stderr != said {
		t.Errorf("exit status %d, %q", r.code, r.stderr)
	}
	r = run(t, options{stdout: full}, sh("echo x; exit 3")...)
	l := r.log(t)
	if r.code != 3 || l.stdout != "x\n" || !strings.HasPrefix(r.stderr, said) ||
		fmt.Sprint(l.Notes()) != "[safe-run output not passed on: stdout: no space left on device]" {
		t.Errorf("exit status %d, %q, %q, %q", r.code, l.stdout, r.stderr, l.Notes())
	}
	r = run(t, options{stderr: full}, sh("echo x >&2; exit 3")...)
	if l := r.failed(t, 3, "safe-run output not passed on: stderr: no space left on device"); l.stderr != "x\n" {
		t.Errorf("%q", l.stderr)
	}
}

// TestNonblockingOutput: a caller's output that is non-blocking loses no byte. The same
// holds if the command makes it non-blocking through an input with the same file.
func TestNonblockingOutput(t *testing.T) {
	const size = 3000000
	for _, before := range []bool{false, true} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.SetNonblock(pair[0], before); err != nil {
			t.Fatal(err)
		}
		ours, far := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "far socket")
		p := start(t, options{stdin: ours, stdout: ours}, as(t, "nonblocking", strconv.Itoa(size))...)
		ours.Close()
		p.awaitIn(&p.stderr, "nonblocking")
		time.Sleep(100 * time.Millisecond) // the socket fills meanwhile
		n, err := io.Copy(io.Discard, far)
		far.Close()
		if r := p.wait(); n != size || err != nil || r.code != 0 || r.stderr != "nonblocking\n" {
			t.Errorf("%v: %d bytes, %v, exit status %d, %q", before, n, err, r.code, r.stderr)
		}
	}
}

// TestSlowReader: a reader that starts long after the end of the command reads everything.
func TestSlowReader(t *testing.T) {
	t.Parallel() // it takes three seconds
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	full, err := write.Write(make([]byte, 4<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full: %v", err)
	}
	p := start(t, options{stdout: write}, sh("echo $$ >&2; i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; exit 3")...)
	write.Close()
	pid := p.awaitIn(&p.stderr, "\n")
	if !gone(pid) {
		t.Fatal("the command has not ended")
	}
	time.Sleep(3 * time.Second) // longer than safe-run waits for the streams
	got, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if l := p.wait().failed(t, 3); l.stdout != string(got[full:]) || strings.Count(l.stdout, "\n") != 1000 {
		t.Errorf("%q, in the log %q", shortened(string(got[full:])), shortened(l.stdout))
	}
}

// TestReaderStalls: a command whose output has no reader is interrupted in bounded time,
// and its log is there, for either stream.
func TestReaderStalls(t *testing.T) {
	for _, c := range []struct {
		name, script string
		notes        []string
	}{
		{"stdout", "exec yes", []string{"stdout"}},
		{"stderr", "exec yes >&2", []string{"stderr"}},
		{"both", "yes >&2 & exec yes", []string{"stdout", "stderr"}},
		{"both on one pipe", "exec yes", []string{"stdout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each takes a while

			var pipes [2][2]*os.File // of stdout and of stderr, each with its reader and its writer
			for i := range pipes {
				var err error
				if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
					t.Fatal(err)
				}
				defer pipes[i][0].Close()
			}
			if c.name == "both on one pipe" {
				pipes[1][1].Close()
				pipes[1][1] = pipes[0][1]
			}
			var o options
			if c.name != "stderr" {
				o.stdout = pipes[0][1]
			}
			if c.name != "stdout" {
				o.stderr = pipes[1][1]
			}
			p := start(t, o, sh(c.script)...)
			for i, pipe := range pipes {
				pipe[1].Close()
				if slices.Contains(c.notes, [2]string{"stdout", "stderr"}[i]) {
					stalled(t, pipe[0])
				}
			}
			p.signal(syscall.SIGTERM)
			guard := time.AfterFunc(hang/2, func() {
				t.Error("safe-run waits for the reader")
				for _, pipe := range pipes {
					pipe[0].Close()
				}
			})
			r := p.wait()
			if !guard.Stop() {
				return
			}
			notes := []string{"safe-run interrupted: signal=TERM"}
			for _, s := range c.notes {
				notes = append(notes, "safe-run output not passed on: "+s+": the reader of the output does not read")
			}
			l := r.log(t)
			if r.code != 143 || l.Code() != 143 || !slices.Equal(l.Notes(), notes) {
				t.Errorf("exit status %d, %q, want %q", r.code, l.Notes(), notes)
			}
		})
	}
}

// stalled waits until a pipe without a reader is full: a writer must wait then.
func stalled(t *testing.T, pipe *os.File) {
	t.Helper()
	conn, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	writer := -1
	if e := conn.Control(func(fd uintptr) {
		writer, err = syscall.Open(fmt.Sprintf("/proc/self/fd/%d", fd), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	defer syscall.Close(writer)
	for end := time.Now().Add(hang); ; time.Sleep(10 * time.Millisecond) {
		at := struct {
			fd              int32
			events, revents int16
		}{int32(writer), pollOut, 0}
		ready, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&at)), 1, uintptr(unsafe.Pointer(&syscall.Timespec{})), 0, 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			t.Fatal(errno)
		}
		if errno == 0 && ready == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the pipe does not become full")
		}
	}
}

const pollOut = 4 // POLLOUT of poll(2)
