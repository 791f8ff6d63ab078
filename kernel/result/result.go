// Package result holds the RunResult: its members, its canonical subset, the invariants
// RS1..RS8 as functions over a document, and the errors that replace it when no
// decision was made.
//
// A RunResult is one canonical JSON object (RFC 8785) and one LF. Its canonical subset
// is the object without run_id, started_at, completed_at, sandbox_path, model_io_path
// and intent.path. The same intent, profile and mode give the same subset, byte for
// byte, on every machine (run-result.md, 4.3 and 4.5).
package result

import (
	"maps"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// RunIDLayout is the layout of the time at the start of a run_id.
const RunIDLayout = "run_20060102T150405Z_"

// MaxBytes is the greatest size of a RunResult file that is read: 64 MiB.
const MaxBytes = 64 << 20

// RunResult is the document that a run prints.
type RunResult struct {
	RunSchemaVersion string                `json:"run_schema_version"`
	RunID            string                `json:"run_id"`
	StartedAt        string                `json:"started_at"`
	CompletedAt      string                `json:"completed_at"`
	KernelVersion    string                `json:"kernel_version"`
	Policy           kernel.PolicyProfile  `json:"policy"`
	PolicyProvenance Provenance            `json:"policy_provenance"`
	ExecutionMode    string                `json:"execution_mode"`
	ModelMode        string                `json:"model_mode"`
	Intent           IntentRef             `json:"intent"`
	Bundle           *BundleRef            `json:"bundle"`
	KernelResultKind kernel.Outcome        `json:"kernel_result_kind"`
	Execution        *kernel.Execution     `json:"execution"`
	Decision         kernel.DecisionRecord `json:"decision"`
	ClarifyQuestions []string              `json:"clarify_questions,omitempty"`
	RefuseReason     string                `json:"refuse_reason,omitempty"`
}

// IntentRef names the intent file by a relative path or a base name. The hash covers
// the bytes of the file as they were read.
type IntentRef struct {
	Path   string            `json:"path"`
	SHA256 canon.ContentHash `json:"sha256"`
}

// BundleRef names a bundle. SHA256 covers the bundle's canonical JSON and one LF.
type BundleRef struct {
	BundleID string            `json:"bundle_id"`
	SHA256   canon.ContentHash `json:"sha256"`
}

// Provenance names by content the policy that decided: digests and effective limits. It
// says nothing about the machine.
type Provenance struct {
	ProfileSHA256      canon.ContentHash `json:"profile_sha256"`
	CapabilitiesSHA256 canon.ContentHash `json:"capabilities_sha256"`
	Modules            []ModuleDigest    `json:"modules"` // sorted by name
	Limits             Limits            `json:"limits"`
	ToolsSHA256        canon.ContentHash `json:"tools_sha256,omitempty"` // of the index of tools; empty without a registry
}

// ModuleDigest names one policy module and the hash of its bytes.
type ModuleDigest struct {
	Name   string            `json:"name"`
	SHA256 canon.ContentHash `json:"sha256"`
}

// Limits are the limits of an execution under the profile.
type Limits struct {
	CPUCores            int              `json:"cpu_cores"`
	Isolation           kernel.Isolation `json:"isolation"` // the weakest isolation that it may have
	MaxChildren         int              `json:"max_children"`
	MaxOutputFiles      int              `json:"max_output_files"`
	MaxTotalOutputBytes int              `json:"max_total_output_bytes"`
	MemoryMB            int              `json:"memory_mb"`
	TimeoutMS           int              `json:"timeout_ms"`
}

var resultPlan canon.Plan[RunResult]

// Bytes returns the document as it is printed: canonical JSON and one LF.
func (r RunResult) Bytes() ([]byte, error) {
	b, _, err := resultPlan.Artifact(&r)
	return b, err
}

// ExitCode is 0 for an accepted result and 1 for a rejected one (run-result.md, 5.4).
func (r RunResult) ExitCode() int {
	if r.Decision.Accepted {
		return 0
	}
	return 1
}

// Subset returns the canonical subset of a RunResult document. doc is a decoded
// canonical value, and Subset does not change it.
func Subset(doc map[string]any) map[string]any {
	out := make(map[string]any, len(doc))
	maps.Copy(out, doc)
	for _, name := range []string{"run_id", "started_at", "completed_at", "sandbox_path", "model_io_path"} {
		delete(out, name)
	}
	if intent, ok := out["intent"].(map[string]any); ok {
		intent = maps.Clone(intent)
		delete(intent, "path")
		out["intent"] = intent
	}
	return out
}

// Digest returns the hash of the canonical subset and one LF.
func Digest(doc map[string]any) (canon.ContentHash, error) {
	_, hash, err := canon.Artifact(Subset(doc))
	return hash, err
}
