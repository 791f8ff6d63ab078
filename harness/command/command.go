// Package command runs one argv: it feeds standard input, captures both output
// streams within bounds, ends the command on a timeout or a cancelled context,
// forwards signals, and says how the command ended. How the process is started
// is passed in as a [Start], so that a confined command and one of [Direct] are
// supervised by the same code. Linux only: elsewhere [Run] refuses.
//
// What a caller may rely on, and the test that shows it:
//
//   - Memory does not grow with the output. Of each stream the first Keep bytes
//     are kept and hashed, the rest is read and counted (TestKeepsTheFirstBytes).
//   - Both streams are read at the same time: a command that fills one while
//     nothing is written to the other does not stall (TestBothStreamsBusy).
//   - What became readable first is read first (TestFirstWrittenFirstRead), and is
//     passed on first to Tees that are one place (TestOnePlace). What is written to a
//     stream that has not been read yet comes with what it holds, though the other
//     stream was written to meanwhile: no system call tells of that.
//   - A command that overstays gets SIGTERM, then Kill after Grace, and what it
//     leaves behind is killed as well (TestTimeoutIgnoringTERM,
//     TestTimeoutEndsTheGroup).
//   - A process outside the reach of Kill that holds a stream open delays Run by
//     Drain at most; the result says Held (TestGrandchildHoldsThePipe).
//   - Nobody on the other side of a stream holds Run up after that: not a command
//     that never reads its input, nor an input that never ends, nor a Tee that
//     fails (TestStdinNeverRead, TestStdinNeverEnds, TestTeeFails).
//   - A Tee that blocks holds the command up, as a full pipe does, and holds Run
//     up until Timeout or ctx ends the run; what was read is kept (TestTeeBlocks).
//     The other stream is read and passed on meanwhile (TestTeeBlocksItsStreamAlone).
//   - A signal that asks for the end is forwarded, and with Insist the end comes,
//     for the command and what it started, obeyed or not (TestInsist,
//     TestInsistEndsTheGroup, TestInsistDoesNotWaitForATee).
//   - A run leaves no descriptor, process or goroutine behind, save a goroutine
//     that is still inside a caller's Read or Write (TestNothingLeaks).
package command

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Process is a started command. Signal and Kill return at once and may be
// called while Wait is under way and after it.
//
// A Process that is also an [io.Closer] is closed by [Run] after Wait and the
// last Kill: until then it may hold what makes a late Kill safe, such as a
// process id that must not be given to somebody else.
type Process interface {
	// Signal sends sig to the command and what it started, where the starter can.
	Signal(sig syscall.Signal) error
	// Kill ends everything at once. It may be called more than once and after
	// the end; that nothing was left to end is no error.
	Kill() error
	// Wait is called once. It returns when the command and everything it
	// started have ended, or when the starter cannot know more.
	Wait() (Exit, error)
}

// Exit is how a command ended.
type Exit struct {
	Code   int            // what it exited with; 0 when a signal ended it
	Signal syscall.Signal // what ended it; 0: it exited
	// MaxRSS is the most memory that one of its processes had resident, in
	// bytes; 0: unknown. With Direct it is no less than what this process has,
	// whose memory a child shares until it executes the command.
	MaxRSS int64
}

// Start starts the command with these three ends of its streams. It takes
// copies: the caller closes its own when Start returns. The files are in
// blocking mode and are not inherited unless Start sees to it.
//
// A command that is to have a file itself, such as a terminal, gets it from its
// Start, which then leaves stdin unused.
type Start func(stdin, stdout, stderr *os.File) (Process, error)

// Stream says what becomes of the bytes of one output stream.
type Stream struct {
	// Keep is how many bytes are kept and hashed; the zero value keeps none.
	Keep int64
	// Tee gets every byte as it comes; nil: nobody does. It is called by one
	// goroutine; a Tee of both streams must bear two, without OnePlace. The
	// first error, or short write, ends its use and is reported as TeeErr; the
	// capture goes on. A Tee on this process's own standard output is killed
	// with the process when its reader vanishes, unless SIGPIPE is caught.
	Tee io.Writer
}

// Spec is what to do around a command.
type Spec struct {
	// Stdin is copied to the command; nil: it is empty. That the command does
	// not read all of it is no error. What was read from Stdin and not by the
	// command is lost. Stdin is not read once Run has returned, with one
	// exception: a Read that is still blocked then. A Stdin that is an *os.File
	// is read only when it has something to read, so that no Read of it blocks
	// unless somebody else reads the same file.
	Stdin          io.Reader
	Stdout, Stderr Stream
	// OnePlace says that both Tees lead to the same place, such as one terminal:
	// one goroutine passes on what both streams hold, in the order in which it was
	// read, and a Tee that blocks holds both up.
	OnePlace bool
	// Events gets every chunk of both streams, in the order in which they were
	// read, one call at a time: stream is 1 or 2, at comes from Now, and chunk
	// is valid during the call. It comes before the Tee, and must not block:
	// Run would with it. Nil: nobody does.
	Events func(stream int, at time.Time, chunk []byte)
	// Timeout counts from the moment the command has started; 0: none.
	Timeout time.Duration
	// Grace is the time between SIGTERM and Kill; 0: DefaultGrace, negative:
	// Kill comes at once, without SIGTERM.
	Grace time.Duration
	// Drain is how long streams may stay open after the end of the process,
	// because somebody outside holds them; 0: DefaultDrain, negative: what has
	// been written by then is read and nothing is waited for.
	Drain time.Duration
	// Signals are forwarded to the process as they come, until it has ended;
	// nil: none.
	Signals <-chan os.Signal
	// Insist is for signals that ask for the end: after the first one the command
	// has this long, then Kill follows. It follows at once after a second SIGINT. The
	// same signal within 50 ms is the same one and not forwarded again.
	// What the command leaves behind is killed as well, and a Tee that blocks is
	// not waited for. 0: signals are forwarded and nothing more.
	Insist time.Duration
	// Keys says of a SIGINT or SIGQUIT that has come whether a terminal has sent it
	// to the command as well, as it does to one that shares this process's group
	// ([SharesGroup], [Foreground]). It is not sent twice then, unless it came before
	// the start, and it is the command's own business whether it ends. Nil: never.
	Keys func() bool
	// Now is the clock of Started, Ended and Events; nil: time.Now. Timeouts
	// do not depend on it.
	Now func() time.Time
}

// The times that a zero Spec stands for.
const (
	DefaultGrace = 2 * time.Second
	DefaultDrain = 2 * time.Second
)

// ErrBlocked is the TeeErr of a stream whose Tee did not return in time: bytes
// that were captured have not been passed on.
var ErrBlocked = errors.New("the reader of the output does not read")

// Captured is what came out of one stream.
type Captured struct {
	Bytes     []byte   // the first ones, Keep at most
	SHA256    [32]byte // over Bytes
	Size      int64    // all bytes seen
	Truncated bool     // Size is more than was kept
	TeeErr    error    // why the Tee has not got every byte; nil: it has
}

// Result is how a run went.
type Result struct {
	Exit
	// TimedOut and Interrupted say what made Run end the command: the timeout or
	// the context, whichever came first. Both are false when it ended by itself.
	TimedOut    bool
	Interrupted bool
	Stdout      Captured
	Stderr      Captured
	StdinErr    error // what reading Stdin failed with: the command has seen less
	Started     time.Time
	// Forwarded is the first of Signals that came while the command ran or, with
	// Insist, while its streams were waited for; 0: none did.
	Forwarded syscall.Signal
	Key       syscall.Signal // the last of Signals that was not forwarded because of Keys
	Killed    Killed         // why the command was killed, if it was, after a forwarded signal
	Ended     time.Time      // the end of the process, before the streams are drained
	Held      bool           // a stream was still open after Drain, and has been closed
}

// Killed says what Kill came after, with Spec.Insist.
type Killed int

// NotKilled: the command has ended by itself, or of the signal.
const (
	NotKilled        Killed = iota
	Overstayed              // it was there after Insist
	InterruptedTwice        // a second SIGINT came
)

// ExitCode is the shell's number for the end: 143 for a timeout, whatever the
// command made of it, 128 plus the signal that ended the command, or its own
// code.
func (r Result) ExitCode() int {
	switch {
	case r.TimedOut:
		return 128 + int(syscall.SIGTERM)
	case r.Signal != 0:
		return 128 + int(r.Signal)
	default:
		return r.Code
	}
}

// Run starts a command, sees it to its end and returns how it went. The result
// of a command that was started is filled in even with an error, which then
// says what is not known: how the command ended, or what a stream held. An
// error of start is returned as it is. With a ctx that is done already nothing
// is started; the error is its cause.
//
// Run returns when the process has ended and its streams have, or have been
// given up. It gives up on a process only if Kill fails on it.
func Run(ctx context.Context, start Start, spec Spec) (Result, error) {
	if ctx.Err() != nil {
		return Result{Interrupted: true}, context.Cause(ctx)
	}
	r, err := begin(start, spec.complete())
	if err != nil {
		return Result{}, err
	}
	var expired <-chan time.Time
	if spec.Timeout > 0 {
		t := time.NewTimer(spec.Timeout)
		defer t.Stop()
		expired = t.C
	}
	err = r.supervise(ctx, expired)
	readErr := r.collect(ctx, expired)
	if err == nil {
		err = readErr
	}
	return r.result, err
}

func (s Spec) complete() Spec {
	if s.Grace == 0 {
		s.Grace = DefaultGrace
	}
	if s.Drain == 0 {
		s.Drain = DefaultDrain
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return s
}
