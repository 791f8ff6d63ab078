// Package initproc is process 1 of a sandbox. It performs a plan, an ordered list of
// labelled steps, and then the plan's actions one by one. Each command starts without
// any right that it must give up. Before the next action begins, the init waits for the
// command, and kills and reaps everything that the command started.
//
// The program starts itself again for this. Importing the package is enough: a process
// whose name (argv[0]) is Name becomes an init before main, and before most packages of
// the policy engine are initialized (Enter). The package imports only packages that are
// initialized early in every program, so that little else comes before it.
//
// # Protocol
//
// Descriptor 3 is a socket of whole messages (SOCK_SEQPACKET) to the supervisor.
// Descriptor 4 contains the plan (Plan.Encode). The following descriptors are mounts that the
// supervisor prepared. The supervisor sends messages of MessageSize bytes:
//
//   - Begin;
//   - Perform, with the action's number and its time. For a command it carries standard
//     input, output and error, and secrets if the command has any (EncodeSecrets); for a
//     file, the content that was unknown when the plan was made;
//   - Terminate, which is SIGTERM to everything inside, and with number 1 SIGKILL.
//
// The init answers with a Report, which has a fixed size. When the supervisor's end of
// the socket closes, the init ends. Because the init is process 1, everything inside ends
// with it. No report means failure.
package initproc

import "github.com/fiador/fiador/harness/sandbox/wire"

// Name is the argv[0] of an init. NameLast is the argv[0] of a command's process before it
// gives up its rights (Confine.Last).
const (
	Name     = "fiador: sandbox init"
	NameLast = "fiador: sandbox last step"
)

// Env returns the environment of an init. The Go runtime reads it: an init collects no
// garbage.
func Env() []string { return []string{"GOGC=off"} }

// The kinds of message that the supervisor sends.
const (
	Begin     = 'B'
	Perform   = 'P'
	Terminate = 'T'
)

// MessageSize is the size of a message of the supervisor in bytes: the kind is 1 byte; the
// number of the action and its time in milliseconds are 4 bytes each, little-endian.
const MessageSize = 9

// Message returns a message of the supervisor.
func Message(kind byte, at, ms int) []byte {
	b := make([]byte, MessageSize)
	b[0] = kind
	wire.Put(b[1:5], uint64(at))
	wire.Put(b[5:], uint64(ms))
	return b
}

// The operations of a step.
const (
	OpIdentity = "identity"  // check that the ids inside are ID
	OpGuard    = "guard"     // forbid tracing of the init
	OpReaper   = "reaper"    // adopt processes that lose their parent (without a pid namespace)
	OpPrivate  = "private"   // later mounts stay inside
	OpOpen     = "open"      // keep a copy of the mounts at From, or the mount of descriptor FD, as Name
	OpRoot     = "root"      // make an empty root in memory; the paths of later steps are in it
	OpDir      = "dir"       // make a folder
	OpFile     = "file"      // make a file with Text
	OpLink     = "link"      // make a symbolic link to Text
	OpPlace    = "place"     // put the mount Name at To
	OpTmpfs    = "tmpfs"     // mount a file system in memory at To
	OpStage    = "stage"     // make a bounded file system in memory for written files; send its upper folder to the supervisor
	OpOverlay  = "overlay"   // show Lower at To, and put writes into the stage
	OpCover    = "cover"     // make the entry at To read-only
	OpHide     = "hide"      // make the entry at To unreadable
	OpProc     = "proc"      // mount a new read-only /proc
	OpSeal     = "seal"      // make the root read-only
	OpPivot    = "pivot"     // make the new root the root and remove the old one
	OpHostname = "host name" // set the host name to Text
	OpLoopback = "loopback"  // bring up the loopback interface of the new network
	OpListen   = "listen"    // listen on ProxyPort of that interface; send the socket to the supervisor
	OpRehearse = "rehearse"  // check that commands can give up what they must give up
	OpEnter    = "enter"     // make To the working folder
)

// ProxyPort is the TCP port of 127.0.0.1 at which commands find the supervisor's proxy.
const ProxyPort = 3128

// Attributes of a mount, with the values of mount_setattr(2).
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
	PIDs    bool     `json:"pids"`     // the init has its own pid namespace
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
	UID      int       `json:"uid,omitempty"` // uid and gid to change to; 0: no change
	CPUs     int       `json:"cpus,omitempty"`
	Rlimits  []Rlimit  `json:"rlimits"`
	Landlock *Landlock `json:"landlock,omitempty"`
	Seccomp  Filter    `json:"seccomp,omitempty"`
	Last     bool      `json:"last,omitempty"` // the command's own process gives up the rights, not a thread of the init
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

// Filter is a seccomp filter: its instructions one after another, InsnSize bytes each, in the
// form that the kernel takes (struct sock_filter).
type Filter []byte

// InsnSize is the size of an instruction of a filter in bytes.
const InsnSize = 8

// Action is one step inside. With Argv it is a command, without Argv a file to write.
type Action struct {
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"` // working folder of the command, absolute inside

	Root    string `json:"root,omitempty"` // folder inside; Path is beneath it
	Path    string `json:"path,omitempty"` // clean and relative
	Content []byte `json:"content,omitempty"`
	Given   bool   `json:"given,omitempty"` // Perform passes the content in a descriptor
	Mode    uint32 `json:"mode,omitempty"`
}

// The kinds of report.
const (
	Ready  = 'r' // the set-up is done
	Failed = 'f' // step At failed with Errno
	Done   = 'd' // action At has ended
)

// The flags of a report.
const (
	TimedOut    = 1 << iota // the action exceeded its time
	Survivors               // a process could not be killed
	NotFound                // the command or its folder does not exist
	NotRunnable             // the command cannot be executed
	Scratch                 // a folder for temporary files has an entry
)

// Report is a message of the init of ReportSize bytes. For a command, Code and Signal say
// how it ended. For a file that was not written, Errno says why.
type Report struct {
	Kind   byte
	Flags  uint8
	Signal uint8
	Code   uint8
	At     uint32
	Errno  uint32
	MaxRSS uint64 // bytes, the largest of the command and its descendants
}

// ReportSize is the size of a report in bytes.
const ReportSize = 32

var magic = [4]byte{'f', 'd', 'r', 1}

// Encode returns the report as bytes.
func (r Report) Encode() []byte {
	b := make([]byte, ReportSize)
	copy(b, magic[:])
	b[4], b[5], b[6], b[7] = r.Kind, r.Flags, r.Signal, r.Code
	wire.Put(b[8:12], uint64(r.At))
	wire.Put(b[12:16], uint64(r.Errno))
	wire.Put(b[16:24], r.MaxRSS)
	return b
}

// Decode reads a report.
func Decode(b []byte) (Report, bool) {
	if len(b) != ReportSize || [4]byte(b[:4]) != magic {
		return Report{}, false
	}
	r := Report{Kind: b[4], Flags: b[5], Signal: b[6], Code: b[7]}
	r.At, r.Errno, r.MaxRSS = uint32(wire.Get(b[8:12])), uint32(wire.Get(b[12:16])), wire.Get(b[16:24])
	return r, r.Kind == Ready || r.Kind == Failed || r.Kind == Done
}
