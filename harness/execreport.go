package harness

import (
	"maps"
	"slices"
	"time"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// ExecReportVersion is the version of the execution report's format.
const ExecReportVersion = "1.1.0"

// ExecReport is the answer to an execution request
// (specs/execution-report.schema.json).
type ExecReport struct {
	ExecutionID    string
	ToolID         string
	AdapterID      string // empty where the request names none
	ExitCode       int    // 0..255
	Interpretation string // what the exit code means, in a word
	Action         string // what to do about it
	Stdout, Stderr ExecStream
	OutputFiles    []kernel.FileRef // in any order
	Reasons        []string         // in any order
	Metadata       ExecMetadata     // of the request
	Artifacts      []Artifact       // in the order of the request
	Ephemeral      ExecEphemeral
}

// ExecStream is one stream of a command, as far as it was kept.
type ExecStream struct {
	SHA256    canon.ContentHash // of the bytes kept
	SizeBytes int               // how many were kept
	Truncated bool              // the command wrote more
}

// ExecEphemeral is what differs between two executions of one request: it is in
// the report, and in neither its canonical subset nor its digest.
type ExecEphemeral struct {
	StartedAt       time.Time
	CompletedAt     time.Time
	Duration        time.Duration
	PeakMemoryBytes int64 // 0 where nothing measured it
	Clauses         []ExecClause
}

// ExecClause says what became of one clause of the sandbox.
type ExecClause struct {
	Clause    string
	Mechanism string // empty where nothing enforces it
	Status    string // enforced, partial or absent
}

// Bytes is the report as it is printed: canonical JSON and one LF. Files, reasons
// and clauses are sorted by UTF-16 code unit, and a reason stands once.
func (r ExecReport) Bytes() ([]byte, error) {
	doc := r.Subset()
	doc["ephemeral"] = r.Ephemeral.plain()
	b, _, err := canon.Artifact(doc)
	return b, err
}

// Subset is the canonical subset: every member but ephemeral. Nothing in it tells
// one machine, or one execution of the same request, from another.
func (r ExecReport) Subset() map[string]any {
	files := make([]any, len(r.OutputFiles))
	for i, f := range slices.SortedFunc(slices.Values(r.OutputFiles), func(a, b kernel.FileRef) int { return canon.Compare(a.Path, b.Path) }) {
		files[i] = map[string]any{"path": f.Path, "sha256": string(f.SHA256), "size_bytes": f.SizeBytes}
	}
	artifacts := make([]any, len(r.Artifacts))
	for i, a := range r.Artifacts {
		artifacts[i] = a.plain()
	}
	reasons := slices.Compact(slices.SortedFunc(slices.Values(r.Reasons), canon.Compare))
	doc := map[string]any{
		"report_schema_version": ExecReportVersion,
		"execution_id":          r.ExecutionID,
		"tool_id":               r.ToolID,
		"adapter_id":            nil,
		"exit_code":             r.ExitCode,
		"interpretation":        r.Interpretation,
		"action":                r.Action,
		"metadata":              r.Metadata.plain(),
		"stdout":                r.Stdout.plain(),
		"stderr":                r.Stderr.plain(),
		"output_files":          files,
		"artifacts":             artifacts,
		"reasons":               anys(reasons),
	}
	if r.AdapterID != "" {
		doc["adapter_id"] = r.AdapterID
	}
	return doc
}

// Digest is the hash of the canonical subset and one LF.
func (r ExecReport) Digest() (canon.ContentHash, error) {
	_, hash, err := canon.Artifact(r.Subset())
	return hash, err
}

// ExecReportDigest is Digest of a report that was read back as a decoded
// canonical value. The document is not changed.
func ExecReportDigest(doc map[string]any) (canon.ContentHash, error) {
	subset := maps.Clone(doc)
	delete(subset, "ephemeral")
	_, hash, err := canon.Artifact(subset)
	return hash, err
}

func (s ExecStream) plain() map[string]any {
	return map[string]any{"sha256": string(s.SHA256), "size_bytes": s.SizeBytes, "truncated": s.Truncated}
}

func (e ExecEphemeral) plain() map[string]any {
	clauses := make([]any, len(e.Clauses))
	for i, c := range slices.SortedStableFunc(slices.Values(e.Clauses), func(a, b ExecClause) int { return canon.Compare(a.Clause, b.Clause) }) {
		clauses[i] = map[string]any{"clause": c.Clause, "mechanism": c.Mechanism, "status": c.Status}
	}
	doc := map[string]any{
		"started_at":        timestamp(e.StartedAt),
		"completed_at":      timestamp(e.CompletedAt),
		"duration_ms":       e.Duration.Milliseconds(),
		"peak_memory_bytes": nil,
		"clauses":           clauses,
	}
	if e.PeakMemoryBytes > 0 {
		doc["peak_memory_bytes"] = e.PeakMemoryBytes
	}
	return doc
}
