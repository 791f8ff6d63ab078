package request

import (
	"slices"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// ReportVersion is the version of the execution report's format.
const ReportVersion = "1.1.0"

// Report is the answer to an execution request
// (specs/execution-report.schema.json).
type Report struct {
	ExecutionID    string           `json:"execution_id"`
	ToolID         string           `json:"tool_id"`
	AdapterID      string           `json:"-"`              // empty if the request names no adapter
	ExitCode       int              `json:"exit_code"`      // 0..255
	Interpretation string           `json:"interpretation"` // meaning of the exit code, in a word
	Action         string           `json:"action"`         // what the reader should do about it
	Stdout         Stream           `json:"stdout"`
	Stderr         Stream           `json:"stderr"`
	OutputFiles    []kernel.FileRef `json:"output_files"` // in any order
	Reasons        []string         `json:"reasons"`      // in any order
	Metadata       Metadata         `json:"metadata"`     // of the request
	Artifacts      []Artifact       `json:"artifacts"`    // in the order of the request
	Ephemeral      Ephemeral        `json:"-"`
}

// Artifact is a file that a request wants back, as the work folder has it after the execution.
type Artifact struct {
	ArtifactSpec
	SHA256    canon.ContentHash `json:"sha256"`
	SizeBytes int64             `json:"size_bytes"`
}

// Stream is the kept part of one stream of a command.
type Stream struct {
	SHA256    canon.ContentHash `json:"sha256"`     // of the bytes kept
	SizeBytes int               `json:"size_bytes"` // number of bytes kept
	Truncated bool              `json:"truncated"`  // the command wrote more than was kept
}

// Ephemeral holds the values that differ between two executions of one request. They
// are in the report, and neither in its canonical subset nor in its digest.
type Ephemeral struct {
	StartedAt       time.Time
	CompletedAt     time.Time
	Duration        time.Duration
	PeakMemoryBytes int64 // 0 if nothing measured it
	Clauses         []evidence.Clause
}

// Bytes returns the report in its printed form: canonical JSON and one LF. Files,
// reasons and clauses are sorted by UTF-16 code unit, and each reason occurs once.
func (r Report) Bytes() ([]byte, error) {
	b, _, err := canon.Artifact(struct {
		reportSubset
		Ephemeral reportEphemeral `json:"ephemeral"`
	}{r.subset(), r.Ephemeral.document()})
	return b, err
}

// reportSubset is the canonical subset: every member except ephemeral. It is the same on
// every machine, and for every execution of one request.
type reportSubset struct {
	Report
	Version   string  `json:"report_schema_version"`
	AdapterID *string `json:"adapter_id"`
}

func (r Report) subset() reportSubset {
	s := reportSubset{Report: r, Version: ReportVersion}
	s.OutputFiles = append([]kernel.FileRef{}, r.OutputFiles...)
	slices.SortFunc(s.OutputFiles, func(a, b kernel.FileRef) int { return canon.Compare(a.Path, b.Path) })
	s.Artifacts = append([]Artifact{}, r.Artifacts...)
	s.Reasons = append([]string{}, slices.Compact(slices.SortedFunc(slices.Values(r.Reasons), canon.Compare))...)
	if r.AdapterID != "" {
		s.AdapterID = &r.AdapterID
	}
	return s
}

// Digest returns the hash of the canonical subset and one LF.
func (r Report) Digest() (canon.ContentHash, error) {
	_, hash, err := canon.Artifact(r.subset())
	return hash, err
}

type reportEphemeral struct {
	StartedAt       string            `json:"started_at"`
	CompletedAt     string            `json:"completed_at"`
	DurationMS      int64             `json:"duration_ms"`
	PeakMemoryBytes *int64            `json:"peak_memory_bytes"`
	Clauses         []evidence.Clause `json:"clauses"`
}

func (e Ephemeral) document() reportEphemeral {
	doc := reportEphemeral{ledger.Timestamp(e.StartedAt), ledger.Timestamp(e.CompletedAt), e.Duration.Milliseconds(), nil, append([]evidence.Clause{}, e.Clauses...)}
	slices.SortStableFunc(doc.Clauses, func(a, b evidence.Clause) int { return canon.Compare(a.Clause, b.Clause) })
	if e.PeakMemoryBytes > 0 {
		doc.PeakMemoryBytes = &e.PeakMemoryBytes
	}
	return doc
}
