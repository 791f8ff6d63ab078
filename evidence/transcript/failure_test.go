package transcript

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"testing"
)

// TestNoRun: an invalid run gives an error and no log.
func TestNoRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"negative code":  {func(r *Run) { r.Code = -1 }, "exit code -1 is not one of 0 to 4294967295"},
		"large code":     {func(r *Run) { n := int64(maxCode) + 1; r.Code = int(n) }, "exit code 4294967296 is not one of 0 to 4294967295"},
		"a second start": {func(r *Run) { r.Notes = []string{"safe-run start: x"} }, `note "safe-run start: x" would pass for the start or the exit`},
		"a second exit":  {func(r *Run) { r.Notes = []string{"ok", "safe-run exit:"} }, `note "safe-run exit:" would pass for the start or the exit`},
		"no spans":       {func(r *Run) { r.Order = nil }, "spans of STDOUT end at byte 0 of 6"},
		"too few":        {func(r *Run) { r.Order = spans(Span{Stdout, 6}, Span{Stderr, 3}) }, "spans of STDERR end at byte 3 of 4"},
		"too many":       {func(r *Run) { r.Order = spans(Span{Stdout, 4}, Span{Stdout, 3}) }, "span of 3 bytes at byte 4 of 6 of STDOUT"},
		"far too many":   {func(r *Run) { r.Order = spans(Span{Stdout, 1}, Span{Stdout, 1<<63 - 1}) }, "span of 9223372036854775807 bytes at byte 1 of 6 of STDOUT"},
		"negative":       {func(r *Run) { r.Order = spans(Span{Stdout, 6}, Span{Stdout, -1}) }, "span of -1 bytes at byte 6 of 6 of STDOUT"},
		"meta":           {func(r *Run) { r.Order = spans(Span{Meta, 0}) }, "span of stream META"},
		"unknown":        {func(r *Run) { r.Order = spans(Span{3, 0}) }, "span of stream Stream(3)"},
	} {
		if name == "large code" && strconv.IntSize < 64 {
			continue // int cannot hold it
		}
		r := runOf(stdout("stdout"), stderr("err\n"))
		c.change(&r)
		err := r.WriteLedger(io.Discard)
		var none *RunError
		if !errors.As(err, &none) || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func spans(list ...Span) iter.Seq2[Span, error] {
	return func(yield func(Span, error) bool) {
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// failing is a reader or a writer that fails at its call number left, and at all later
// ones.
type failing struct {
	io.ReaderAt
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		n, _ := f.ReaderAt.ReadAt(p[:len(p)/2], off)
		return n, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

// until calls f with a failure at the first call, the second one and so on, until there
// are no more calls.
func until(t *testing.T, what string, want error, f func(call int) error) {
	t.Helper()
	for call := 0; ; call++ {
		err := f(call)
		if err == nil {
			if call < 5 {
				t.Errorf("%s: nothing failed after %d calls", what, call)
			}
			return
		}
		if !errors.Is(err, want) {
			t.Fatalf("%s: call %d: %v", what, call, err)
		}
	}
}

// TestFailures: an error of the order, a stream, a log or the writer is returned, at
// whichever call it happens. An end before the size is io.ErrUnexpectedEOF.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	all := strings.Repeat("line\nbase64:\n\xff\n", 20) + strings.Repeat("x", 100)
	run := func() Run { return runOf(stdout(all), stderr(all)) }
	log := ledgerOf(t, run())
	until(t, "writing", broken, func(call int) error {
		return run().writeLedger(&failing{left: call, err: broken}, "cmd", 16)
	})
	until(t, "merging", broken, func(call int) error { return run().writeMerged(&failing{left: call, err: broken}, 16) })
	for _, cause := range []error{broken, io.EOF, nil} {
		want := cause
		if cause != broken {
			want = io.ErrUnexpectedEOF
		}
		stream := func(call int) Run {
			r := run()
			r.Stderr = io.NewSectionReader(&failing{strings.NewReader(all), call, cause}, 0, int64(len(all)))
			return r
		}
		until(t, "a stream", want, func(call int) error { return stream(call).writeLedger(io.Discard, "cmd", 16) })
		until(t, "a stream to merge", want, func(call int) error { return stream(call).writeMerged(io.Discard, 16) })
		if cause == nil {
			continue // bufio has its own error for a reader that neither reads nor fails
		}
		until(t, "a log", want, func(call int) error {
			_, err := open(&failing{strings.NewReader(log), call, cause}, int64(len(log)), 16)
			return err
		})
		l := opened(t, log)
		l.piece = 16
		until(t, "events", want, func(call int) error {
			l.r = &failing{strings.NewReader(log), call, cause}
			for _, err := range l.Events() {
				if err != nil {
					return err
				}
			}
			return nil
		})
		until(t, "merging a log", want, func(call int) error {
			l.r = &failing{strings.NewReader(log), call, cause}
			return l.WriteMerged(io.Discard)
		})
	}
	r := run()
	r.Order = func(yield func(Span, error) bool) { _ = yield(Span{Stdout, 5}, nil) && yield(Span{}, broken) }
	if err := r.WriteLedger(io.Discard); !errors.Is(err, broken) {
		t.Errorf("order: %v", err)
	}
}

// TestChanged: if a log changes after Open, reading the changed part fails and does not
// panic.
func TestChanged(t *testing.T) {
	log := ledgerOf(t, runOf(stdout("one\ntwo\nthree\n"), stderr("four")))
	file := []byte(log)
	for _, change := range []string{"", "x", "\n", "--- END EVENTS ---\n"} {
		for at := range file {
			copy(file, log)
			l, err := Open(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			copy(file[at:], change)
			for _, err := range l.Events() {
				if err != nil {
					break
				}
			}
			_ = l.WriteMerged(io.Discard)
		}
	}
	l := opened(t, log)
	for range l.Events() {
		break // nothing after it is read
	}
	l.r = strings.NewReader(strings.Replace(log, "[SEQ=3]", "[SEQ=4]", 1))
	var wrong *FormatError
	if err := l.WriteMerged(io.Discard); !errors.As(err, &wrong) || wrong.Seq != 3 {
		t.Errorf("%v", err)
	}
}
