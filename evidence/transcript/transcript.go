package transcript

import (
	"io"
	"iter"
	"strconv"
)

// Stream is where a line came from.
type Stream uint8

// Meta is what safe-run itself says; the other two are the command's.
const (
	Meta Stream = iota
	Stdout
	Stderr
)

// String is the name of the stream in an event line.
func (s Stream) String() string {
	switch s {
	case Meta:
		return "META"
	case Stdout:
		return "STDOUT"
	case Stderr:
		return "STDERR"
	}
	return "Stream(" + strconv.Itoa(int(s)) + ")"
}

// Span says that the next N bytes of a stream came at this place of the order.
type Span struct {
	Stream Stream // Stdout or Stderr
	N      int64
}

// Run is what was observed of one run of a command.
type Run struct {
	Argv           []string
	Stdout, Stderr *io.SectionReader // all that came; nil: nothing. Their own offsets are not used
	// Order has the spans of both streams in the order in which they were read;
	// those of a stream add up to its size. It may be ranged over more than once.
	// Nil: there are none.
	Order iter.Seq2[Span, error]
	// Notes are META lines between the output and the exit, without LF. Control
	// characters, U+2028, U+2029 and bytes that are not UTF-8 are written as escapes:
	// \n, \t, \r and \xHH. A note that would pass for the start or the exit is an error.
	Notes []string
	Code  int // 0..4294967295
}

// RunError says that a Run is none: it cannot be written.
type RunError struct{ Msg string }

func (e *RunError) Error() string { return e.Msg }

// The lines of a log that are not of the command.
const (
	stdoutHeader = "=== STDOUT ===\n"
	stderrHeader = "\n=== STDERR ===\n"
	beginMarker  = "\n--- BEGIN EVENTS ---\n"
	endMarker    = "--- END EVENTS ---\n"

	startPrefix = `safe-run start:`
	startText   = startPrefix + ` cmd="`
	exitPrefix  = `safe-run exit:`
	exitText    = exitPrefix + ` code=`

	// label begins the text of a line that does not stand as it is.
	label = "base64:"

	maxCode = 1<<32 - 1

	// piece is how much of a stream is in memory at once.
	piece = 64 << 10
)
