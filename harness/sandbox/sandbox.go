// Package sandbox runs commands that an agent proposed, confined on Linux. The isolation is
// data: a Request becomes a plan (initproc.Plan). A plan is a list of labelled steps that
// can be printed (Host.Explain), compared and hashed, and an init performs it (package
// initproc). The commands leave a list of changes (Sandbox.Changes). The caller judges the
// changes (change.Judge) before it applies any of them (tree.Apply). A step that fails names
// itself and its errno; this pair decides what happens next (Host.Diagnose), and no error
// text does.
//
// specs/sandbox.md specifies this package.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/contract"
)

// SearchPath is PATH of a command. Its folders are those of the system, which no command can
// write.
const SearchPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin"

// Isolation is the strength of the barrier between a command and the machine.
type Isolation = kernel.Isolation

// The tiers, from strong to weak. Full has a view of its own (namespaces, mounts), Landlock
// and the filter of system calls. Confined has only Landlock and the filter. None has limits
// only, and only a profile can ask for it.
const (
	Full     = kernel.IsolationFull
	Confined = kernel.IsolationConfined
	None     = kernel.IsolationNone
)

// Write says where the commands' writes go.
type Write string

const (
	// Staged keeps written files apart from the work folder until they are applied.
	Staged Write = "staged"
	// Direct lets the commands write into the work folder, for large trees. Changes are
	// there before anything judges them, and their total size is not bounded.
	Direct Write = "direct"
)

// Limits bound an execution. A zero member means zero: no memory, no children.
type Limits struct {
	MemoryMB    int   // of all processes together where a cgroup exists, and of each process
	CPUCores    int   // processors
	MaxChildren int   // processes besides the first; see Tasks
	NoFork      bool  // no other process at all; see Forks
	OutputFiles int   // number of written files
	OutputBytes int64 // total bytes of the written files
}

// Forks says whether a command may start a process.
func (l Limits) Forks() bool { return !l.NoFork && l.MaxChildren > 0 }

// Tasks returns the number of processes and threads that MaxChildren allows. Runtimes need
// threads, and the kernel counts threads as processes.
func (l Limits) Tasks() int { return max(64, 8*l.MaxChildren) }

// Action is one step inside: a command, or a file to write.
type Action struct {
	Argv []string
	Env  []string // added to the fixed environment: "NAME=value"
	Dir  string   // beneath the work folder; empty: the folder itself

	Hosts contract.Hosts // that the command may reach, if Request.Listed

	Path       string // of a file beneath the work folder; used if Argv is empty
	Content    []byte
	Executable bool
	Given      bool // the caller passes the content when the action is performed, and the file is read-only
}

// File is a file with a fixed text.
type File struct{ Path, Text string }

// Request says what runs and how it is confined.
type Request struct {
	Work    string   // host folder that the commands work in; empty: a new empty one
	Write   Write    //
	Delta   string   // host folder with changes laid over Work, with staged writes (see MoveTo); or empty
	Inputs  string   // host folder laid over Work and Delta, for reading; or empty
	Tree    string   // host folder shown read-only at /tree; or empty
	Read    []string // host paths shown read-only at the same path
	Files   []File   // shown read-only; without a view of its own they stand elsewhere, and arguments that are their paths are replaced
	Show    []string // paths beneath the work folder that are shown; other paths are hidden; nil: all of it
	Folders []string // with Show, folders that are also shown, without their content
	Hide    []string // paths beneath the work folder that are hidden, even if Show lists them
	Protect []string // paths in the work folder that are shown read-only if they exist
	Roots   []string // with direct writes, the folders of the work folder that commands may write; nil: all of it
	Network bool     // commands may use the host's network
	Listed  bool     // commands may reach the hosts of their actions, through a proxy; not with Network
	Limits  Limits
	Actions []Action
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: two seconds

	Least Isolation // a weaker tier is an error
	Most  Isolation // a stronger tier is not tried; empty: Full
}

// WorkDir is the path of the work folder in a full sandbox, TreeDir the path of the tree.
const (
	WorkDir = "/work"
	TreeDir = "/tree"
)

// Delta says how changes are written as a folder (WriteDelta).
type Delta struct {
	Leave func(path string) bool              // whether a change is left out; nil: none is
	Open  func(path string) (*os.File, error) // the content of a written file
	Hides func(path string) bool              // whether a lower layer has an entry at a path
}

// Original is an entry that the work folder has before anything runs.
type Original struct {
	Path   string
	Kind   change.Kind
	Mode   uint32 // permissions
	Size   int64  // of a file
	Target string // of a link
	Seen   *change.Seen
	Host   string // its path on this machine
}

// Error says that a sandbox could not be set up. Nothing has run.
type Error struct {
	Isolation Isolation     // the tier that was tried
	Step      string        // operation of the failed step, or one of the Step constants
	At        int           // its place in the plan
	Errno     syscall.Errno // why
	Msg       string        // what the error means here
	Cause     string        // id of a known cause (the Cause constants), or empty
	Remedy    string        // what to do, or empty
}

// The steps that are not part of a plan.
const (
	StepStart   = "start"     // starting the init in new namespaces
	StepLimits  = "limits"    // the cgroup
	StepFiles   = "files"     // preparing folders
	StepOpenat2 = "openat2"   // opening files that commands leave
	StepReport  = "report"    // the init ended without a report
	StepSystem  = "system"    // another operating system
	StepGiveUp  = "give up"   // a command's process could not give up a right that it must give up
	StepHost    = "isolation" // the tier may not be used
	StepProxy   = "proxy"     // opening the port at which commands find the proxy
)

// Error names the tier, the step, the errno and its meaning.
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

// ErrWhiteouts says that a folder cannot hold deletions, because its file system refuses
// whiteouts, as overlayfs itself does.
var ErrWhiteouts = errors.New("its file system takes no whiteouts")

// Inputs are copies of files of a tree. A change in the tree does not change the copies.
type Inputs struct {
	Dir   string
	Files []Input
}

// Input is one copied file.
type Input struct {
	Path   string
	Size   int64
	SHA256 [32]byte
}

// InputError says which input could not be read.
type InputError struct {
	Path  string
	Msg   string
	Limit bool // there are more files or bytes than an execution may read
}

// Error names the path and the reason.
func (e *InputError) Error() string { return e.Path + ": " + e.Msg }

// Remove removes the copies.
func (in Inputs) Remove() error {
	if in.Dir == "" {
		return nil
	}
	return tree.RemoveAll(in.Dir)
}

// End is the part of a command's end that only the sandbox knows.
type End struct {
	TimedOut      bool
	OutOfMemory   bool // a process inside was killed because all processes together exceeded the memory limit
	NotFound      bool
	NotExecutable bool
	Scratch       bool  // a folder for temporary files has an entry
	MaxRSS        int64 // bytes
}

// Facts are what a sandbox is, and where.
type Facts struct {
	Isolation Isolation
	Clauses   []evidence.Clause
	PlanHash  [32]byte // SHA-256 of the plan's JSON; it depends on the machine
	Staging   string   // how written files are kept apart from the work folder
	Machine   Machine
}

// Machine is the machine of a sandbox.
type Machine struct {
	OS, Arch      string // as Go names them
	GoVersion     string
	KernelRelease string
	LandlockABI   int // 0: there is no Landlock
}

// Probe is the result of trying one tier.
type Probe struct {
	Isolation Isolation
	Err       *Error // nil: the tier is available
	Clauses   []evidence.Clause
	Staging   string // how written files are kept apart from the work folder
}

// Explained is a plan as text for people: the steps and the promises. Nothing is started.
type Explained struct {
	Isolation Isolation         `json:"isolation"`
	Steps     []string          `json:"steps"`
	GiveUp    []string          `json:"give_up"` // what each command gives up before it is executed, in order
	Env       []string          `json:"environment"`
	Clauses   []evidence.Clause `json:"clauses"`
}

// unlistable says why an isolation cannot list hosts, if hosts are listed.
func (r Request) unlistable(at Isolation) *Error {
	switch {
	case r.Listed && r.Network:
		return &Error{Isolation: at, Step: StepHost, Msg: "hosts are listed, and every host can be reached"}
	case r.Listed && at != Full:
		return &Error{Isolation: at, Step: StepHost, Msg: "listed hosts need isolation full: Landlock knows ports and not hosts",
			Remedy: "use isolation full, or a profile without network_hosts and registries"}
	}
	return nil
}

// Levels returns the network levels that a tier can enforce.
func Levels(tier Isolation) []contract.NetLevel {
	if (Request{Listed: true}).unlistable(tier) != nil {
		return []contract.NetLevel{contract.Offline, contract.Open}
	}
	return []contract.NetLevel{contract.Offline, contract.Registry, contract.API, contract.Open}
}

// Shows says whether commands can see a path of the work folder.
func (r Request) Shows(p string) bool {
	return (r.Show == nil || beneathAny(p, r.Show)) && !beneathAny(p, r.Hide)
}

// ShowsAll says whether commands can see a path of the work folder and everything beneath
// it.
func (r Request) ShowsAll(p string) bool {
	return r.Shows(p) && !slices.ContainsFunc(r.Hide, func(hidden string) bool { return kernel.Beneath(hidden, p) })
}

// Passes says whether a folder of the work folder exists inside because it leads to a path
// of Show or Folders.
func (r Request) Passes(p string) bool {
	leads := func(to string) bool { return kernel.Beneath(to, p) }
	return (slices.ContainsFunc(r.Show, leads) || slices.ContainsFunc(r.Folders, leads)) && !beneathAny(p, r.Hide)
}

func beneathAny(p string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return f == "." || kernel.Beneath(p, f) })
}
