// Package job owns the documents of a remote execution (specs/remote.md): spec.json says what a
// worker performs, and result.json says what happened there. The bytes of streams and changed
// files are in data.tar.
//
// Both sides use this package: package remote writes the spec and checks the result, and the
// shim on the worker reads the one and writes the other.
package job

import (
	"encoding/base64"
	"errors"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// Version is the version of both documents.
const Version = "1.0.0"

// The paths of an action, beneath the folder that the worker starts the shim in.
const (
	WorkDir    = "work" // the work folder
	TreeDir    = "tree" // the tree that is shown read-only
	ShimFile   = "fiador/shim"
	SpecFile   = "fiador/spec.json"
	OutDir     = "fiador/out"
	ResultFile = OutDir + "/result.json"
	DataFile   = OutDir + "/data.tar"
)

// The limits of a remote execution.
const (
	MaxEntries = 200_000  // of the work folder and the tree together
	MaxBytes   = 8 << 30  // of their files together
	MaxSpec    = 96 << 20 // bytes of spec.json
	MaxResult  = 96 << 20 // bytes of result.json
	MaxStdin   = 16 << 20 // bytes of the standard input of all commands together
)

// Spec is spec.json: a task for a worker.
type Spec struct {
	Version   string  `json:"version"`
	Work      []Entry `json:"work,omitempty"`
	Tree      []Entry `json:"tree,omitempty"`
	ShowsTree bool    `json:"shows_tree"`

	Isolation struct { // what the worker must reach before anything starts
		Least string `json:"least"`
		Most  string `json:"most"`
	} `json:"isolation"`
	Show      []string `json:"show,omitempty"`
	ShowsAll  bool     `json:"shows_all"` // commands see all of the work folder, and not only Show
	Folders   []string `json:"folders,omitempty"`
	Hide      []string `json:"hide,omitempty"`
	Protect   []string `json:"protect,omitempty"`
	Network   bool     `json:"network"`
	Listed    bool     `json:"listed"`
	Files     []Text   `json:"files,omitempty"`
	Limits    Limits   `json:"limits"`
	BudgetMS  int64    `json:"budget_ms"`  // for all commands together; 0: no limit
	StdoutMax int64    `json:"stdout_max"` // bytes of a stream that are kept
	StderrMax int64    `json:"stderr_max"`
	Cut       bool     `json:"cut"` // a command whose stream is cut has not failed
	Actions   []Action `json:"actions,omitempty"`

	StopWhenCut bool `json:"stop_when_cut"` // a command ends when it has written more to standard output than is kept
}

// Limits are the limits of the sandbox.
type Limits struct {
	MemoryMB    int   `json:"memory_mb"`
	CPUCores    int   `json:"cpu_cores"`
	MaxChildren int   `json:"max_children"`
	NoFork      bool  `json:"no_fork"`
	OutputFiles int   `json:"output_files"`
	OutputBytes int64 `json:"output_bytes"`
}

// Text is a file with a fixed text that commands can read.
type Text struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Action is a command, or a file to write.
type Action struct {
	Argv      []string `json:"argv,omitempty"` // empty: a file to write
	Env       []string `json:"env,omitempty"`
	Cwd       string   `json:"cwd"`
	Allow     []Host   `json:"allow,omitempty"` // hosts that the command may reach, where hosts are listed
	Deny      []Host   `json:"deny,omitempty"`
	Stdin     *string  `json:"stdin,omitempty"` // base64; nil: the command has none
	TimeoutMS int64    `json:"timeout_ms"`      // 0: the rest of the budget
	Code      int      `json:"code"`            // exit code besides 0 that is no failure

	Path       string `json:"path"`
	Content    string `json:"content"` // base64
	Executable bool   `json:"executable"`
}

// Host is an entry of a list of hosts.
type Host struct {
	Name    string `json:"name"`
	Port    int    `json:"port"`
	Private bool   `json:"private"`
}

// Kind is the kind of an entry.
type Kind string

// The kinds of entries.
const (
	File   Kind = "file"
	Folder Kind = "folder"
	Link   Kind = "link"
)

// Entry is what a folder has at a path. A list of entries is sorted by path, byte by byte, and a
// folder comes before what is in it.
type Entry struct {
	Path   string            `json:"path"`
	Kind   Kind              `json:"kind"`
	Size   int64             `json:"size"`
	SHA256 canon.ContentHash `json:"sha256,omitempty"`
	Mode   int               `json:"mode"` // the nine bits of the permissions, of a file and a folder
	Target string            `json:"target,omitempty"`
}

// Result is result.json: what a worker did with a spec.
type Result struct {
	Version string            `json:"version"`
	Spec    canon.ContentHash `json:"spec_sha256"` // of spec.json
	Refused *Refusal          `json:"refused,omitempty"`

	Machine    Machine               `json:"machine"`
	Isolation  string                `json:"isolation"`
	Clauses    []evidence.Clause     `json:"clauses,omitempty"`
	Plan       canon.ContentHash     `json:"plan_sha256,omitempty"`
	Staging    string                `json:"staging"`
	PeakMemory int64                 `json:"peak_memory_bytes"`
	Steps      []Step                `json:"steps,omitempty"` // of the actions that were performed, in order
	Full       bool                  `json:"full"`            // the memory for written files was full
	Changes    []Change              `json:"changes,omitempty"`
	Contacts   []evidence.Connection `json:"connections,omitempty"`
}

// The kinds of a refusal.
const (
	RefusedIsolation = "isolation" // the sandbox could not be set up as the spec demands
	RefusedInputs    = "inputs"    // the worker has other inputs than the spec lists
	RefusedSpec      = "spec"      // the shim cannot read the spec
	RefusedWorker    = "worker"    // the worker failed
)

// Refusal says why no command was started, or why it is not known what commands did.
type Refusal struct {
	Kind      string `json:"kind"`
	Message   string `json:"message"`
	Started   bool   `json:"started,omitempty"`   // actions had begun
	Isolation string `json:"isolation,omitempty"` // the members of a sandbox.Error
	Step      string `json:"step,omitempty"`
	Errno     int    `json:"errno,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
}

// Machine is the worker's machine.
type Machine struct {
	OS            string `json:"os"`
	Arch          string `json:"arch"`
	GoVersion     string `json:"go_version"`
	KernelRelease string `json:"kernel_release"`
	LandlockABI   int    `json:"landlock_abi"`
}

// Step is what one action did: the errno of a file that was written, or the end of a command.
type Step struct {
	Errno int  `json:"errno"`
	End   *End `json:"end,omitempty"`
}

// End is the end of a command.
type End struct {
	Code          int    `json:"code"`
	Signal        int    `json:"signal"`
	TimedOut      bool   `json:"timed_out"`
	OutOfMemory   bool   `json:"out_of_memory"`
	NotFound      bool   `json:"not_found"`
	NotExecutable bool   `json:"not_executable"`
	MaxRSS        int64  `json:"max_rss_bytes"`
	DurationMS    int64  `json:"duration_ms"`
	Stdout        Stream `json:"stdout"`
	Stderr        Stream `json:"stderr"`
}

// Stream is what was kept of a stream. Its bytes are in data.tar.
type Stream struct {
	Kept   int64             `json:"kept"`
	Size   int64             `json:"size"` // of all that was written
	SHA256 canon.ContentHash `json:"sha256"`
}

// Change is a difference that the actions made to the work folder.
type Change struct {
	Path       string            `json:"path"` // base64, because names are bytes
	Kind       string            `json:"kind"` // of package change
	Size       int64             `json:"size"`
	SHA256     canon.ContentHash `json:"sha256,omitempty"` // of a file whose bytes are in data.tar
	Executable bool              `json:"executable"`
	Target     string            `json:"target,omitempty"` // base64
}

var (
	specPlan      canon.Plan[Spec]
	specDecoder   canon.Decoder[Spec]
	resultPlan    canon.Plan[Result]
	resultDecoder canon.Decoder[Result]
)

// Artifact returns the bytes of spec.json and their hash.
func (s *Spec) Artifact() ([]byte, canon.ContentHash, error) { return specPlan.Artifact(s) }

// Artifact returns the bytes of result.json and their hash.
func (r *Result) Artifact() ([]byte, canon.ContentHash, error) { return resultPlan.Artifact(r) }

// ReadSpec reads spec.json.
func ReadSpec(text []byte) (*Spec, error) {
	s, err := read(text, MaxSpec, &specDecoder)
	if err == nil && s.Version != Version {
		err = errVersion
	}
	return s, err
}

// ReadResult reads result.json, which may have no more than most values.
func ReadResult(text []byte, most int) (*Result, error) {
	if canon.Crowded(text, most) {
		return nil, errors.New("it says more than the task allows")
	}
	r, err := read(text, MaxResult, &resultDecoder)
	if err == nil && r.Version != Version {
		err = errVersion
	}
	return r, err
}

var errVersion = errors.New("another version than " + Version + ": use the shim of this fiador")

func read[T any](text []byte, most int, d *canon.Decoder[T]) (*T, error) {
	body, whole := cutLine(text)
	if !whole {
		return nil, errors.New("the line feed at the end is missing")
	}
	doc, err := canon.ParseCanonical(body, most)
	if err != nil {
		return nil, err
	}
	return d.Decode(doc.Value())
}

func cutLine(text []byte) ([]byte, bool) {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		return text[:n-1], true
	}
	return text, false
}

// Request returns what the spec demands of a sandbox. The caller adds its folders.
func (s *Spec) Request() (sandbox.Request, error) {
	r := sandbox.Request{
		Write: sandbox.Staged, Folders: s.Folders, Hide: s.Hide, Protect: s.Protect, Network: s.Network, Listed: s.Listed,
		Limits: sandbox.Limits(s.Limits), Least: sandbox.Isolation(s.Isolation.Least), Most: sandbox.Isolation(s.Isolation.Most),
	}
	if !s.ShowsAll {
		r.Show = append([]string{}, s.Show...)
	}
	for _, f := range s.Files {
		r.Files = append(r.Files, sandbox.File(f))
	}
	for _, a := range s.Actions {
		content, err := base64.StdEncoding.DecodeString(a.Content)
		if err != nil {
			return r, err
		}
		r.Actions = append(r.Actions, sandbox.Action{
			Argv: a.Argv, Env: a.Env, Dir: a.Cwd, Path: a.Path, Content: content, Executable: a.Executable,
			Hosts: contract.Hosts{Allow: convert(a.Allow, func(h Host) contract.Host { return contract.Host(h) }), Deny: convert(a.Deny, func(h Host) contract.Host { return contract.Host(h) })},
		})
	}
	return r, nil
}

// Fill sets the members of the spec that a request for a sandbox gives.
func (s *Spec) Fill(r sandbox.Request) {
	s.Isolation.Least, s.Isolation.Most = string(r.Least), string(r.Most)
	s.Show, s.ShowsAll = r.Show, r.Show == nil
	s.Folders, s.Hide, s.Protect, s.Network, s.Listed, s.Limits = r.Folders, r.Hide, r.Protect, r.Network, r.Listed, Limits(r.Limits)
	for _, f := range r.Files {
		s.Files = append(s.Files, Text(f))
	}
	for _, a := range r.Actions {
		s.Actions = append(s.Actions, Action{
			Argv: a.Argv, Env: a.Env, Cwd: a.Dir, Path: a.Path, Executable: a.Executable, Content: base64.StdEncoding.EncodeToString(a.Content),
			Allow: convert(a.Hosts.Allow, func(h contract.Host) Host { return Host(h) }), Deny: convert(a.Hosts.Deny, func(h contract.Host) Host { return Host(h) }),
		})
	}
}

func convert[A, B any](list []A, one func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, one(a))
	}
	return out
}
