//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
)

// Commands run on Linux (amd64 and arm64) only. Other systems refuse them.

// Host refuses to start sandboxes on this system.
type Host struct{}

// NewHost returns a Host that refuses everything.
func NewHost(string) *Host { return &Host{} }

// Close does nothing.
func (*Host) Close() error { return nil }

func unsupported() *Error {
	return &Error{Isolation: Full, Step: StepSystem, Msg: "commands are executed on Linux (amd64, arm64) alone"}
}

// Start returns an error.
func (*Host) Start(context.Context, Request) (*Sandbox, error) { return nil, unsupported() }

// StageInputs returns an error.
func (*Host) StageInputs(string, []string, int, int64) (Inputs, error) {
	return Inputs{}, unsupported()
}

// Probe returns no tiers.
func (*Host) Probe(context.Context) []Probe { return nil }

// NewScratch makes a folder that nothing sweeps.
func NewScratch(in string) (string, error) { return os.MkdirTemp(in, "fiador-sandbox-") }

// Sweep removes nothing.
func Sweep(string) error { return nil }

// Sandbox is never set up on this system.
type Sandbox struct {
	Isolation Isolation
	Clauses   []evidence.Clause
	PlanHash  [32]byte
}

// Command returns nil.
func (*Sandbox) Command(int, time.Duration, *End, ...string) command.Start { return nil }

// End returns an error.
func (*Sandbox) End(bool) error { return unsupported() }

// Write returns an error.
func (*Sandbox) Write(int) (syscall.Errno, error) { return 0, unsupported() }

// WriteGiven returns an error.
func (*Sandbox) WriteGiven(int, []byte) (syscall.Errno, error) { return 0, unsupported() }

// Changes returns an error.
func (*Sandbox) Changes() ([]change.Change, error) { return nil, unsupported() }

// ChangesSoFar returns an error.
func (*Sandbox) ChangesSoFar() ([]change.Change, error) { return nil, unsupported() }

// MoveTo returns an error.
func (*Sandbox) MoveTo(string, func(string) bool) error { return unsupported() }

// Facts returns zero values.
func (*Sandbox) Facts() Facts { return Facts{} }

// Run returns an error.
func (*Sandbox) Run(context.Context, int, time.Duration, command.Spec, *End, ...string) (command.Result, error) {
	return command.Result{}, unsupported()
}

// WriteDelta returns an error.
func WriteDelta(string, []change.Change, Delta) error { return unsupported() }

// Originals returns an error.
func (Request) Originals(func(Original, func() (*os.File, error)) error) error { return unsupported() }

// DeltaFolder returns an error.
func DeltaFolder(string) (string, error) { return "", unsupported() }

// Hidden returns an error.
func Hidden(string, string) error { return unsupported() }

// Content returns an error.
func (*Sandbox) Content(string) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

// Before returns zero values.
func (*Sandbox) Before(string) (change.Kind, [32]byte, int64) { return "", [32]byte{}, 0 }

// Below yields nothing.
func (*Sandbox) Below(string) iter.Seq[string] { return func(func(string) bool) {} }

// Foreign finds nothing.
func (*Sandbox) Foreign() (string, int, bool) { return "", 0, false }

// Reserved finds nothing.
func (*Sandbox) Reserved(string, string) (string, bool) { return "", false }

// Explain returns an error.
func (*Host) Explain(Isolation, Request) (Explained, error) { return Explained{}, unsupported() }

// Shown returns false.
func Shown(string) bool { return false }

// PeakMemory returns 0.
func (*Sandbox) PeakMemory() int64 { return 0 }

// Connections returns nothing.
func (*Sandbox) Connections() []evidence.Connection { return nil }

// Owns does nothing.
func (*Sandbox) Owns(Inputs) {}

// Finish does nothing.
func (*Sandbox) Finish() error { return nil }

// Close does nothing.
func (*Sandbox) Close() error { return nil }

// ThisMachine returns the facts that every system has.
func ThisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, GoVersion: runtime.Version()}
}
