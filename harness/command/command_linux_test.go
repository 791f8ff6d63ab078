package command_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
)

func TestExitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 2, 7, 63, 125, 126, 127, 128, 143, 200, 254, 255} {
		r := run(t, t.Context(), sh("exit "+strconv.Itoa(code)), command.Spec{})
		if r.Code != code || r.Signal != 0 || r.ExitCode() != code || r.TimedOut || r.Interrupted || r.Held {
			t.Errorf("exit %d: %+v", code, r)
		}
		if r.MaxRSS <= 0 || r.Ended.Before(r.Started) {
			t.Errorf("exit %d: %d bytes resident, from %v to %v", code, r.MaxRSS, r.Started, r.Ended)
		}
	}
}

func TestDeathsBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGPIPE} {
		r := run(t, t.Context(), sh(fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)), command.Spec{})
		if r.Signal != sig || r.Code != 0 || r.ExitCode() != 128+int(sig) {
			t.Errorf("%v: %+v", sig, r)
		}
	}
}

func TestExitCodeOfATimeout(t *testing.T) {
	for _, exit := range []command.Exit{{}, {Code: 3}, {Signal: syscall.SIGKILL}} {
		if got := (command.Result{Exit: exit, TimedOut: true}).ExitCode(); got != 143 {
			t.Errorf("%+v: %d", exit, got)
		}
	}
}

func TestKeepsTheFirstBytes(t *testing.T) {
	const size, keep = 10 << 20, 1 << 10
	r := run(t, t.Context(), sh("yes 0123456789abcde | head -c 10485760"), command.Spec{Stdout: command.Stream{Keep: keep}})
	want := bytes.Repeat([]byte("0123456789abcde\n"), keep/16)
	if r.Stdout.Size != size || !r.Stdout.Truncated || !bytes.Equal(r.Stdout.Bytes, want) || r.Stdout.SHA256 != sha256.Sum256(want) {
		t.Errorf("%d bytes, truncated %t, kept %d", r.Stdout.Size, r.Stdout.Truncated, len(r.Stdout.Bytes))
	}
	if r.Stderr.Size != 0 || r.Stderr.Truncated || r.Stderr.SHA256 != sha256.Sum256(nil) {
		t.Errorf("standard error: %+v", r.Stderr)
	}
	for keep, want := range map[int64]string{-1: "", 0: "", 5: "12345", 6: "123456", 7: "123456"} {
		r := run(t, t.Context(), sh("printf 123456"), command.Spec{Stdout: command.Stream{Keep: keep}})
		if string(r.Stdout.Bytes) != want || r.Stdout.Truncated != (want != "123456") || r.Stdout.Size != 6 {
			t.Errorf("keeping %d: %+v", keep, r.Stdout)
		}
	}
}

func TestBothStreamsBusy(t *testing.T) {
	for name, script := range map[string]string{
		"together": "head -c 3000000 /dev/zero >&2 & head -c 3000000 /dev/zero; wait",
		"in turn":  "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero",
	} {
		keep := command.Stream{Keep: 100}
		r := run(t, t.Context(), sh(script), command.Spec{Stdout: keep, Stderr: keep})
		if r.Code != 0 || r.Stdout.Size != 3000000 || r.Stderr.Size != 3000000 || len(r.Stdout.Bytes) != 100 || len(r.Stderr.Bytes) != 100 {
			t.Errorf("%s: %d and %d bytes, code %d", name, r.Stdout.Size, r.Stderr.Size, r.Code)
		}
	}
}

func TestEndlessOutput(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	start := whenReady(sh(`printf 'y\ny\ny\ny\ny\n'; : >`+ready+"; exec yes"), ready)
	r := run(t, t.Context(), start, command.Spec{Timeout: 200 * time.Millisecond, Grace: hang, Stdout: command.Stream{Keep: 10}})
	if !r.TimedOut || r.Interrupted || r.Signal != syscall.SIGTERM || r.ExitCode() != 143 || r.Held || string(r.Stdout.Bytes) != "y\ny\ny\ny\ny\n" {
		t.Errorf("%+v", r)
	}
}

func TestTimeoutIgnoringTERM(t *testing.T) {
	for _, grace := range []time.Duration{50 * time.Millisecond, -1} {
		ready := filepath.Join(t.TempDir(), "ready")
		start := whenReady(sh("trap '' TERM; : >"+ready+"; exec sleep 1000"), ready)
		r := run(t, t.Context(), start, command.Spec{Timeout: 10 * time.Millisecond, Grace: grace})
		if !r.TimedOut || r.Signal != syscall.SIGKILL || r.ExitCode() != 143 {
			t.Errorf("grace %v: %+v", grace, r)
		}
	}
}

// TestTimeoutEndsTheGroup: the command obeys SIGTERM, a process it has started
// does not.
func TestTimeoutEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := run(t, ctx, sh(`trap "" TERM; sleep 1000 & trap - TERM; echo $!; wait`), command.Spec{
		Grace:  hang,
		Stdout: command.Stream{Keep: 100, Tee: &when{text: "\n", f: cancel}},
	})
	if !r.Interrupted || r.TimedOut || r.Signal != syscall.SIGTERM || r.Held {
		t.Errorf("%+v", r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Bytes)))
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d is still there", pid)
	}
}

func TestInterrupted(t *testing.T) {
	for script, code := range map[string]int{
		"echo ready; exec sleep 1000":                                       143,
		"trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done":      9,
		"echo ready; kill -STOP $$; sleep 1000":                             143, // it is continued
		"trap '' TERM; echo ready; while :; do sleep 0.05; done # grace 50": 137,
	} {
		grace := hang
		if code == 137 {
			grace = 50 * time.Millisecond
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := run(t, ctx, sh(script), command.Spec{Grace: grace, Stdout: command.Stream{Tee: &when{text: "ready", f: cancel}}})
		if !r.Interrupted || r.TimedOut || r.ExitCode() != code {
			t.Errorf("%s: %+v", script, r)
		}
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more")
	cancel(cause)
	r, err := command.Run(ctx, func(_, _, _ *os.File) (command.Process, error) {
		t.Error("something was started")
		return nil, cause
	}, command.Spec{})
	if err != cause || !r.Interrupted {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	signals := make(chan os.Signal, 2)
	r := run(t, t.Context(), sh("trap 'echo hup' HUP; trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done"), command.Spec{
		Signals: signals,
		Stdout: command.Stream{Keep: 100, Tee: io.MultiWriter(
			&when{text: "ready", f: func() { signals <- syscall.SIGHUP }},
			&when{text: "hup", f: func() { signals <- os.Interrupt; close(signals) }},
		)},
	})
	if r.Code != 7 || string(r.Stdout.Bytes) != "ready\nhup\n" || r.Interrupted || r.TimedOut {
		t.Errorf("%+v", r)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	signals := make(chan os.Signal, 1)
	r := run(t, t.Context(), sh("trap : HUP; (trap 'echo child; exit' HUP; echo ready; while :; do sleep 0.05; done) & wait; wait; exit 3"), command.Spec{
		Signals: signals,
		Stdout:  command.Stream{Keep: 100, Tee: &when{text: "ready", f: func() { signals <- syscall.SIGHUP }}},
	})
	if r.Code != 3 || string(r.Stdout.Bytes) != "ready\nchild\n" {
		t.Errorf("%+v", r)
	}
}

func TestGrandchildHoldsThePipe(t *testing.T) {
	for _, drain := range []time.Duration{50 * time.Millisecond, -1} {
		r := run(t, t.Context(), role(t, "leave"), command.Spec{Drain: drain, Stdout: command.Stream{Keep: 100}})
		if r.Code != 0 || !r.Held || r.Stdout.TeeErr != nil {
			t.Errorf("drain %v: %+v", drain, r)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Bytes)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("the grandchild: %v", err)
		}
	}
}

// TestGrandchildWritesLate: a process that the command left running has the time of Drain to
// finish.
func TestGrandchildWritesLate(t *testing.T) {
	r := run(t, t.Context(), sh("(sleep 0.3; echo late) & echo early"), command.Spec{Drain: hang, Stdout: command.Stream{Keep: 100}})
	if r.Held || string(r.Stdout.Bytes) != "early\nlate\n" {
		t.Errorf("%+v", r)
	}
}

// TestGrandchildNeverStops: a process that holds the stream and never stops writing is also
// cut off after Drain.
func TestGrandchildNeverStops(t *testing.T) {
	r := run(t, t.Context(), sh("yes & echo $! >&2"), command.Spec{Drain: 50 * time.Millisecond, Stderr: command.Stream{Keep: 100}})
	if r.Code != 0 || !r.Held {
		t.Errorf("%+v", r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stderr.Bytes)))
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) { // SIGPIPE
		t.Errorf("process %d is still there", pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestStdinEcho(t *testing.T) {
	in := make([]byte, 1<<20)
	for i := range in {
		in[i] = byte(i * i >> 3)
	}
	r := run(t, t.Context(), sh("exec cat"), command.Spec{Stdin: bytes.NewReader(in), Stdout: command.Stream{Keep: 1 << 21}})
	if r.Code != 0 || r.StdinErr != nil || r.Stdout.Truncated || !bytes.Equal(r.Stdout.Bytes, in) {
		t.Errorf("code %d, %v, %d bytes", r.Code, r.StdinErr, r.Stdout.Size)
	}
}

func TestStdinEmpty(t *testing.T) {
	for _, in := range []io.Reader{nil, strings.NewReader("")} {
		r := run(t, t.Context(), sh("cat; echo end"), command.Spec{Stdin: in, Stdout: command.Stream{Keep: 100}})
		if r.Code != 0 || string(r.Stdout.Bytes) != "end\n" {
			t.Errorf("%+v", r)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestStdinNeverRead(t *testing.T) {
	for _, script := range []string{"exit 4", "exec <&-; sleep 0.1; exit 4", "head -c 10 >/dev/null; exit 4", "sleep 0.1; exit 4"} {
		for _, in := range []io.Reader{endless{}, bytes.NewReader(make([]byte, 1<<20))} {
			r := run(t, t.Context(), sh(script), command.Spec{Stdin: in})
			if r.Code != 4 || r.StdinErr != nil {
				t.Errorf("%s: %+v", script, r)
			}
		}
	}
}

// TestStdinHeldByAGrandchild: the pipe of standard input is full, and a process outside
// holds its other end.
func TestStdinHeldByAGrandchild(t *testing.T) {
	goroutines, descriptors := runtime.NumGoroutine(), countFDs(t)
	r := run(t, t.Context(), sh("exec 3<&0; sleep 1000 >/dev/null 2>&1 & echo $!"), command.Spec{
		Stdin: endless{}, Drain: hang, Stdout: command.Stream{Keep: 100},
	})
	if r.Code != 0 || r.Held {
		t.Errorf("%+v", r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Bytes)))
	if err != nil {
		t.Fatal(err)
	}
	settled(t, goroutines, descriptors)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the grandchild: %v", err)
	}
}

// TestStdinNeverEnds: a reader that blocks does not delay Run, and the next bytes of a file
// stay there for other readers.
func TestStdinNeverEnds(t *testing.T) {
	t.Run("reader", func(t *testing.T) {
		in, w := io.Pipe()
		defer w.Close()
		if r := run(t, t.Context(), sh("exit 3"), command.Spec{Stdin: in}); r.Code != 3 || r.StdinErr != nil {
			t.Errorf("%+v", r)
		}
	})
	files := map[string]func(t *testing.T) (in, far *os.File){
		"pipe": func(t *testing.T) (in, far *os.File) {
			in, far, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return in, far
		},
		"blocking pipe": func(t *testing.T) (in, far *os.File) {
			in, far, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			in.Fd()
			return in, far
		},
		"terminal": terminal,
	}
	for name, open := range files {
		t.Run(name, func(t *testing.T) {
			in, far := open(t)
			defer in.Close()
			defer far.Close()
			goroutines, descriptors := runtime.NumGoroutine(), countFDs(t)
			for _, script := range []string{"exit 3", "exec <&-; sleep 0.1; exit 3", "sleep 0.2; exit 3"} {
				if r := run(t, t.Context(), sh(script), command.Spec{Stdin: in}); r.Code != 3 || r.StdinErr != nil {
					t.Errorf("%s: %+v", script, r)
				}
			}
			settled(t, goroutines, descriptors)
			if _, err := far.WriteString("later\n"); err != nil {
				t.Fatal(err)
			}
			r := run(t, t.Context(), sh("read a; echo $a"), command.Spec{Stdin: in, Stdout: command.Stream{Keep: 100}})
			if string(r.Stdout.Bytes) != "later\n" {
				t.Errorf("read %q", r.Stdout.Bytes)
			}
		})
	}
}

func TestStdinFails(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	r := run(t, t.Context(), sh("exec cat"), command.Spec{Stdin: in, Stdout: command.Stream{Keep: 100}})
	if r.StdinErr != broken || string(r.Stdout.Bytes) != "half" {
		t.Errorf("%+v", r)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestTeeGetsEverything(t *testing.T) {
	var out, errs bytes.Buffer
	r := run(t, t.Context(), sh("seq 200000; seq 7 >&2"), command.Spec{
		Stdout: command.Stream{Keep: 10, Tee: &out},
		Stderr: command.Stream{Keep: 10, Tee: &errs},
	})
	if r.Stdout.TeeErr != nil || int64(out.Len()) != r.Stdout.Size || !strings.HasSuffix(out.String(), "\n200000\n") || errs.String() != "1\n2\n3\n4\n5\n6\n7\n" {
		t.Errorf("%d bytes of %d, %v, %q", out.Len(), r.Stdout.Size, r.Stdout.TeeErr, errs.String())
	}
}

func TestTeeFails(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	for name, c := range map[string]struct {
		tee  io.Writer
		want error
	}{
		"error":       {writerFunc(func(b []byte) (int, error) { calls++; return 0, broken }), broken},
		"short write": {writerFunc(func(b []byte) (int, error) { return len(b) - 1, nil }), io.ErrShortWrite},
		"no reader":   {closedReader(t), syscall.EPIPE},
	} {
		r := run(t, t.Context(), sh("head -c 3000000 /dev/zero; exit 5"), command.Spec{Stdout: command.Stream{Keep: 1000, Tee: c.tee}})
		if !errors.Is(r.Stdout.TeeErr, c.want) || r.Code != 5 || r.Stdout.Size != 3000000 || len(r.Stdout.Bytes) != 1000 {
			t.Errorf("%s: %v, code %d, %d bytes", name, r.Stdout.TeeErr, r.Code, r.Stdout.Size)
		}
	}
	if calls != 1 {
		t.Errorf("a failed Tee was called %d times", calls)
	}
}

func closedReader(t *testing.T) io.Writer {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

// closing tells a test that Run has seen the end of the process.
type closing struct {
	command.Process
	f func()
}

func (c closing) Close() error {
	defer c.f()
	return c.Process.(io.Closer).Close()
}

func whenEnded(start command.Start, f func()) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p, err := start(stdin, stdout, stderr)
		return closing{p, f}, err
	}
}

// TestTeeBlocks: neither the timeout nor the context waits for a Tee or Events, and the
// output that the command wrote meanwhile is captured.
func TestTeeBlocks(t *testing.T) {
	for _, cause := range []string{"timeout", "context", "context after the end"} {
		t.Run(cause, func(t *testing.T) {
			unblock := make(chan struct{})
			goroutines, descriptors := runtime.NumGoroutine(), countFDs(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls atomic.Int32
			spec := command.Spec{Drain: 50 * time.Millisecond, Stdout: command.Stream{Keep: 1 << 20}}
			spec.Stdout.Tee = writerFunc(func(b []byte) (int, error) {
				calls.Add(1)
				if cause == "context" {
					cancel()
				}
				<-unblock
				return len(b), nil
			})
			start := sh("echo one; echo err >&2; exec sleep 1000")
			switch cause {
			case "timeout":
				ready := filepath.Join(t.TempDir(), "ready")
				start = whenReady(sh("echo one; echo err >&2; : >"+ready+"; exec sleep 1000"), ready)
				spec.Timeout = 300 * time.Millisecond
			case "context after the end":
				start = whenEnded(sh("echo one; sleep 0.1; echo two; echo err >&2"), cancel)
			}
			r := run(t, ctx, start, spec)
			want := "one\n"
			if cause == "context after the end" {
				want = "one\ntwo\n"
			}
			if string(r.Stdout.Bytes) != want || r.Stdout.TeeErr != command.ErrBlocked || r.Held {
				t.Errorf("%+v", r)
			}
			if r.TimedOut != (cause == "timeout") || r.Interrupted != (cause == "context") {
				t.Errorf("%+v", r)
			}
			close(unblock)
			settled(t, goroutines, descriptors)
			if n := calls.Load(); n != 1 {
				t.Errorf("called %d times, after Run had returned", n)
			}
		})
	}
}

// TestTeeBlocksItsStreamAlone: the command can write to the other stream, which is passed
// on, until the pipe of the blocked stream is full. Nothing is lost when the Tee continues.
func TestTeeBlocksItsStreamAlone(t *testing.T) {
	unblock := make(chan struct{})
	var got bytes.Buffer
	spec := command.Spec{Timeout: hang}
	spec.Stdout.Tee = writerFunc(func(b []byte) (int, error) { <-unblock; return got.Write(b) })
	spec.Stderr.Tee = &when{text: "over", f: func() { close(unblock) }}
	r := run(t, t.Context(), sh("head -c 3000000 /dev/zero & i=0; while [ $i -lt 300 ]; do echo $i >&2; i=$((i+1)); done; echo over >&2; wait"), spec)
	if r.TimedOut || got.Len() != 3000000 || r.Stdout.Size != 3000000 || r.Stdout.TeeErr != nil || r.Held {
		t.Errorf("%d bytes passed on, %+v", got.Len(), r)
	}
}

// TestFirstWrittenFirstRead: if two streams become readable shortly after one another, the
// first one is read first.
func TestFirstWrittenFirstRead(t *testing.T) {
	for script, want := range map[string]string{
		"echo 1; echo 2 >&2": "12",
		"echo 2 >&2; echo 1": "21",
		"/bin/echo 1; /bin/echo 2 >&2; /bin/echo 3; /bin/echo 4 >&2": "1234",
	} {
		// If the system delays the reader, it finds both streams readable, and reads one
		// stream's second line together with its first one. Such a run does not count.
		const enough, most = 150, 1500
		counted, runs := 0, 0
		for ; counted < enough && runs < most; runs++ {
			var got strings.Builder
			chunks := 0
			run(t, t.Context(), sh(script), command.Spec{Drain: hang, Events: func(_ int, _ time.Time, b []byte) { chunks++; got.Write(b) }})
			if chunks != len(want) {
				continue
			}
			counted++
			if strings.ReplaceAll(got.String(), "\n", "") != want {
				t.Errorf("%s: run %d read %q", script, runs, got.String())
			}
		}
		if t.Logf("%s: %d of %d runs count", script, counted, runs); counted < enough {
			t.Errorf("%s: only %d of %d runs read line by line", script, counted, runs)
		}
	}
}

// TestTeeIsWaitedFor: a reader that pauses for longer than Drain loses nothing.
func TestTeeIsWaitedFor(t *testing.T) {
	var out bytes.Buffer
	ended := make(chan struct{})
	slow := writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 {
			<-ended
			time.Sleep(300 * time.Millisecond)
		}
		return out.Write(b)
	})
	start := whenEnded(sh("printf 1; sleep 0.1; printf 2; printf 3 >&2"), func() { close(ended) })
	r := run(t, t.Context(), start, command.Spec{
		Timeout: hang, Drain: 50 * time.Millisecond, Stdout: command.Stream{Keep: 10, Tee: slow}, Stderr: command.Stream{Keep: 10},
	})
	if out.String() != "12" || string(r.Stdout.Bytes) != "12" || r.Stdout.TeeErr != nil || r.Held || string(r.Stderr.Bytes) != "3" {
		t.Errorf("%q, %+v", out.String(), r)
	}
}

// TestEventsInOrder: the command writes to the streams in turn, each time after its previous
// output has been seen.
func TestEventsInOrder(t *testing.T) {
	in, seen := io.Pipe()
	clock := time.Unix(0, 0) // one second later at each reading
	var got []string
	var last time.Time
	var mu sync.Mutex
	r := run(t, t.Context(), sh("printf 1; read a; printf 2 >&2; read a; printf 3; read a; printf 4 >&2"), command.Spec{
		Stdin: in,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(time.Second)
			return clock
		},
		Events: func(stream int, at time.Time, chunk []byte) {
			if !at.After(last) {
				t.Errorf("%v after %v", at, last)
			}
			last = at
			got = append(got, fmt.Sprintf("%d:%s", stream, chunk))
			if string(chunk) == "4" {
				seen.Close()
				return
			}
			go seen.Write([]byte("\n"))
		},
	})
	if want := "1:1 2:2 1:3 2:4"; strings.Join(got, " ") != want || r.Started.Unix() != 1 || r.Ended.Unix() < 5 {
		t.Errorf("%q from %v to %v", got, r.Started, r.Ended)
	}
}

// TestEventsAreSerial: with both streams busy, Events is called once at a time, and receives
// every byte exactly once.
func TestEventsAreSerial(t *testing.T) {
	var sizes [3]int64
	r := run(t, t.Context(), sh("seq 300000 >&2 & seq 300000; wait"), command.Spec{
		Events: func(stream int, _ time.Time, chunk []byte) { sizes[stream] += int64(len(chunk)) }, // the race detector looks
	})
	if sizes[1] != r.Stdout.Size || sizes[2] != r.Stderr.Size || r.Stdout.Size != r.Stderr.Size {
		t.Errorf("%v, %d and %d", sizes, r.Stdout.Size, r.Stderr.Size)
	}
}

func TestInsist(t *testing.T) {
	const obeys, ignores = "echo ready; exec sleep 1000", "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"
	for _, c := range []struct {
		name, script string
		signals      []os.Signal
		insist       time.Duration
		end          syscall.Signal
		code         int
		killed       command.Killed
	}{
		{"obeys", obeys, []os.Signal{syscall.SIGHUP}, hang, syscall.SIGHUP, 0, command.NotKilled},
		{"code of its own", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done", []os.Signal{syscall.SIGTERM}, hang, 0, 9, command.NotKilled},
		{"overstays", ignores, []os.Signal{syscall.SIGTERM}, 50 * time.Millisecond, syscall.SIGKILL, 0, command.Overstayed},
		{"interrupted twice", ignores, []os.Signal{os.Interrupt, os.Interrupt}, hang, syscall.SIGKILL, 0, command.InterruptedTwice},
		{"twice at once", "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done", []os.Signal{os.Interrupt}, hang, 0, 9, command.NotKilled},
		{"TERM between", ignores, []os.Signal{os.Interrupt, syscall.SIGTERM, os.Interrupt}, hang, syscall.SIGKILL, 0, command.InterruptedTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r command.Result
			rehearsal.Again(t, 6, func(int) string {
				signals, sent := make(chan os.Signal, 4), make(chan os.Signal, 4)
				r = run(t, t.Context(), whenSignalled(sh(c.script), sent), command.Spec{Signals: signals, Insist: c.insist, Stdout: command.Stream{Tee: &when{text: "ready", f: func() {
					go func() {
						if c.name == "twice at once" {
							signals <- os.Interrupt
						}
						for i, s := range c.signals {
							if i > 0 {
								<-sent
								time.Sleep(300 * time.Millisecond) // otherwise it would count as the same signal
							}
							signals <- s
						}
					}()
				}}}})
				if c.name == "twice at once" && r.Killed == command.InterruptedTwice {
					return "the second signal was read too late to count as the first one"
				}
				return ""
			})
			if r.Signal != c.end || r.Code != c.code || r.Killed != c.killed || r.Forwarded != c.signals[0] || r.TimedOut || r.Interrupted || r.Held {
				t.Errorf("%+v", r)
			}
		})
	}
}

// whenSignalled starts a command that says on a channel which signals it gets.
func whenSignalled(start command.Start, sent chan<- os.Signal) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p, err := start(stdin, stdout, stderr)
		return signalled{p, sent}, err
	}
}

type signalled struct {
	command.Process
	sent chan<- os.Signal
}

func (s signalled) Signal(sig syscall.Signal) error {
	err := s.Process.Signal(sig)
	s.sent <- sig
	return err
}

func (s signalled) Close() error { return s.Process.(io.Closer).Close() }

// TestInsistEndsTheGroup: the command obeys the signal, and a process that it has started
// does not.
func TestInsistEndsTheGroup(t *testing.T) {
	signals := make(chan os.Signal, 1)
	r := run(t, t.Context(), sh(`trap "" TERM; sleep 1000 & trap - TERM; echo $!; wait`), command.Spec{
		Signals: signals, Insist: hang,
		Stdout: command.Stream{Keep: 100, Tee: &when{text: "\n", f: func() { signals <- syscall.SIGTERM }}},
	})
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Bytes)))
	if err != nil || r.Signal != syscall.SIGTERM || r.Held || !gone(pid) {
		t.Errorf("%v, %+v", err, r)
	}
}

// whenWaited starts f when the command has ended.
func whenWaited(start command.Start, f func()) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p, err := start(stdin, stdout, stderr)
		return waited{p, f}, err
	}
}

type waited struct {
	command.Process
	f func()
}

func (w waited) Wait() (command.Exit, error) {
	defer func() { go w.f() }()
	return w.Process.Wait()
}

func (w waited) Close() error { return w.Process.(io.Closer).Close() }

// TestInsistAfterTheEnd: a process that the command left in its group holds a stream; a
// signal that arrives then kills the process.
func TestInsistAfterTheEnd(t *testing.T) {
	signals := make(chan os.Signal, 1)
	start := whenWaited(sh(`sleep 1000 & echo $!`), func() { time.Sleep(100 * time.Millisecond); signals <- syscall.SIGTERM })
	r := run(t, t.Context(), start, command.Spec{Signals: signals, Insist: hang, Drain: hang, Stdout: command.Stream{Keep: 100}})
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Bytes)))
	if err != nil || r.Code != 0 || r.Forwarded != syscall.SIGTERM || !gone(pid) {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestInsistDoesNotWaitForATee: Run does not wait for a Tee, neither when the signal ends
// the command nor when it arrives after the end of the command.
func TestInsistDoesNotWaitForATee(t *testing.T) {
	for _, script := range []string{"echo one; exec sleep 1000", "echo one"} {
		unblock := make(chan struct{})
		signals := make(chan os.Signal, 1)
		start := sh(script)
		tee := writerFunc(func(b []byte) (int, error) { signals <- syscall.SIGTERM; <-unblock; return len(b), nil })
		if script == "echo one" {
			tee = writerFunc(func(b []byte) (int, error) { <-unblock; return len(b), nil })
			start = whenWaited(start, func() { time.Sleep(100 * time.Millisecond); signals <- syscall.SIGTERM })
		}
		r := run(t, t.Context(), start, command.Spec{Signals: signals, Insist: hang, Drain: 50 * time.Millisecond, Stdout: command.Stream{Keep: 9, Tee: tee}})
		if string(r.Stdout.Bytes) != "one\n" || r.Stdout.TeeErr != command.ErrBlocked || r.Forwarded != syscall.SIGTERM || r.Killed != command.NotKilled {
			t.Errorf("%s: %+v", script, r)
		}
		close(unblock)
	}
}

// TestOnePlace: Tees that write to one place receive the chunks of both streams in the
// order in which they were read. Each Tee has its own error.
func TestOnePlace(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var read, passed strings.Builder
		tee := func(number byte) io.Writer {
			return writerFunc(func(b []byte) (int, error) {
				if fails && number == '2' {
					return 0, io.ErrClosedPipe
				}
				passed.WriteByte(number) // the race detector looks
				return passed.Write(b)
			})
		}
		r := run(t, t.Context(), sh("i=0; while [ $i -lt 300 ]; do echo $i; echo $i >&2; i=$((i+1)); done"), command.Spec{
			OnePlace: true,
			Stdout:   command.Stream{Tee: tee('1')}, Stderr: command.Stream{Tee: tee('2')},
			Events: func(stream int, _ time.Time, b []byte) {
				if !fails || stream == 1 {
					fmt.Fprintf(&read, "%d%s", stream, b)
				}
			},
		})
		if (r.Stderr.TeeErr == io.ErrClosedPipe) != fails || r.Stdout.TeeErr != nil || r.Stdout.Size != r.Stderr.Size {
			t.Errorf("%+v", r)
		}
		if passed.String() != read.String() || !strings.HasPrefix(read.String(), "10\n") {
			t.Errorf("passed on:\n%s\nread:\n%s", passed.String(), read.String())
		}
	}
}

// fake is a Process that a test controls. Its streams are closed.
type fake struct {
	kill   error
	ended  chan struct{}
	err    error
	closed chan struct{}
}

func (f *fake) Signal(syscall.Signal) error { return nil }
func (f *fake) Kill() error                 { return f.kill }
func (f *fake) Close() error                { close(f.closed); return nil }
func (f *fake) Wait() (command.Exit, error) {
	<-f.ended
	return command.Exit{Code: 6}, f.err
}
func (f *fake) start(_, _, _ *os.File) (command.Process, error) { return f, nil }

func TestKillFails(t *testing.T) {
	f := &fake{kill: syscall.EPERM, ended: make(chan struct{}), closed: make(chan struct{})}
	r, err := try(t, t.Context(), f.start, command.Spec{Timeout: time.Millisecond, Grace: time.Millisecond})
	if !errors.Is(err, syscall.EPERM) || !r.TimedOut || r.Ended.IsZero() {
		t.Errorf("%v, %+v", err, r)
	}
	close(f.ended)
	<-f.closed
}

func TestWaitFails(t *testing.T) {
	f := &fake{ended: make(chan struct{}), err: syscall.ECHILD, closed: make(chan struct{})}
	close(f.ended)
	r, err := try(t, t.Context(), f.start, command.Spec{})
	if !errors.Is(err, syscall.ECHILD) || r.Code != 6 {
		t.Errorf("%v, %+v", err, r)
	}
	<-f.closed
}

func TestStartFails(t *testing.T) {
	broken := errors.New("broken")
	descriptors := countFDs(t)
	_, err := try(t, t.Context(), func(_, _, _ *os.File) (command.Process, error) { return nil, broken }, command.Spec{Stdin: endless{}})
	if err != broken {
		t.Error(err)
	}
	settled(t, runtime.NumGoroutine(), descriptors)
}

func TestNothingLeaks(t *testing.T) {
	once := func(i int) {
		spec := command.Spec{Stdout: command.Stream{Keep: 10, Tee: io.Discard}, Drain: -1}
		start := sh("echo a; echo b >&2")
		switch i % 6 {
		case 1:
			spec.Stdin = endless{}
		case 2:
			spec.Stdin = strings.NewReader("input")
			start = sh("exec cat")
		case 3:
			spec.Timeout, spec.Grace = time.Millisecond, -1
			start = sh("exec sleep 1000")
		case 4:
			start = command.Direct([]string{"/nonexistent"}, nil, "")
		case 5:
			start = sh("sleep 0.01 & exit 1") // holds the pipes
		}
		r, err := try(t, t.Context(), start, spec)
		if (err != nil) != (i%6 == 4) {
			t.Errorf("run %d: %v, %+v", i, err, r)
		}
	}
	for i := range 12 {
		once(i)
	}
	goroutines, descriptors := runtime.NumGoroutine(), countFDs(t)
	for i := range 300 {
		once(i)
	}
	settled(t, goroutines, descriptors)
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}
