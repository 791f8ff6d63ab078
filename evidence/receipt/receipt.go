package receipt

import (
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/work"
)

// Version is the receipt_version of receipts.
const Version = "1.0.0"

// Status says how the run of an item ended.
type Status string

// The statuses.
const (
	Success Status = "success"
	Failure Status = "failure" // the agent, the test, an input, an output or the trace
	Denied  Status = "denied"  // by the policy or by admission
	Timeout Status = "timeout" // the agent took too long
)

// StatusOf returns the status that an outcome and the reasons of a decision give.
func StatusOf(outcome kernel.Outcome, reasons []string) Status {
	list := reason.Read(reasons)
	switch {
	case outcome != kernel.OutcomeBundle:
		return Denied
	case len(reasons) == 0:
		return Success
	case list.End.ID == reason.Timeout:
		return Timeout
	case list.End.ID == "" && slices.ContainsFunc(reasons, denies):
		return Denied
	}
	return Failure
}

// denies says whether a reason is one of those for which a change is not admitted.
func denies(text string) bool {
	return slices.Contains([]string{
		reason.MaxFiles, reason.MaxToolOps, reason.MaxDelta, reason.Duplicate, reason.NotAllowed, reason.Protected,
		reason.OutputKind, reason.OutputName, reason.OutputLimit, reason.WriteOutsideRoot,
	}, reason.ID(text))
}

// Receipt is RECEIPT.json.
type Receipt struct {
	Core        Core      `json:"core"`
	CoreHash    string    `json:"core_hash"` // of canonical core and one LF
	Ephemeral   Ephemeral `json:"ephemeral"`
	Previous    string    `json:"previous,omitempty"` // receipt_hash of the receipt before it in the store
	ReceiptHash string    `json:"receipt_hash"`       // of canonical {core_hash, ephemeral, previous} and one LF
	ReceiptID   string    `json:"receipt_id"`         // a UUID of version 8, of the first 16 bytes of receipt_hash
}

// Core is what is equal on every machine.
type Core struct {
	ReceiptVersion string            `json:"receipt_version"`
	ItemHash       string            `json:"item_hash"` // of item.json
	AgentID        string            `json:"agent_id"`
	Base           string            `json:"base"`   // the state on which the agent ran
	Before         string            `json:"before"` // the state to which the change was applied
	After          string            `json:"after"`  // without success it is before
	Status         Status            `json:"status"`
	Reasons        []string          `json:"reasons"`
	Artifacts      []Artifact        `json:"artifacts"` // by path; empty without success
	Delta          work.Delta        `json:"delta"`     // as tried
	Trace          Trace             `json:"trace"`
	Tests          *Tests            `json:"tests,omitempty"` // nil: no test ran
	Scratch        []string          `json:"scratch"`
	Policy         string            `json:"policy"`
	PolicySHA256   canon.ContentHash `json:"policy_sha256"`
	IntentSHA256   canon.ContentHash `json:"intent_sha256"`
	BundleSHA256   canon.ContentHash `json:"bundle_sha256,omitempty"` // empty: a REFUSE has no bundle
}

// Trace says what is known about the tools that were used.
type Trace struct {
	Coverage string `json:"coverage"` // one of the coverages
	Ops      int    `json:"ops"`
}

// The coverages of a trace.
const (
	Complete = "complete" // the actions of the item, each performed by this program
	Reported = "reported" // lines that the agent wrote
	None     = "none"
)

// Tests is the end of the test. Counts are there if its output has them.
type Tests struct {
	Argv     []string `json:"argv"`
	ExitCode int      `json:"exit_code"`
	Passed   *int     `json:"passed,omitempty"`
	Failed   *int     `json:"failed,omitempty"`
}

// Ephemeral is what differs from run to run.
type Ephemeral struct {
	RunID       string            `json:"run_id"`
	StartedAt   string            `json:"started_at"`
	CompletedAt string            `json:"completed_at"`
	Metrics     Metrics           `json:"metrics"`
	Workspace   string            `json:"workspace"`           // how written files were kept apart; empty: nothing ran
	Isolation   kernel.Isolation  `json:"isolation,omitempty"` // empty: nothing ran
	Streams     map[string]string `json:"streams"`             // hash of each file of streams that is kept
	Pack        map[string]string `json:"pack"`                // hash of each file of the pack
	Head        string            `json:"head,omitempty"`      // the commit of .git/HEAD
}

// Metrics are the measures of the contract.
type Metrics struct {
	ExecutionTimeMS int64 `json:"execution_time_ms"`
	ToolOpsCount    int   `json:"tool_ops_count"`
	DeltaSize       int   `json:"delta_size"`
	FilesTouched    int   `json:"files_touched"`
	TestsPassed     *int  `json:"tests_passed,omitempty"`
	TestsFailed     *int  `json:"tests_failed,omitempty"`
}

// Result is the answer about one item: the members of the contract, and id, run_id,
// before_hash and replayed.
type Result struct {
	ID             string            `json:"id"`
	RunID          string            `json:"run_id"`
	Status         Status            `json:"status"`
	ReceiptID      string            `json:"receipt_id"`
	ReceiptPath    string            `json:"receipt_path"`   // beneath the store
	ModifiedFiles  []string          `json:"modified_files"` // beneath the folder
	CreatedFiles   []string          `json:"created_files"`
	DeletedFiles   []string          `json:"deleted_files"`
	BeforeHash     string            `json:"before_hash"`
	OutputHash     string            `json:"output_hash"`
	ArtifactHashes map[string]string `json:"artifact_hashes"` // of files that are there, by path
	Metrics        Metrics           `json:"metrics"`
	TestOutput     string            `json:"test_output,omitempty"`
	ProofScript    string            `json:"proof_script,omitempty"` // beneath the store
	Error          string            `json:"error,omitempty"`
	DenialReason   string            `json:"denial_reason,omitempty"`
	Replayed       bool              `json:"replayed"`
}

var (
	receiptPlan canon.Plan[Receipt]
	corePlan    canon.Plan[Core]
	linkPlan    canon.Plan[link]
	resultPlan  canon.Plan[Result]
)

// link is what receipt_hash covers.
type link struct {
	CoreHash  string    `json:"core_hash"`
	Ephemeral Ephemeral `json:"ephemeral"`
	Previous  string    `json:"previous,omitempty"`
}

// Bytes returns the result as it is printed: canonical JSON and one LF.
func (r Result) Bytes() ([]byte, error) {
	b, _, err := resultPlan.Artifact(&r)
	return b, err
}

// New returns the receipt of a run. previous is the receipt_hash of the receipt before it.
func New(core Core, eph Ephemeral, previous string) (Receipt, error) {
	r := Receipt{Core: core, Ephemeral: eph, Previous: previous}
	text, _, err := corePlan.Artifact(&core)
	if err != nil {
		return r, err
	}
	r.CoreHash = Sum(text).String()
	if text, _, err = linkPlan.Artifact(&link{r.CoreHash, eph, previous}); err != nil {
		return r, err
	}
	h := Sum(text)
	r.ReceiptHash, r.ReceiptID = h.String(), ID(h)
	return r, nil
}

// Bytes returns RECEIPT.json.
func (r Receipt) Bytes() ([]byte, error) {
	b, _, err := receiptPlan.Artifact(&r)
	return b, err
}

// ID returns the id of the receipt with a receipt_hash: the UUID of version 8 (RFC 9562, section
// 5.8) of its first 16 bytes.
func ID(h Hash) string {
	b := h[:16:16]
	b = append([]byte{}, b...)
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	d := hex.EncodeToString(b)
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

// Files sorts the paths of artifacts as a result lists them.
func (r *Result) Files(list []Artifact) {
	r.ModifiedFiles, r.CreatedFiles, r.DeletedFiles, r.ArtifactHashes = []string{}, []string{}, []string{}, map[string]string{}
	to := map[Op]*[]string{Create: &r.CreatedFiles, Modify: &r.ModifiedFiles, Delete: &r.DeletedFiles}
	for _, a := range list {
		*to[a.Op] = append(*to[a.Op], a.Path)
		if a.After != "" {
			r.ArtifactHashes[a.Path] = a.After
		}
	}
}

// ReceiptsFolder is the folder of a store that has the folders of receipts.
const ReceiptsFolder = "receipts"

// ResultOf returns what a receipt says of a result.
func ResultOf(rc Receipt) Result {
	core := rc.Core
	r := Result{
		RunID: rc.Ephemeral.RunID, Status: core.Status, ReceiptID: rc.ReceiptID, ReceiptPath: path.Join(ReceiptsFolder, rc.ReceiptID, ReceiptFile),
		BeforeHash: core.Before, OutputHash: core.After, Metrics: rc.Ephemeral.Metrics,
	}
	r.Files(core.Artifacts)
	for name := range Scripts(rc) {
		r.ProofScript = path.Join(ReceiptsFolder, rc.ReceiptID, name)
	}
	switch {
	case core.Status == Success || len(core.Reasons) == 0:
	case core.Status == Denied:
		r.DenialReason = core.Reasons[max(0, slices.IndexFunc(core.Reasons, denies))]
	case reason.ID(core.Reasons[0]) == reason.Test:
		r.Error = "Tests failed"
	default:
		r.Error = core.Reasons[0]
		if title := reason.Title(reason.ID(r.Error)); title != "" {
			r.Error = title + ": " + r.Error
		}
	}
	return r
}

// MaxOutput is the number of bytes of test_output.
const MaxOutput = 16 << 10

// The files of a receipt's folder.
const (
	ReceiptFile = "RECEIPT.json"
	ItemFile    = "item.json"
	PackFolder  = "pack"
	NodesFolder = "nodes" // nodes of before on the way to the artifacts, by hash
	ReplayFile  = "replay.sh"

	// Streams: of the last command before the test, of the test, and the trace.
	Stdout     = "stdout"
	Stderr     = "stderr"
	TestStdout = "test.stdout"
	TestStderr = "test.stderr"
	TraceFile  = "trace.jsonl"
)

// Scripts returns the scripts of a receipt, by name. Only a success has one.
func Scripts(r Receipt) map[string]string {
	if r.Core.Status != Success {
		return map[string]string{}
	}
	return map[string]string{ReplayFile: strings.ReplaceAll(replayScript, "HASH", r.Core.After)}
}

const replayScript = `#!/bin/sh
# Runs the work item of this receipt again, in a folder of its own, and prints the hash of the
# state that its change leads to. Arguments go to fiador work replay: --tree names a folder
# with the state that the item began with, --policy the profile.
set -eu
code=0
found=$("${FIADOR:-fiador}" work replay "$(dirname -- "$0")" "$@") || code=$?
if [ "$found" != "MATCH HASH" ]; then
  echo "$found" >&2
  exit "$((code ? code : 1))"
fi
echo "HASH"
`
