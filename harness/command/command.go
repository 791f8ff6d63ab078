// Package command runs one argv: it feeds standard input, captures both output streams
// within bounds, ends the command on a timeout or a cancelled context, forwards signals,
// and says how the command ended. A [Start], which the caller passes, starts the process.
// The same code therefore supervises a confined command and one of [Direct]. Linux only:
// elsewhere [Run] refuses.
//
// A caller may rely on these properties; each names the tests that show it:
//
//   - Memory does not grow with the output. The first Keep bytes of each stream are kept
//     and hashed; the rest is read and counted (TestKeepsTheFirstBytes).
//   - Both streams are read at the same time. A command that fills one stream and writes
//     nothing to the other does not stall (TestBothStreamsBusy).
//   - The stream that became readable first is read first (TestFirstWrittenFirstRead).
//     Tees that are one place receive it first (TestOnePlace). If a command writes to a
//     stream that still holds unread bytes, both are read together, even if it wrote to
//     the other stream in between: no system call reports that order.
//   - A command that exceeds its time gets SIGTERM, then Kill after Grace. What it leaves
//     running is killed as well (TestTimeoutIgnoringTERM, TestTimeoutEndsTheGroup).
//   - A process outside the reach of Kill that holds a stream open delays Run by Drain at
//     most; the result says Held (TestGrandchildHoldsThePipe).
//   - After that, nobody on the other side of a stream delays Run: not a command that
//     never reads its input, nor an input that never ends, nor a Tee that fails
//     (TestStdinNeverRead, TestStdinNeverEnds, TestTeeFails).
//   - A Tee that blocks delays the command, as a full pipe does. It delays Run until
//     Timeout or ctx ends the run; the bytes already read are kept (TestTeeBlocks). The
//     other stream is read and passed on meanwhile (TestTeeBlocksItsStreamAlone).
//   - A signal that asks for the end is forwarded. With Insist, the command and what it
//     started end, whether they obey or not (TestInsist, TestInsistEndsTheGroup,
//     TestInsistDoesNotWaitForATee).
//   - A run leaves no descriptor, process or goroutine, except a goroutine that is still
//     inside a caller's Read or Write (TestNothingLeaks).
package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Process is a started command. Signal and Kill return at once. They may be called while
// Wait runs and after it.
//
// [Run] closes a Process that is also an [io.Closer], after Wait and the last Kill. Until
// then the Process may hold what makes a late Kill safe, such as a process id that no other
// process may get.
type Process interface {
	// Signal sends sig to the command and to what it started, as far as the starter can.
	Signal(sig syscall.Signal) error
	// Kill ends everything at once. It may be called more than once and after the end. It
	// returns nil if nothing was left to end.
	Kill() error
	// Wait is called once. It returns when the command and everything it started have ended,
	// or when the starter cannot know more.
	Wait() (Exit, error)
}

// Exit is how a command ended.
type Exit struct {
	Code   int            // exit code; 0 when a signal ended the command
	Signal syscall.Signal // the signal that ended the command; 0: it exited
	// MaxRSS is the largest resident memory of one of its processes, in bytes; 0: unknown.
	// With Direct it is at least the resident memory of this process, because a child shares
	// that memory until it executes the command.
	MaxRSS int64
}

// Start starts the command with these three ends of its streams. Start makes copies: the
// caller closes its own files when Start returns. The files are in blocking mode, and a
// child inherits them only if Start arranges it.
//
// To give a command a file itself, such as a terminal, the Start passes that file and leaves
// stdin unused.
type Start func(stdin, stdout, stderr *os.File) (Process, error)

// Stream says what happens to the bytes of one output stream.
type Stream struct {
	// Keep is the number of bytes that are kept and hashed; 0 keeps none.
	Keep int64
	// Tee receives every byte as it arrives; nil: there is no Tee. One goroutine calls it.
	// Without OnePlace, two goroutines call a Tee that serves both streams. The first error,
	// or short write, ends its use and is reported as TeeErr; the capture continues. If a
	// Tee writes to this process's own standard output and the reader there goes away,
	// SIGPIPE kills this process, unless SIGPIPE is caught.
	Tee io.Writer
}

// Spec says how to run a command.
type Spec struct {
	// Stdin is copied to the command; nil: standard input is empty. It is no error if the
	// command does not read all of Stdin; bytes that were read from Stdin and not by the
	// command are lost. After Run has returned, Stdin is not read, except by a Read that is
	// still blocked then. A Stdin that is an *os.File is read only when it has something to
	// read. No Read of it blocks then, unless another reader uses the same file.
	Stdin          io.Reader
	Stdout, Stderr Stream
	// OnePlace says that both Tees write to the same place, such as one terminal. One
	// goroutine then passes on both streams, in the order in which they were read. A Tee
	// that blocks then blocks both streams.
	OnePlace bool
	// Events receives every chunk of both streams, in the order in which they were read, one
	// call at a time: stream is 1 or 2, at comes from Now, and chunk is valid during the
	// call. Events is called before the Tee. It must not block, because Run would block with
	// it. Nil: no calls.
	Events func(stream int, at time.Time, chunk []byte)
	// Timeout counts from the start of the command; 0: none.
	Timeout time.Duration
	// Grace is the time between SIGTERM and Kill; 0: DefaultGrace, negative: Kill at once,
	// without SIGTERM.
	Grace time.Duration
	// Drain is how long streams may stay open after the end of the process, because another
	// process holds them; 0: DefaultDrain, negative: Run reads what has been written by then
	// and does not wait.
	Drain time.Duration
	// Signals are forwarded to the process as they arrive, until it has ended; nil: none.
	Signals <-chan os.Signal
	// Insist is for signals that ask for the end. After the first one the command has this
	// much time, then Kill follows. After a second SIGINT, Kill follows at once. The same
	// signal again within 50 ms counts as one signal and is not forwarded again. Run also
	// kills what the command leaves running, and does not wait for a Tee that blocks. 0:
	// signals are only forwarded.
	Insist time.Duration
	// Keys says whether a terminal has also sent a SIGINT or SIGQUIT, which has arrived
	// here, to the command. A terminal does so if the command shares this process's group
	// ([SharesGroup], [Foreground]). Run then does not forward the signal, unless it arrived
	// before the start, and leaves it to the command whether it ends. Nil: never.
	Keys func() bool
	// Now is the clock of Started, Ended and Events; nil: time.Now. Timeouts do not depend
	// on it.
	Now func() time.Time
}

// The defaults for Grace and Drain.
const (
	DefaultGrace = 2 * time.Second
	DefaultDrain = 2 * time.Second
)

// ErrBlocked is the TeeErr of a stream whose Tee did not return in time. Some captured bytes
// were not passed on.
var ErrBlocked = errors.New("the reader of the output does not read")

// Captured is the output of one stream.
type Captured struct {
	Bytes     []byte   // the first bytes, at most Keep
	SHA256    [32]byte // over Bytes
	Size      int64    // number of all bytes read
	Truncated bool     // Size is larger than the number of kept bytes
	TeeErr    error    // why the Tee has not received every byte; nil: it has
}

// Result says how a run ended.
type Result struct {
	Exit
	// TimedOut and Interrupted say why Run ended the command: the timeout or the context,
	// whichever came first. Both are false when the command ended by itself.
	TimedOut    bool
	Interrupted bool
	Stdout      Captured
	Stderr      Captured
	StdinErr    error // the error of reading Stdin: the command has received only a part
	Started     time.Time
	// Forwarded is the first of Signals that arrived while the command ran or, with Insist,
	// while Run waited for its streams; 0: none.
	Forwarded syscall.Signal
	Key       syscall.Signal // the last of Signals that was not forwarded because of Keys
	Killed    Killed         // why the command was killed after a forwarded signal, if it was
	Ended     time.Time      // the end of the process, before the streams are drained
	Held      bool           // a stream was still open after Drain; Run closed it
}

// Killed says why Kill followed a signal, with Spec.Insist.
type Killed int

// NotKilled: the command ended by itself or because of the signal.
const (
	NotKilled        Killed = iota
	Overstayed              // it still ran after Insist
	InterruptedTwice        // a second SIGINT arrived
)

// ExitCode returns the shell's number for the end: 143 for a timeout, however the command
// ended; 128 plus the signal that ended the command; or its own code.
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

// Run starts a command, waits for its end and returns how it ended. If the command was
// started, the result is filled in even with an error. The error then says what is unknown:
// how the command ended, or what a stream contained. Run returns an error of start
// unchanged. If ctx is already done, Run starts nothing and returns the cause of ctx.
//
// Run returns when the process has ended and its streams have ended or Run has given them
// up. Run gives up a process only if Kill fails on it.
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
	err = cmp.Or(r.supervise(ctx, expired), r.collect(ctx, expired))
	return r.result, err
}

func (s Spec) complete() Spec {
	s.Grace, s.Drain = cmp.Or(s.Grace, DefaultGrace), cmp.Or(s.Drain, DefaultDrain)
	if s.Now == nil {
		s.Now = time.Now
	}
	return s
}
