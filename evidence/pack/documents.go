package pack

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/kernel/canon"
)

// Versions of the formats of a pack's files.
const (
	PatchVersion  = "1.0.0"
	RunnerVersion = "1.0.0"
)

// MaxResults is the maximum number of changed files in evidence and in a patch.
const MaxResults = 20_000

// MaxPatchBytes is the maximum size of all contents of a patch together, in the form of
// the file: 50 MiB (PS7).
const MaxPatchBytes = 52_428_800

// Status says how much of a plan was executed.
type Status string

// The statuses of evidence.
const (
	StatusComplete Status = "complete" // every action ran, and each exit code was 0
	StatusPartial  Status = "partial"  // some actions ran
	StatusFailed   Status = "failed"   // no action ran
)

// Op says what happened to a file.
type Op string

// The operations.
const (
	OpCreate Op = "create"
	OpModify Op = "modify"
	OpDelete Op = "delete"
)

// Evidence is evidence.json: the observations of an execution.
type Evidence struct {
	ProposalID    string            `json:"proposal_id"`
	ProposalHash  canon.ContentHash `json:"proposal_hash"`
	Status        Status            `json:"status"`
	ActionResults []ActionResult    `json:"action_results"` // by path
	TestResults   []TestResult      `json:"test_results"`   // by test_id

	Runs      []RunEvidence  `json:"runs"`      // by action
	Calls     []CallEvidence `json:"calls"`     // by action
	Unchanged []string       `json:"unchanged"` // outputs that are the same as before, by path

	StartedAt       string `json:"started_at"`
	CompletedAt     string `json:"completed_at"`
	TotalDurationMS int64  `json:"total_duration_ms"`
	ExecutorID      string `json:"executor_id"`
	WorkingDir      string `json:"working_dir"` // "."
}

// ActionResult says what happened to one file.
type ActionResult struct {
	Path     string            `json:"path"`
	Action   Op                `json:"action"`
	SHA256   canon.ContentHash `json:"sha256"`    // of the file; of no bytes if it was deleted
	ExitCode int               `json:"exit_code"` // of the execution
}

// TestResult is the end of one test.
type TestResult struct {
	TestID       string            `json:"test_id"`
	Passed       bool              `json:"passed"`
	ExitCode     int               `json:"exit_code"`
	StdoutSHA256 canon.ContentHash `json:"stdout_sha256"`
	StderrSHA256 canon.ContentHash `json:"stderr_sha256"`
}

// TestOf returns the result of the test of a work item, which was a command.
func TestOf(r RunEvidence) TestResult {
	return TestResult{TestID: "test", Passed: r.ExitCode == 0, ExitCode: r.ExitCode, StdoutSHA256: r.StdoutSHA256, StderrSHA256: r.StderrSHA256}
}

// RunEvidence is the end of one command.
type RunEvidence struct {
	Action       int               `json:"action"` // position in the intent, from 0
	Argv         []string          `json:"argv"`
	ExitCode     int               `json:"exit_code"`
	StdoutSHA256 canon.ContentHash `json:"stdout_sha256"`
	StderrSHA256 canon.ContentHash `json:"stderr_sha256"`
}

// CallEvidence is one answered call. PromptHash is that of the request to a model or a tool,
// and ResponseHash that of the answer in its file.
type CallEvidence struct {
	Action       int               `json:"action"` // position in the intent, from 0
	AdapterID    string            `json:"adapter_id"`
	PromptHash   canon.ContentHash `json:"prompt_hash"`
	ResponseHash canon.ContentHash `json:"response_hash"`
}

// Attempt is one attempt to perform a call of a tool.
type Attempt struct {
	Action     int    `json:"action"` // position in the intent, from 0
	AdapterID  string `json:"adapter_id"`
	Failure    string `json:"failure,omitempty"` // how it failed, as package adapter names it
	Code       int    `json:"code"`              // of its command as a result counts it, an HTTP status, or that of a JSON-RPC error; 0: none
	DurationMS int64  `json:"duration_ms"`

	// Cached is the call whose end and answer were given again: nothing was started. nil: the
	// attempt was made.
	Cached *CachedCall `json:"cached,omitempty"`
}

// CachedCall is a call of an earlier execution of the same process.
type CachedCall struct {
	RunID  string `json:"run_id"`
	Action int    `json:"action"`
}

// Hash returns the evidence hash: over the canonical JSON, without LF, of five members.
// Every reader of the format knows them, and they are the same in all runs of one plan.
func (e Evidence) Hash() (canon.ContentHash, error) {
	b, err := canon.Canonical(struct {
		ProposalID    string            `json:"proposal_id"`
		ProposalHash  canon.ContentHash `json:"proposal_hash"`
		Status        Status            `json:"status"`
		ActionResults []ActionResult    `json:"action_results"`
		TestResults   []TestResult      `json:"test_results"`
	}{e.ProposalID, e.ProposalHash, e.Status, e.ActionResults, e.TestResults})
	if err != nil {
		return "", err
	}
	return canon.Sum(b), nil
}

// Patch is patch.json: the changes of an execution, as files that can be applied
// elsewhere. A pack has a patch if and only if the execution was accepted and changed
// files. Then it has one operation for each action result.
type Patch struct {
	Version            string            `json:"patch_schema_version"`
	SourceProposalID   string            `json:"source_proposal_id"`
	SourceProposalHash canon.ContentHash `json:"source_proposal_hash"`
	Operations         []Operation       `json:"operations"`  // by order, then path
	TotalBytes         int64             `json:"total_bytes"` // of the contents in the form of the file
}

// Operation is one file of a patch.
type Operation struct {
	Op           Op                `json:"op"`
	Path         string            `json:"path"`
	Content      *string           `json:"content,omitempty"`  // nil for a delete
	Encoding     string            `json:"encoding,omitempty"` // utf8 or base64; empty for a delete
	Executable   bool              `json:"executable"`
	Order        int               `json:"order"`
	SizeBytes    int64             `json:"size_bytes"`              // of the file; 0 for a delete
	BeforeSHA256 canon.ContentHash `json:"before_sha256,omitempty"` // of the file that the execution saw at the path

	// BeforeTreeSHA256 is the TreeHash of the folder that the execution saw at the path,
	// and deleted with all its content. It is empty if the folder had entries other than
	// files and folders.
	BeforeTreeSHA256 canon.ContentHash `json:"before_tree_sha256,omitempty"`
}

// Bytes returns the content of the file of an operation.
func (o Operation) Bytes() ([]byte, error) {
	if o.Content == nil {
		return nil, nil
	}
	switch o.Encoding {
	case "utf8":
		return []byte(*o.Content), nil
	case "base64":
		return base64.StdEncoding.Strict().DecodeString(*o.Content)
	}
	return nil, errors.New("the encoding is neither utf8 nor base64")
}

// File returns the operation that writes a file. Text that canonical JSON can hold is
// stored unchanged, unless its escapes are longer than base64.
func File(op Op, path string, content []byte, executable bool) Operation {
	o := Operation{Op: op, Path: path, Executable: executable, SizeBytes: int64(len(content)), Encoding: "utf8"}
	text := string(content)
	if !PlainText(text) {
		o.Encoding, text = "base64", base64.StdEncoding.EncodeToString(content)
	}
	o.Content = &text
	return o
}

// PlainText says whether an operation holds a text as it is, not in base64.
func PlainText(text string) bool {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return false
	}
	escaped := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= ' ' && c != '"' && c != '\\' && c < 0xef:
		case c >= 0xef: // noncharacters begin here
			if r, _ := utf8.DecodeRuneInString(text[i:]); r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef {
				return false
			}
		case c >= ' ' || c == '\n' || c == '\t' || c == '\r':
			escaped++
		default:
			escaped += 5
		}
	}
	return escaped <= len(text)/3+16
}

// Runner is runner.json: the machine, and the limits that the sandbox enforced. A
// RunResult contains none of these values.
type Runner struct {
	Version       string         `json:"runner_schema_version"`
	RunnerID      string         `json:"runner_id"` // runner_<8 digits>_<6 digits>_<a-z0-9>
	RunnerVersion string         `json:"runner_version"`
	Platform      Platform       `json:"platform"`
	Sandbox       RunnerSandbox  `json:"sandbox"`
	Limits        RunnerLimits   `json:"limits"`
	Commands      RunnerCommands `json:"commands"`
	WriteRoots    []string       `json:"write_roots"` // sorted
	Context       RunnerContext  `json:"context"`
	Timing        Timing         `json:"timing"`
	Exit          RunnerExit     `json:"exit"`
	Warnings      []string       `json:"warnings,omitempty"` // sorted

	// The members below are extensions of this program.
	Reasons         []string          `json:"reasons"`     // why it was rejected, as decision.reasons says it
	PlanSHA256      canon.ContentHash `json:"plan_sha256"` // of the steps that made the sandbox
	PeakMemoryBytes int64             `json:"peak_memory_bytes"`
	Attempts        []Attempt         `json:"attempts,omitempty"` // of calls of tools, in order
	Stdout          RunnerStream      `json:"stdout"`             // of the command whose result counts
	Stderr          RunnerStream      `json:"stderr"`

	Connections []evidence.Connection `json:"connections,omitempty"` // that commands asked for, in order
}

// Platform is the system that a run was executed on.
type Platform struct {
	OS            string `json:"os"`           // linux, darwin or win32
	Arch          string `json:"arch"`         // x64, arm64 or ia32
	NodeVersion   string `json:"node_version"` // v0.0.0: this program does not use Node.js
	NpmVersion    string `json:"npm_version"`  // 0.0.0
	GoVersion     string `json:"go_version"`
	KernelRelease string `json:"kernel_release"`
	LandlockABI   int    `json:"landlock_abi"` // 0: none
}

// RunnerSandbox says how strongly an execution was isolated.
type RunnerSandbox struct {
	Backend            string  `json:"backend"`         // container (namespaces), process, or none
	IsolationLevel     string  `json:"isolation_level"` // strict (full), standard (confined), or none
	NetworkBlocked     bool    `json:"network_blocked"`
	FilesystemReadonly bool    `json:"filesystem_readonly"`
	Layers             []Layer `json:"layers"`
}

// RunnerIDLayout is the layout of the time at the beginning of a runner_id.
const RunnerIDLayout = "runner_20060102_150405_"

// Layer is one clause of the sandbox and its result.
type Layer = evidence.Clause

// RunnerLimits are the limits of the execution.
type RunnerLimits struct {
	TimeoutMS           int   `json:"timeout_ms"`
	MaxOutputFiles      int   `json:"max_output_files"`
	MaxTotalOutputBytes int   `json:"max_total_output_bytes"`
	MaxMemoryBytes      int64 `json:"max_memory_bytes,omitempty"`
}

// RunnerCommands are the commands in the policy.
type RunnerCommands struct {
	Allowlist []string `json:"allowlist"` // sorted; empty: all
	Blocklist []string `json:"blocklist"` // sorted
	Shell     string   `json:"shell"`     // none
}

// RunnerContext is the environment of the commands.
type RunnerContext struct {
	WorkingDir   string   `json:"working_dir"`   // "."
	EnvAllowlist []string `json:"env_allowlist"` // sorted; empty: none, or all if the profile says so
	Locale       string   `json:"locale"`
	Timezone     string   `json:"timezone"`
}

// Timing holds the times of an execution.
type Timing struct {
	StartedAt   string  `json:"started_at"`
	CompletedAt string  `json:"completed_at"`
	DurationMS  int64   `json:"duration_ms"`
	Phases      []Phase `json:"phases"`
}

// Phase is a part of an execution.
type Phase struct {
	Name       string `json:"name"`
	DurationMS int64  `json:"duration_ms"`
}

// RunnerExit is how an execution ended.
type RunnerExit struct {
	Code          int    `json:"code"`
	Signal        string `json:"signal,omitempty"` // as in SIGKILL
	OOMKilled     bool   `json:"oom_killed"`
	TimeoutKilled bool   `json:"timeout_killed"`
}

// RunnerStream is one stream of a command.
type RunnerStream struct {
	SHA256    canon.ContentHash `json:"sha256"` // of the bytes kept
	KeptBytes int               `json:"kept_bytes"`
	SizeBytes int64             `json:"size_bytes"` // all bytes that the command wrote
	Truncated bool              `json:"truncated"`
}

// read decodes a file of a verified pack: canonical JSON and one LF.
func read[T any](p *Pack, name string) (*T, error) {
	text := p.File(name)
	if text == nil {
		return nil, nil
	}
	v := new(T)
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(v); err != nil {
		return nil, &ReadError{File: name, Err: err}
	}
	return v, nil
}

// ReadError says that a file of a pack is wrong.
type ReadError struct {
	File string
	Err  error
}

// Error returns the message.
func (e *ReadError) Error() string { return e.File + " cannot be read: " + e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ReadError) Unwrap() error { return e.Err }

// Evidence returns evidence.json of a verified pack, or nil if it has none.
func (p *Pack) Evidence() (*Evidence, error) { return read[Evidence](p, EvidenceFile) }

// Patch returns patch.json of a verified pack, or nil if it has none.
func (p *Pack) Patch() (*Patch, error) { return read[Patch](p, PatchFile) }

// Runner returns runner.json of a verified pack, or nil if it has none.
func (p *Pack) Runner() (*Runner, error) { return read[Runner](p, RunnerFile) }
