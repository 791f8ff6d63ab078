// Package initproc is process 1 of a sandbox. It walks a plan, an ordered list of
// labelled steps, and then performs the plan's actions one by one: each command is
// started with nothing left to give away, waited for, and everything that it
// started is killed and reaped before the next action begins.
//
// The program starts itself again for this. Importing the package is enough: a
// process whose name (argv[0]) is Name becomes an init before main, and before most of
// the packages of the policy engine are set up (Enter). The package imports the
// standard library alone, so that little has to be set up before it.
//
// # Protocol
//
// Descriptor 3 is a socket of whole messages (SOCK_SEQPACKET) to the supervisor,
// descriptor 4 holds the plan as JSON, the following ones are mounts that the
// supervisor prepared. The supervisor sends messages of MessageSize bytes: Begin;
// Perform, with the action's number, its time and its standard input, output and
// error, or the content of a file that was not known when the plan was made;
// Terminate, which is SIGTERM to everything inside. The init answers with a Report, which has a fixed size. When
// the supervisor's end of the socket closes, the init ends, and with it, being
// process 1, everything inside. No report means failure.
package initproc

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Name is the argv[0] of an init; NameLast that of a command's process that has yet to
// give up what a command gives up (Confine.Last).
const (
	Name     = "fiador: sandbox init"
	NameLast = "fiador: sandbox last step"
)

// What the supervisor sends.
const (
	Begin     = 'B'
	Perform   = 'P'
	Terminate = 'T'
)

// MessageSize is the size of what the supervisor sends: the kind, the number of the
// action and its time in milliseconds, 4 bytes each, little end first.
const MessageSize = 9

// Message is what the supervisor sends.
func Message(kind byte, at, ms int) []byte {
	b := make([]byte, MessageSize)
	b[0] = kind
	put(b[1:5], uint64(at))
	put(b[5:9], uint64(ms))
	return b
}

// The operations of a step.
const (
	OpIdentity = "identity"  // the ids inside are the plan's
	OpGuard    = "guard"     // die with the supervisor; not to be traced
	OpReaper   = "reaper"    // adopt what loses its parent (without a pid namespace)
	OpPrivate  = "private"   // mounts made from here on stay inside
	OpOpen     = "open"      // a copy of the mounts at From, or the mount of descriptor FD, is kept as Name
	OpRoot     = "root"      // an empty root in memory; the paths of later steps are in it
	OpDir      = "dir"       // a folder
	OpFile     = "file"      // a file with Text
	OpLink     = "link"      // a symbolic link to Text
	OpPlace    = "place"     // the mount Name is put at To
	OpTmpfs    = "tmpfs"     // a file system in memory at To
	OpStage    = "stage"     // a file system in memory, bounded, for what is written; its upper folder goes to the supervisor
	OpOverlay  = "overlay"   // To shows Lower, and takes what is written into the stage
	OpCover    = "cover"     // what stands at To is made read-only there
	OpHide     = "hide"      // what stands at To cannot be read there
	OpProc     = "proc"      // a fresh read-only /proc
	OpSeal     = "seal"      // the root becomes read-only
	OpPivot    = "pivot"     // the old root is gone
	OpHostname = "host name" // Text
	OpLoopback = "loopback"  // the loopback interface of the new network is up
	OpRehearse = "rehearse"  // what commands give up can be given up
	OpEnter    = "enter"     // To becomes the working folder
)

// Attributes of a mount, as mount_setattr(2) names them.
const (
	ReadOnly = 0x1
	NoSUID   = 0x2
	NoDev    = 0x4
	NoExec   = 0x8
)

// Plan is everything that an init does.
type Plan struct {
	Steps   []Step   `json:"steps"`
	Confine Confine  `json:"confine"`
	Actions []Action `json:"actions"`
	GraceMS int      `json:"grace_ms"` // between SIGTERM and SIGKILL
	PIDs    bool     `json:"pids"`     // in a pid namespace of its own
}

// Step is one step of the set-up.
type Step struct {
	Op     string   `json:"op"`
	Name   string   `json:"name,omitempty"`
	From   string   `json:"from,omitempty"`
	FD     int      `json:"fd,omitempty"`
	To     string   `json:"to,omitempty"`
	Text   string   `json:"text,omitempty"`
	Lower  []string `json:"lower,omitempty"` // names of mounts, the upper one first
	Attr   uint64   `json:"attr,omitempty"`
	Mode   uint32   `json:"mode,omitempty"`
	Bytes  int64    `json:"bytes,omitempty"`
	Inodes int64    `json:"inodes,omitempty"`
	ID     int      `json:"id,omitempty"`
}

// Confine is what every command gives up before it is executed.
type Confine struct {
	UID      int       `json:"uid,omitempty"` // ids to change to; 0: stay
	CPUs     int       `json:"cpus,omitempty"`
	Rlimits  []Rlimit  `json:"rlimits"`
	Landlock *Landlock `json:"landlock,omitempty"`
	Seccomp  Filter    `json:"seccomp,omitempty"`
	Last     bool      `json:"last,omitempty"` // the command's own process gives up, not a thread of the init
}

// Rlimit is one resource limit, soft and hard alike.
type Rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// Landlock is a ruleset.
type Landlock struct {
	FS     uint64 `json:"fs"`
	Net    uint64 `json:"net,omitempty"`
	Scoped uint64 `json:"scoped,omitempty"`
	Rules  []Rule `json:"rules"`
}

// Rule grants Access beneath Path.
type Rule struct {
	Path   string `json:"path"`
	Access uint64 `json:"access"`
}

// Filter is a seccomp filter. In JSON it is the base64 of its instructions, 8 bytes
// each, the numbers little end first: a list would take longer to read than all the
// rest of a plan.
type Filter []Insn

// Insn is one instruction of a filter.
type Insn struct {
	Code uint16
	JT   uint8
	JF   uint8
	K    uint32
}

// MarshalJSON writes the instructions.
func (f Filter) MarshalJSON() ([]byte, error) {
	b := make([]byte, 8*len(f))
	for i, in := range f {
		at := b[8*i:]
		put(at[:2], uint64(in.Code))
		at[2], at[3] = in.JT, in.JF
		put(at[4:8], uint64(in.K))
	}
	return []byte(`"` + base64.StdEncoding.EncodeToString(b) + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Filter) UnmarshalJSON(text []byte) error {
	b, err := base64.StdEncoding.DecodeString(strings.Trim(string(text), `"`))
	if err != nil || len(b)%8 != 0 {
		return errors.New("not a filter")
	}
	*f = make(Filter, len(b)/8)
	for i := range *f {
		at := b[8*i:]
		(*f)[i] = Insn{Code: uint16(get(at[:2])), JT: at[2], JF: at[3], K: uint32(get(at[4:8]))}
	}
	return nil
}

// Action is one step inside. With Argv it is a command, without one a file that is
// written.
type Action struct {
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"` // where the command starts, absolute inside

	Root    string `json:"root,omitempty"` // folder inside that Path is beneath
	Path    string `json:"path,omitempty"` // clean and relative
	Content []byte `json:"content,omitempty"`
	Given   bool   `json:"given,omitempty"` // the content comes in a descriptor with Perform
	Mode    uint32 `json:"mode,omitempty"`
}

// The kinds of report.
const (
	Ready  = 'r' // the set-up is done
	Failed = 'f' // step At failed with Errno
	Done   = 'd' // action At has ended
)

// What the Flags of a report can say.
const (
	TimedOut    = 1 << iota // the action was over its time
	Survivors               // something could not be killed
	NotFound                // there is no such command, or its folder is not there
	NotRunnable             // the command cannot be executed
)

// Report is what an init says, in ReportSize bytes. For an action that is a
// command, Code and Signal are how it ended; for a file that was not written,
// Errno is why.
type Report struct {
	Kind   byte
	Flags  uint8
	Signal uint8
	Code   uint8
	At     uint32
	Errno  uint32
	MaxRSS uint64 // bytes, the largest of the command and what it started
}

// ReportSize is the size of a report in bytes.
const ReportSize = 32

var magic = [4]byte{'f', 'd', 'r', 1}

// Encode is the report as it is sent.
func (r Report) Encode() []byte {
	b := make([]byte, ReportSize)
	copy(b, magic[:])
	b[4], b[5], b[6], b[7] = r.Kind, r.Flags, r.Signal, r.Code
	put(b[8:12], uint64(r.At))
	put(b[12:16], uint64(r.Errno))
	put(b[16:24], r.MaxRSS)
	return b
}

// Decode reads a report.
func Decode(b []byte) (Report, bool) {
	if len(b) != ReportSize || [4]byte(b[:4]) != magic {
		return Report{}, false
	}
	r := Report{Kind: b[4], Flags: b[5], Signal: b[6], Code: b[7]}
	r.At, r.Errno, r.MaxRSS = uint32(get(b[8:12])), uint32(get(b[12:16])), get(b[16:24])
	return r, r.Kind == Ready || r.Kind == Failed || r.Kind == Done
}

func put(b []byte, v uint64) {
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

func get(b []byte) uint64 {
	var v uint64
	for i := range b {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}
