package transcript

import (
	"io"
	"iter"
	"strconv"
)

// Stream is the source of a line.
type Stream uint8

// Meta is safe-run itself; the other two belong to the command.
const (
	Meta Stream = iota
	Stdout
	Stderr
)

// String returns the name of the stream in an event line.
func (s Stream) String() string {
	if names := [...]string{"META", "STDOUT", "STDERR"}; int(s) < len(names) {
		return names[s]
	}
	return "Stream(" + strconv.Itoa(int(s)) + ")"
}

// Span says that the next N bytes of a stream come at this place of the order.
type Span struct {
	Stream Stream // Stdout or Stderr
	N      int64
}

// Run holds the observations of one run of a command.
type Run struct {
	Argv           []string
	Stdout, Stderr *io.SectionReader // all output; nil: none. Their own offsets are not used
	// Order has the spans of both streams in the order in which they were read. The
	// spans of a stream add up to its size. Order may be iterated more than once. Nil
	// means no spans.
	Order iter.Seq2[Span, error]
	// Notes are META lines between the output and the exit, without LF. Control
	// characters, U+2028, U+2029 and bytes that are not UTF-8 are written as escapes:
	// \n, \t, \r and \xHH. A note that looks like the start or the exit is an error.
	Notes []string
	Code  int // 0..4294967295
}

// RunError says why a Run cannot be written.
type RunError struct{ Msg string }

// Error returns the message.
func (e *RunError) Error() string { return e.Msg }

// The fixed lines of a log, which do not come from the command.
const (
	stdoutHeader = "=== STDOUT ===\n"
	stderrHeader = "\n=== STDERR ===\n"
	beginMarker  = "\n--- BEGIN EVENTS ---\n"
	endMarker    = "--- END EVENTS ---\n"

	startPrefix = `safe-run start:`
	startText   = startPrefix + ` cmd="`
	exitPrefix  = `safe-run exit:`
	exitText    = exitPrefix + ` code=`

	// label begins the text of a line that is encoded.
	label = "base64:"

	maxCode = 1<<32 - 1

	// piece is the number of bytes of a stream that are in memory at once.
	piece = 64 << 10
)
