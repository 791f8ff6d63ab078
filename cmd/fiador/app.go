package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// The exit statuses (run-result.md, 5.4).
const (
	exitAccepted = 0
	exitRejected = 1
	exitError    = 2
)

// Compiling the policy allocates a few MiB, and startupGC lets it end without a collection
// of garbage. A process that decides one small intent then ends without any collection.
// For more than largeIntent bytes the runtime collects as usual, to keep the peak low. A
// command over many intents allocates much and keeps little. Collecting rarely, as manyGC
// does, saves a tenth of its time.
const (
	startupGC   = 400
	usualGC     = 100
	manyGC      = 800
	largeIntent = 64 << 10
)

// system holds everything of the machine that a command may touch.
type system struct {
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
	tty     bool // stderr is a terminal
	outTTY  bool // stdout is a terminal
	env     func(string) string
	environ []string // the whole environment, for a command that inherits it
	now     func() time.Time
	rand    io.Reader
	busy    *occupied // counts executions and records under way; a Ctrl-C waits for their end; or nil
}

// app is one invocation of the program: its system, and the state that commands share.
type app struct {
	system
	term    terminal  // stderr
	page    terminal  // stdout, for answers in words
	direct  io.Writer // stdout, for output of others: a failed write to it is no failure of this program
	color   string
	github  bool // a runner of workflow commands reads stderr
	runner  bool // the environment says that a runner reads the output
	specs   *specs.Set
	out     *sink    // what stdout writes through
	guarded []string // absolute folders; a write follows no link beneath them
	status  int      // exit status of a command that ends without an error
}

// usage returns the error of a call that the program does not understand, or that names
// something absent.
func usage(hint, format string, args ...any) error {
	return misuse(result.CodeUnreadable, hint, fmt.Sprintf(format, args...))
}

// unfit returns the error of a call whose flags exclude each other, or whose value is not
// allowed.
func unfit(hint, format string, args ...any) error {
	return misuse(result.CodeProfile, hint, fmt.Sprintf(format, args...))
}

func misuse(code result.Code, hint, msg string) error {
	return &result.RunError{Code: code, Message: msg, Hint: hint, Details: map[string]any{detailUsage: true}}
}

// detailUsage is the member of details that says that the call is at fault.
const detailUsage = "usage"

// newApp returns the invocation of the program on a system.
func newApp(sys system) *app {
	out := &sink{w: sys.stdout}
	sys.stdout = out
	return &app{system: sys, term: terminal{w: sys.stderr}, page: terminal{w: out}, direct: out.w, out: out}
}

// lost returns the RunError if a part of standard output was not written, or nil.
func (a *app) lost() error { return unprinted(a.out.err) }

// prepare sets up the state that every command needs before it runs.
func (a *app) prepare() error {
	a.runner = inRunner(a.env)
	color := a.color
	if color == "auto" && a.env("FIADOR_COLOR") != "" {
		color = a.env("FIADOR_COLOR")
	}
	var err error
	if a.term.color, err = colored(color, a.tty, a.env); err != nil {
		return err
	}
	if a.page.color, err = colored(color, a.outTTY, a.env); err != nil {
		return err
	}
	a.specs, err = specs.New()
	return err
}

// report writes to stderr why a command ended without a decision: one line of canonical
// JSON for a RunError, and words for people on a terminal.
func (a *app) report(err error) int {
	re := runerr.Of(err)
	line := re.Line()
	if a.github || a.runner {
		line = []byte(screen.Inert(string(line)))
	}
	if a.tty {
		msg := string(re.Code) + ": " + re.Message
		if re.Details[detailUsage] == true {
			msg = re.Message
		}
		a.term.message(msg)
		a.term.hint(re.Remedy())
	}
	_, _ = a.stderr.Write(line)
	return exitError
}
