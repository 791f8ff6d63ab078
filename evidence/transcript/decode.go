package transcript

import (
	"bytes"
	"encoding/base64"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Event is one line of the events.
type Event struct {
	Seq    int64
	Stream Stream
	Text   string // as the log has it
}

// Bytes returns the original line, without its LF. A CR before the LF is included only
// if the text is in base64; the sections always have it.
func (e Event) Bytes() ([]byte, error) {
	coded, ok := strings.CutPrefix(e.Text, label)
	if !ok || e.Stream == Meta {
		return []byte(e.Text), nil
	}
	return decode(nil, []byte(coded))
}

// decode appends the bytes of canonical base64. Go's decoder would ignore CR and LF.
func decode(to, coded []byte) ([]byte, error) {
	if i := bytes.IndexAny(coded, "\r\n"); i >= 0 {
		return to, base64.CorruptInputError(i)
	}
	return base64.StdEncoding.Strict().AppendDecode(to, coded)
}

// FormatError says where and why a text is no log.
type FormatError struct {
	Offset int64 // of the byte in the log
	Seq    int64 // of the event with the fault; 0: none
	Msg    string
}

// Error returns the message.
func (e *FormatError) Error() string {
	at := "byte " + strconv.FormatInt(e.Offset, 10)
	if e.Seq > 0 {
		at += ", event " + strconv.FormatInt(e.Seq, 10)
	}
	return at + ": " + e.Msg
}

// Log is a complete and consistent log. Several goroutines may use it if they may use
// its reader.
type Log struct {
	r              io.ReaderAt
	size           int64
	events         int64 // where the first event begins
	stdout, stderr extent
	command        string
	notes          []string
	code           int
	piece          int // number of bytes read at once
}

// extent is a range of the log.
type extent struct{ from, size int64 }

// Open reads a log of the given size, at most twice, and checks every rule in the
// package's comment. It needs a few times the memory of the longest event line, and the
// memory of the notes.
//
// An error is a [*FormatError], or the error of r.
func Open(r io.ReaderAt, size int64) (*Log, error) { return open(r, size, piece) }

func open(r io.ReaderAt, size int64, piece int) (*Log, error) {
	l := &Log{r: r, size: size, piece: piece}
	if err := l.header(); err != nil {
		return nil, err
	}
	end, err := l.lastBegin()
	if err != nil {
		return nil, err
	}
	l.events = end + int64(len(beginMarker))
	if err := l.agree(end); err != nil {
		return nil, err
	}
	return l, nil
}

// Events returns the events in order, META ones included. They are read during the
// iteration. It fails only if the log has changed since Open or cannot be read.
func (l *Log) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range l.scan() {
			if !yield(Event{Seq: e.seq, Stream: e.stream, Text: string(e.text)}, err) || err != nil {
				return
			}
		}
	}
}

// Stdout returns everything that the command wrote to its standard output.
func (l *Log) Stdout() *io.SectionReader {
	return io.NewSectionReader(l.r, l.stdout.from, l.stdout.size)
}

// Stderr returns everything that the command wrote to its standard error.
func (l *Log) Stderr() *io.SectionReader {
	return io.NewSectionReader(l.r, l.stderr.from, l.stderr.size)
}

// Command returns the text between the quotes of cmd="...": a line of text without
// control characters. In a log from WriteLedger it is the result of [Quote] for the
// argv.
func (l *Log) Command() string { return l.command }

// Code returns the exit code, 0..4294967295.
func (l *Log) Code() int { return l.code }

// Notes returns the META lines between the output and the exit.
func (l *Log) Notes() []string { return append([]string(nil), l.notes...) }

// WriteMerged writes the same bytes as [Run.WriteMerged] for the run of this log.
func (l *Log) WriteMerged(w io.Writer) error { return l.run().writeMerged(w, l.piece) }

// run returns the run of this log, without its argv.
func (l *Log) run() Run {
	return Run{Stdout: l.Stdout(), Stderr: l.Stderr(), Order: l.order(), Notes: l.notes, Code: l.code}
}

// order returns a span for every event of the command.
func (l *Log) order() iter.Seq2[Span, error] {
	return func(yield func(Span, error) bool) {
		in := Run{Stdout: l.Stdout(), Stderr: l.Stderr()}.streams(l.piece)
		for e, err := range l.scan() {
			var s Span
			if err == nil && e.stream == Meta {
				continue
			}
			if err == nil {
				s.Stream = e.stream
				s.N, err = in[e.stream].next()
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// header checks the beginning of the log.
func (l *Log) header() error {
	if l.size <= 0 {
		return &FormatError{Msg: "the log is empty"}
	}
	b := make([]byte, min(l.size, int64(len(stdoutHeader))+1))
	if err := readAt(l.r, b, 0, "the log"); err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(b, []byte(stdoutHeader)):
		return nil
	case bytes.HasPrefix(b, []byte("=== STDOUT ===\r\n")):
		return &FormatError{Offset: int64(len(stdoutHeader)) - 1, Msg: "the ends of lines have been changed to CRLF"}
	case bytes.HasPrefix([]byte(stdoutHeader), b):
		return &FormatError{Offset: l.size, Msg: `the log is cut off in its first line`}
	}
	return &FormatError{Msg: `the first line is not "=== STDOUT ===": no log, or one of the merged view, which has no events to read back`}
}

// lastBegin finds the last line that begins the events. Only event lines follow the true
// one, and an event line is never such a line.
func (l *Log) lastBegin() (int64, error) {
	room := make([]byte, min(l.size, int64(l.piece+len(beginMarker)-1)))
	for to := l.size; to > 0; {
		from := max(0, to-int64(l.piece))
		b := room[:min(to+int64(len(beginMarker))-1, l.size)-from]
		if err := readAt(l.r, b, from, "the log"); err != nil {
			return 0, err
		}
		last := -1
		for i := bytes.Index(b, []byte(beginMarker)); i >= 0; i = bytes.Index(b[last+1:], []byte(beginMarker)) {
			last += i + 1
		}
		if last >= 0 {
			return from + int64(last), nil
		}
		to = from
	}
	return 0, &FormatError{Offset: l.size, Msg: `there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`}
}
