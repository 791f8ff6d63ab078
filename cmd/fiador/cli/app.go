// Package cli is the program around its commands. It owns the streams, the terminal, the
// arguments and flags that all commands share, and the places that a command line names.
package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// The exit statuses (run-result.md, 5.4).
const (
	ExitAccepted = 0
	ExitRejected = 1
	ExitError    = 2
)

// Compiling the policy allocates a few MiB, and startupGC lets it end without a collection
// of garbage. A process that decides one small intent then ends without any collection.
// For more than largeIntent bytes the runtime collects as usual, to keep the peak low. A
// command over many intents allocates much and keeps little. Collecting rarely, as manyGC
// does, saves a tenth of its time.
const (
	startupGC   = 400
	UsualGC     = 100
	ManyGC      = 800
	LargeIntent = 64 << 10
)

// System holds everything of the machine that a command may touch.
type System struct {
	Stdin   *os.File
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool // stderr is a terminal
	OutTTY  bool // stdout is a terminal
	Env     func(string) string
	Environ []string // the whole environment, for a command that inherits it
	Now     func() time.Time
	Rand    io.Reader
	Busy    *Busy // counts executions and records under way; a Ctrl-C waits for their end; or nil
}

// App is one invocation of the program: its system, and the state that commands share.
type App struct {
	System
	Term    Terminal  // stderr
	Page    Terminal  // stdout, for answers in words
	Direct  io.Writer // stdout, for output of others: a failed write to it is no failure of this program
	color   string
	full    bool          // hashes are printed whole
	layout  screen.Layout // of stdout
	format  string        // --format of the command line; empty: it has none
	GitHub  bool          // a runner of workflow commands reads stderr
	Runner  bool          // the environment says that a runner reads the output
	Specs   *specs.Set
	out     *sink    // what stdout writes through
	Guarded []string // absolute folders; a write follows no link beneath them
	Status  int      // exit status of a command that ends without an error
}

// Usage returns the error of a call that the program does not understand, or that names
// something absent.
func Usage(hint, format string, args ...any) error {
	return misuse(result.CodeUnreadable, hint, fmt.Sprintf(format, args...))
}

// Unfit returns the error of a call whose flags exclude each other, or whose value is not
// allowed.
func Unfit(hint, format string, args ...any) error {
	return misuse(result.CodeProfile, hint, fmt.Sprintf(format, args...))
}

// misuse makes every usage error. Its details have the member usage (run-result.md,
// RunError).
func misuse(code result.Code, hint, msg string) error {
	return runerr.New(code, msg, hint, runerr.With(detailUsage, true))
}

// detailUsage is the member of details that says that the call is at fault.
const detailUsage = "usage"

// NewApp returns the invocation of the program on a system.
func NewApp(sys System) *App {
	out := &sink{w: sys.Stdout}
	a := &App{System: sys, Direct: sys.Stdout, out: out, layout: screen.Layout{Columns: columns(sys.Stdout, sys.OutTTY, sys.Env)}}
	a.Stdout = out
	a.Page.W = fitted{out, &a.layout}
	a.Term.W = fitted{sys.Stderr, &screen.Layout{Columns: columns(sys.Stderr, sys.TTY, sys.Env)}}
	return a
}

// Layout returns how answers in words stand on standard output.
func (a *App) Layout() screen.Layout { return a.layout }

// prepare sets up the state that every command needs before it runs.
func (a *App) prepare() error {
	a.Runner = InRunner(a.Env)
	color := a.color
	if color == "auto" && a.Env("FIADOR_COLOR") != "" {
		color = a.Env("FIADOR_COLOR")
	}
	var err error
	if a.Term.Color, err = colored(color, a.TTY, a.Env); err != nil {
		return err
	}
	if a.Page.Color, err = colored(color, a.OutTTY, a.Env); err != nil {
		return err
	}
	a.layout.Short = a.OutTTY && !a.full
	a.Specs, err = specs.New()
	return err
}

// Report writes to stderr why a command ended without a decision, once: in words on a
// terminal, and as one line of canonical JSON in a pipe, a file, or where the command line
// asks for JSON.
func (a *App) Report(err error) int {
	re := runerr.Of(err)
	if a.Words() {
		msg := string(re.Code) + ": " + re.Message
		if re.Details[detailUsage] == true {
			msg = re.Message
		}
		a.Term.Message(msg)
		for _, v := range re.Violations()[min(1, len(re.Violations())):] { // the message has the first
			a.Term.Line("  "+screen.Plain(v.Pointer), screen.Plain(v.Text))
		}
		a.Term.Hint(re.Remedy())
		return ExitError
	}
	line := re.Line()
	if a.GitHub || a.Runner {
		line = []byte(screen.Inert(string(line)))
	}
	_, _ = a.Stderr.Write(line)
	return ExitError
}

// Words reports whether an error goes to stderr in words.
func (a *App) Words() bool {
	return a.TTY && a.format != "json" && a.format != "jsonl" && a.format != report.FormatAgent
}
