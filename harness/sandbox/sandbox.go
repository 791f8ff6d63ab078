// Package sandbox runs commands that an agent proposed, confined on Linux. The
// isolation is data: a Request becomes a plan (Compile), a list of labelled steps
// that can be printed, compared and hashed; an init walks it (package initproc); what
// the commands wrote is a list of changes that the caller judges (Judge) before any
// of it is applied (Apply). A step that fails names itself and its errno, and that
// pair says what happens next (Diagnose); no error text does.
//
// specs/sandbox.md is the page that this package keeps to.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Isolation is how much stands between a command and the machine.
type Isolation string

// The tiers, from strong to weak. Full has a view of its own (namespaces, mounts),
// Landlock and the filter of system calls; Confined has the last two alone; None has
// limits only, and only a profile can ask for it.
const (
	Full     Isolation = "full"
	Confined Isolation = "confined"
	None     Isolation = "none"
)

// AtLeast says whether i is as strong as j.
func (i Isolation) AtLeast(j Isolation) bool {
	order := []Isolation{None, Confined, Full}
	return slices.Index(order, i) >= slices.Index(order, j)
}

// Write says what becomes of what the commands write.
type Write string

const (
	// Staged keeps it apart from the work folder until it is applied.
	Staged Write = "staged"
	// Direct lets the commands write into the work folder: for large trees. Nothing is
	// judged before it is there, and its total is not bounded.
	Direct Write = "direct"
)

// Limits bound an execution. The zero value of a member means what it says: no
// memory, no children.
type Limits struct {
	MemoryMB    int   // of all processes together where a cgroup is there, and of each
	CPUCores    int   // processors
	MaxChildren int   // processes beside the first; see Tasks
	NoFork      bool  // not even one; see Forks
	OutputFiles int   // files written
	OutputBytes int64 // bytes of them together
}

// Forks says whether a command may start a process at all.
func (l Limits) Forks() bool { return !l.NoFork && l.MaxChildren > 0 }

// Tasks is the number of processes and threads that max_children allows: runtimes
// need threads, which the kernel counts alike.
func (l Limits) Tasks() int { return max(64, 8*l.MaxChildren) }

// Action is one step inside: a command, or a file that is written.
type Action struct {
	Argv []string
	Env  []string // beside the fixed environment: "NAME=value"
	Dir  string   // beneath the work folder; empty: the folder itself

	Path       string // of a file beneath the work folder, where Argv is empty
	Content    []byte
	Executable bool
	Given      bool // the content comes when the action's turn does, and nobody is meant to write it again
}

// Request is what is to run, and how it is confined.
type Request struct {
	Work    string   // host folder that the commands work in; empty: a new empty one
	Write   Write    //
	Inputs  string   // host folder that is laid over Work, to be read; or empty
	Tree    string   // host folder that is shown read-only at /tree; or empty
	Read    []string // host paths that are shown read-only where they are
	Show    []string // paths beneath the work folder that are shown, and nothing else of it; nil: all of it
	Folders []string // with Show, folders that are shown too, without what they hold
	Hide    []string // paths beneath the work folder that are not shown, whatever Show says
	Protect []string // paths in the work folder that are shown read-only, where they are there
	Roots   []string // with direct writes, the folders of the work folder that may be written; nil: all of it
	Network bool     // the host's network
	Limits  Limits
	Actions []Action
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: two seconds

	Least Isolation // weaker than this is an error
	Most  Isolation // stronger than this is not tried; empty: Full
}

// WorkDir is where commands find the work folder in a full sandbox, TreeDir the tree.
const (
	WorkDir = "/work"
	TreeDir = "/tree"
)

// Error says that a sandbox could not be set up. Nothing has run.
type Error struct {
	Isolation Isolation     // the tier that was tried
	Step      string        // operation of the step that failed, or a name below
	At        int           // its place in the plan
	Errno     syscall.Errno // why
	Msg       string        // what that means here
	Cause     string        // id of a known cause (Causes), or empty
	Remedy    string        // what to do, or empty
}

// The steps that are not in a plan.
const (
	StepStart   = "start"     // starting the init in new namespaces
	StepLimits  = "limits"    // the cgroup
	StepFiles   = "files"     // preparing folders
	StepOpenat2 = "openat2"   // opening what commands leave behind
	StepReport  = "report"    // the init ended without a report
	StepSystem  = "system"    // another operating system
	StepGiveUp  = "give up"   // a command's process could not give up what it must
	StepHost    = "isolation" // the tier is not one that may be used
)

func (e *Error) Error() string {
	msg := fmt.Sprintf("%s isolation: %s", e.Isolation, e.Step)
	if e.Errno != 0 {
		msg += ": " + strings.ToLower(e.Errno.Error())
	}
	if e.Msg != "" {
		msg += ": " + e.Msg
	}
	return msg
}

// ErrStageFull says that the memory for staged files is full.
var ErrStageFull = errors.New("the memory for what is written is full")
