// Package saferun is the command logger: it runs one command, passes its streams on as
// they come, exits as it does, and leaves a log of it when it fails. It is the whole of
// safe-run and of "fiador safe-run". specs/safe-run.md is its specification, and
// evidence/transcript owns the format of the log.
//
// What a caller may rely on, and the test that shows it:
//
//   - The exit status is the command's, 128 plus the signal that ended it, or 127 or
//     126 if it could not be started (TestExitCodes, TestDeathsBySignal,
//     TestNotStarted). 2 is a call that is not understood, before anything is
//     started (TestUsage, TestBadSettings).
//   - A signal to this process ends the command, in bounded time (TestInterrupted,
//     TestInterruptedIgnoringTERM, TestInterruptedTwice).
//   - A command that succeeds leaves nothing, not even a folder (TestSuccess).
//   - A log is there whole or not at all, and never replaces a file
//     (TestLogFaults, TestNoClobber, TestFiftyAtOnce).
//   - Memory does not grow with the output (TestBoundedMemory).
//   - Three faults change neither the exit status nor the caller's copy of the
//     output: a log that cannot be written, output that cannot be recorded, and a
//     reader that goes away. Standard error or the log names them (TestLogFaults,
//     TestSpoolFull, TestReaderGone).
package saferun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness/command"
)

// Version is the version that --version prints. All of Fiador has the same version.
const Version = "0.1.0"

// The exit statuses of safe-run itself.
const (
	exitUsage   = 2   // a wrong call; nothing was started
	exitUnknown = 125 // the end of the command is unknown
)

// The time limits of a run.
const (
	insist = 5 * time.Second // from a signal to the kill
	drain  = 2 * time.Second // from the end of the command to the end of its streams
)

// System holds everything of the machine that a run may touch.
type System struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Env            []string         // environment of this process and of the command
	Signals        <-chan os.Signal // as [Notify] returns them
	Now            func() time.Time
	Rand           io.Reader
}

// Run runs safe-run with args, which do not include the program's name. It returns the
// exit status.
func Run(args []string, sys System) int {
	call, err := parse(args)
	if err == nil && len(call.argv) > 0 {
		err = call.settings.read(sys.Env)
	}
	if err != nil {
		fmt.Fprintf(sys.Stderr, "safe-run: %s\n", err)
		return exitUsage
	}
	switch {
	case call.help:
		_, err = io.WriteString(sys.Stdout, help)
	case call.version:
		_, err = fmt.Fprintf(sys.Stdout, "safe-run %s (contract: M0-v0.1.0)\n", Version)
	default:
		return call.execute(sys)
	}
	if err != nil {
		fmt.Fprintf(sys.Stderr, "safe-run: standard output: %s\n", reason(err))
		return exitUsage
	}
	return 0
}

// execute runs the command and leaves its log.
func (c call) execute(sys System) int {
	if runtime.GOOS != "linux" {
		fmt.Fprintln(sys.Stderr, "safe-run: commands are run on linux only")
		return exitUsage
	}
	out, errs := patient(sys.Stdout), patient(sys.Stderr)
	observed := newRecording(sys.Env)
	defer observed.close()
	observed.shared = onePlace(sys.Stdout, sys.Stderr)
	var keys func() bool
	if command.SharesGroup(sys.Stdin) {
		keys = func() bool { return command.Foreground(sys.Stdin) }
	}
	started := sys.Now()
	result, err := command.Run(context.Background(), c.start(sys), command.Spec{
		Stdout:   command.Stream{Tee: out},
		Stderr:   command.Stream{Tee: errs},
		OnePlace: observed.shared,
		Events:   observed.add,
		Drain:    drain,
		Signals:  sys.Signals,
		Insist:   insist,
		Keys:     keys,
	})
	e := ended(result, err, interruption(result, sys.Signals, keys != nil))
	e.lost(result, observed)
	if e.code == 0 && !e.aborted {
		say(errs, sys.Signals, false, func(w io.Writer) { e.complain(w, observed) })
		return 0
	}
	path, err := c.settings.log(sys, started, e.aborted, c.write(observed.run(c.argv, e)))
	e.complaints = append(e.complaints, observed.gaps()...)
	ending := fmt.Sprintf("%sexit code %d, %s", e.interruption(), e.code, logged(path, err))
	say(errs, sys.Signals, e.aborted, func(w io.Writer) {
		e.complain(w, observed)
		if err := observed.snippet(w, c.settings.snippet); err != nil {
			fmt.Fprintf(w, "safe-run: reading the output back: %s\n", reason(err))
		}
		fmt.Fprintf(w, "safe-run: %s\n", ending)
	})
	return e.code
}

// onePlace reports whether both streams lead to the same file, pipe or terminal.
func onePlace(a, b io.Writer) bool {
	first, ok := a.(*os.File)
	second, also := b.(*os.File)
	if !ok || !also {
		return false
	}
	one, err := first.Stat()
	if err != nil {
		return false
	}
	other, err := second.Stat()
	return err == nil && os.SameFile(one, other)
}

// start starts the command with the caller's own standard input, terminal or not.
func (c call) start(sys System) command.Start {
	direct := command.Direct(c.argv, sys.Env, "")
	return func(_, stdout, stderr *os.File) (command.Process, error) {
		if c.argv[0] == "" {
			return nil, &command.StartError{Code: command.NotFound, Err: syscall.ENOENT}
		}
		return direct(sys.Stdin, stdout, stderr)
	}
}

// write returns the function that writes the log in the view of the settings.
func (c call) write(r transcript.Run) func(io.Writer) error {
	if c.settings.merged {
		return r.WriteMerged
	}
	return r.WriteLedger
}

// end describes how a run ended, for the caller and for the log.
type end struct {
	code    int
	signal  syscall.Signal // the signal that interrupted the run; 0: none
	aborted bool           // the run was interrupted, so it leaves a log whatever the code is
	notes   []string       // META lines
	// complaints are messages for standard error about faults that its reader cannot see
	// otherwise. There is none for a reader that went away.
	complaints []string
}

// ended returns the end for the result of the command.
func ended(r command.Result, err error, interruption syscall.Signal) end {
	var e end
	var notStarted *command.StartError
	switch {
	case errors.As(err, &notStarted):
		note := "safe-run not executable: "
		if e.code = notStarted.Code; e.code == command.NotFound {
			note = "safe-run not found: "
		}
		e.notes = []string{note + notStarted.Err.Error()}
		e.complaints = []string{notStarted.Error()}
		return e
	case err != nil && r.Started.IsZero():
		e.code = command.NotExecutable
		e.notes = []string{"safe-run not started: " + err.Error()}
		e.complaints = []string{err.Error()}
		return e
	}
	e.code = r.ExitCode()
	e.signal = interruption
	if e.aborted = e.signal != 0; e.aborted {
		e.notes = append(e.notes, "safe-run interrupted: signal="+signalName(e.signal))
		if r.Signal != 0 {
			e.code = 128 + int(e.signal)
		}
	}
	switch r.Killed {
	case command.Overstayed:
		e.notes = append(e.notes, "safe-run killed: after="+insist.String())
	case command.InterruptedTwice:
		e.notes = append(e.notes, "safe-run killed: second INT")
	}
	if r.Held {
		e.notes = append(e.notes, "safe-run output held: closed="+drain.String())
	}
	if err != nil {
		e.notes = append(e.notes, "safe-run error: "+err.Error())
		e.complaints = append(e.complaints, err.Error())
		if e.code == 0 {
			e.code = exitUnknown
		}
	}
	return e
}

// lost notes the output that reached the log or the caller incompletely.
func (e *end) lost(r command.Result, observed *recording) {
	if observed.cut != nil {
		e.notes = append(e.notes, fmt.Sprintf("safe-run output cut: %d bytes not logged: %s", observed.missed, reason(observed.cut)))
	}
	for _, s := range []struct {
		name string
		err  error
	}{{"stdout", r.Stdout.TeeErr}, {"stderr", r.Stderr.TeeErr}} {
		switch {
		case s.err == nil:
		case errors.Is(s.err, syscall.EPIPE):
			e.notes = append(e.notes, "safe-run reader gone: "+s.name)
		default:
			e.notes = append(e.notes, "safe-run output not passed on: "+s.name+": "+reason(s.err))
			e.complaints = append(e.complaints, fmt.Sprintf("%s could not be passed on: %s", s.name, reason(s.err)))
		}
	}
}

// complain writes the complaints.
func (e *end) complain(w io.Writer, observed *recording) {
	if observed.within && (len(e.complaints) > 0 || e.code != 0 || e.aborted) {
		io.WriteString(w, "\n") // end the command's last line before the messages of this program
	}
	for _, c := range e.complaints {
		fmt.Fprintf(w, "safe-run: %s\n", c)
	}
}

func (e *end) interruption() string {
	if e.signal == 0 {
		return ""
	}
	return "interrupted by " + signalName(e.signal) + ", "
}

func logged(path string, err error) string {
	switch {
	case err != nil && path == "":
		return "no log: " + err.Error()
	case err != nil:
		return fmt.Sprintf("log %q, %s", path, err)
	default:
		return fmt.Sprintf("log %q", path)
	}
}

// reason returns the operating system's text for an error, without operation and path.
func reason(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
}

// environ returns the value of a variable. The first entry counts, as for getenv.
func environ(env []string, name string) string {
	for _, s := range env {
		if len(s) > len(name) && s[len(name)] == '=' && s[:len(name)] == name {
			return s[len(name)+1:]
		}
	}
	return ""
}

// spoolFolder returns the folder for output that does not fit into memory: TMPDIR if it is
// set, else a folder for large files that a restart may keep.
func spoolFolder(env []string) string {
	if dir := environ(env, "TMPDIR"); dir != "" {
		return dir
	}
	if info, err := os.Stat("/var/tmp"); err == nil && info.IsDir() {
		return "/var/tmp"
	}
	return "/tmp"
}
