// Package request owns execution requests: it reads one from JSON or strict YAML, makes it
// an intent, and writes the report that answers it. It executes nothing.
package request

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// MaxBytes is the size limit of an execution request in bytes: for the file, and
// for its canonical JSON.
const MaxBytes = 1 << 20

// Values of a stream in a request.
const (
	Captured = "captured" // any output is recorded
	Expected = "expected" // there must be output
)

// Request is one command to execute in the sandbox (code execution contract,
// "Execution Contract Schema"). Every limit is set and within its bounds, and every list
// except Write is set.
type Request struct {
	ExecutionID string   `json:"execution_id"`
	ToolID      string   `json:"tool_id"`
	AdapterID   string   `json:"adapter_id,omitempty"` // empty if no adapter is named
	Inputs      Inputs   `json:"inputs"`
	Sandbox     Sandbox  `json:"sandbox"`
	Outputs     Outputs  `json:"outputs"`
	Metadata    Metadata `json:"metadata"`
}

// Inputs are the command and its inputs. Only Stdin may contain NUL. Paths are clean
// and relative to the work folder.
type Inputs struct {
	Command          string            `json:"command"`
	Arguments        []string          `json:"arguments"`
	Environment      map[string]string `json:"environment"`
	WorkingDirectory string            `json:"working_directory"` // "." is the work folder itself
	InputFiles       []string          `json:"input_files"`
	Stdin            *string           `json:"stdin,omitempty"` // nil: no input
}

// Argv returns the command and its arguments.
func (in Inputs) Argv() []string { return append([]string{in.Command}, in.Arguments...) }

// Sandbox holds the limits that a request asks for. They may only narrow a profile's
// limits.
type Sandbox struct {
	TimeoutMS  int        `json:"timeout_ms"`
	MemoryMB   int        `json:"memory_mb"`
	CPUCores   int        `json:"cpu_cores"`
	Filesystem Filesystem `json:"filesystem"`
	Network    Network    `json:"network"`
	Processes  Processes  `json:"processes"`
}

// Filesystem holds the paths that a command may read and write. They are clean and
// relative; paths to read may also be absolute.
type Filesystem struct {
	Read  []string `json:"read,omitzero"`  // nil: all of the work folder, and nothing outside it
	Write []string `json:"write,omitzero"` // nil: as the profile says; empty: none
	Deny  []string `json:"deny"`
}

// Network is access to the profile's network, which the lists of hosts narrow.
type Network struct {
	Enabled bool     `json:"enabled"`
	Allow   []string `json:"allow"` // contract.ParseHost; empty: the profile's; empty if there is no network
	Deny    []string `json:"deny"`  // likewise; taken away from them
}

// Processes says what a command may start.
type Processes struct {
	MaxChildren int  `json:"max_children"`
	AllowFork   bool `json:"allow_fork"`
}

// Outputs holds the expectations of a request about the outputs.
type Outputs struct {
	Stdout      string         `json:"stdout"`                // StreamCaptured or StreamExpected
	Stderr      string         `json:"stderr"`                // likewise
	ExitCode    *int           `json:"exit_code,omitempty"`   // nil: no expectation
	OutputFiles []string       `json:"output_files,omitzero"` // clean and relative, never the work folder itself
	Artifacts   []ArtifactSpec `json:"artifacts"`
}

// ArtifactSpec is a file that a request wants back in its report. Name and MediaType
// come from the requester; both may be empty.
type ArtifactSpec struct {
	Path      string `json:"path"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
}

// Metadata says who asks and why. Members without a value are empty.
type Metadata struct {
	RequestedBy string `json:"requested_by,omitempty"`
	RequestedAt string `json:"requested_at,omitempty"` // a date, or a date and time with offset, as given
	Purpose     string `json:"purpose,omitempty"`
	EvidenceRef string `json:"evidence_ref,omitempty"`
}

// Parse reads an execution request. If the first byte that is no white space
// is "{", the text is read as JSON (canon.Parse), otherwise as strict YAML (document.Read).
// Schema and checks get the same values in both cases. name is the name of the file in
// messages.
//
// The error is always a *result.RunError: RUN_E001 for a request that is too large,
// RUN_E002 for one that is neither strict JSON nor strict YAML, RUN_E003 for one that
// breaks its schema or asks for something impossible. Its details have the file, the
// line, and the pointer of the wrong value; "" is the whole request. RUN_E002 has no
// pointer if the structure is not known.
func Parse(set *specs.Set, name string, src []byte) (Request, error) {
	text, err := document.Read(set, name, src, form)
	if err != nil {
		return Request{}, err
	}
	req, err := requestOf(text.Doc.Value())
	if err != nil {
		return Request{}, runerr.Internal("the request fits its schema and is no request", err)
	}
	for _, f := range []*requestFault{req.textFault(), req.pathFault(), req.networkFault(), req.dateFault()} {
		if f != nil {
			e := text.Invalid(f.pointer, f.msg, f.hint)
			e.RuleID = f.rule
			return Request{}, e
		}
	}
	return req, nil
}

// form is what a document has to be to be a request.
var form = document.Form{
	Name: "a request", Schema: specs.KindExecutionRequest, MaxBytes: MaxBytes, Invalid: result.CodeNotIntent,
	TooLarge: "keep large contents out of the request: name them in inputs.input_files", SizeRule: contract.IV05,
}

var requestDecoder canon.Decoder[Request]

// requestOf reads a document that fits the schema, and sets the defaults of the
// contract.
func requestOf(doc any) (Request, error) {
	req := Request{
		Inputs: Inputs{Arguments: []string{}, Environment: map[string]string{}, WorkingDirectory: ".", InputFiles: []string{}},
		Sandbox: Sandbox{
			TimeoutMS:  contract.TimeoutMS().Default,
			MemoryMB:   contract.MemoryMB().Default,
			CPUCores:   contract.CPUCores().Default,
			Filesystem: Filesystem{Deny: []string{}},
			Network:    Network{Allow: []string{}, Deny: []string{}},
			Processes:  Processes{MaxChildren: contract.MaxChildren().Default, AllowFork: true},
		},
		Outputs: Outputs{Stdout: Captured, Stderr: Captured, OutputFiles: []string{}, Artifacts: []ArtifactSpec{}},
	}
	err := requestDecoder.Into(&req, doc)
	return req, err
}

// requestFault is a fault of a value that no schema describes: its place, its text and a
// hint. rule is the input check of the contract that finds it, if there is one.
type requestFault struct{ pointer, msg, hint, rule string }

func faultOf(v *contract.Violation) *requestFault {
	return &requestFault{v.Pointer, v.Msg, v.Hint, v.ID}
}

// textFault finds text that no argument (IV-02) and no variable (IV-04) of a process can
// hold.
func (r Request) textFault() *requestFault {
	if v := contract.CheckArgument("/inputs/command", r.Inputs.Command, contract.Argv); v != nil {
		return faultOf(v)
	}
	list := append(contract.CheckArguments("/inputs/arguments", r.Inputs.Arguments, contract.Argv), contract.CheckVariables("/inputs/environment", r.Inputs.Environment)...)
	if len(list) > 0 {
		return faultOf(&list[0])
	}
	return nil
}

// pathFault returns the first path that breaks the rule of its place (IV-03).
func (r Request) pathFault() *requestFault {
	var artifacts []string
	for _, a := range r.Outputs.Artifacts {
		artifacts = append(artifacts, a.Path)
	}
	for _, place := range []struct {
		pointer string
		paths   []string
		rule    pathRule
	}{
		{"/inputs/working_directory", []string{r.Inputs.WorkingDirectory}, pathRule{folder: true, single: true}},
		{"/inputs/input_files", r.Inputs.InputFiles, pathRule{}},
		{"/sandbox/filesystem/read", r.Sandbox.Filesystem.Read, pathRule{folder: true, absolute: true}},
		{"/sandbox/filesystem/write", r.Sandbox.Filesystem.Write, pathRule{folder: true}},
		{"/sandbox/filesystem/deny", r.Sandbox.Filesystem.Deny, pathRule{folder: true}},
		{"/outputs/output_files", r.Outputs.OutputFiles, pathRule{}},
		{"/outputs/artifacts", artifacts, pathRule{member: "/path"}},
	} {
		for i, p := range place.paths {
			at := place.pointer
			if !place.rule.single {
				at += "/" + strconv.Itoa(i) + place.rule.member
			}
			if v := place.rule.check(at, p); v != nil {
				return faultOf(v)
			}
		}
	}
	return nil
}

// pathRule says which paths are allowed besides a clean relative path of a file.
type pathRule struct {
	folder   bool // "." is allowed, the work folder itself
	absolute bool
	single   bool   // the path is a single value, not an element of a list
	member   string // member of the list's elements that holds the path, with a slash; or empty
}

// check applies IV-03 to a path: it must be clean, and without invisible characters.
func (rule pathRule) check(at, p string) *contract.Violation {
	refuse := func(msg, hint string) *contract.Violation {
		return &contract.Violation{ID: contract.IV03, Pointer: at, Msg: "path " + canon.Quote(p) + " " + msg, Hint: hint}
	}
	if strings.ContainsFunc(p, func(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf) }) {
		return refuse("holds a character that does not show", "name the path without it")
	}
	below, root := p, ""
	if rule.absolute && strings.HasPrefix(p, "/") {
		below, root = p[1:], "/"
	}
	if strings.Trim(below, "/") == "" && root != "" {
		return refuse("is the root of the whole file system", "name the folders that have to be read")
	}
	clean, v := contract.CheckPath(at, below)
	switch {
	case v != nil:
		return v
	case clean == "." && !rule.folder:
		return refuse("is the work folder itself, not a file", "name a file in it")
	case root+clean != p:
		return refuse("is not in its clean form", "write it as "+strconv.Quote(root+clean))
	}
	return nil
}

// networkFault finds an entry of a list of hosts that cannot be read, and hosts to allow
// without a network.
func (r Request) networkFault() *requestFault {
	network := r.Sandbox.Network
	for i, list := range [][]string{network.Allow, network.Deny} {
		if _, at, wrong := contract.ParseHosts(list); wrong != "" {
			return &requestFault{"/sandbox/network/" + []string{"allow", "deny"}[i] + "/" + strconv.Itoa(at), wrong, "write a host as host, host:port, *.host or private:host:port", ""}
		}
	}
	if len(network.Allow) > 0 && !network.Enabled {
		return &requestFault{"/sandbox/network/allow", "hosts are allowed, and the network is not enabled",
			"set enabled to true, or leave the list empty", ""}
	}
	return nil
}

// dateFault finds a date in the right form that no calendar has.
func (r Request) dateFault() *requestFault {
	at := r.Metadata.RequestedAt
	if at == "" {
		return nil
	}
	_, asDate := time.Parse(time.DateOnly, at)
	_, asTime := time.Parse(time.RFC3339Nano, at)
	if asDate == nil || asTime == nil {
		return nil
	}
	return &requestFault{"/metadata/requested_at", strconv.Quote(at) + " is no date that there is", "write it as in 2026-01-16T09:30:00Z", ""}
}

// Artifact returns the normalised request as canonical JSON and one LF, and the hash of
// these bytes. Every default is written out, and members without a value are left out.
// So two spellings of one request, in JSON or YAML, have one hash. The bytes are again a
// request, and the same one.
func (r Request) Artifact() ([]byte, canon.ContentHash, error) {
	return canon.Artifact(r)
}

// Shown returns the paths of the work folder that a request wants to see; nil means all.
func (r Request) Shown() []string {
	if r.Sandbox.Filesystem.Read == nil {
		return nil
	}
	beneath := slices.DeleteFunc(slices.Clone(r.Sandbox.Filesystem.Read), func(p string) bool { return p[0] == '/' })
	return append(beneath, r.Inputs.InputFiles...)
}
