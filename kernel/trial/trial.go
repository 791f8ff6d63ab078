// Package trial owns what a run of a suite says (specs/suite.md): the documents of a version
// directory, how the answer of an agent becomes the body of a case, and the rules that a
// directory keeps. It reads no file and asks no agent.
package trial

import (
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// The schema_version of each document.
const (
	RunVersion      = "run.v1"
	CaseVersion     = "case.v1"
	MetaVersion     = "failure-meta.v1"
	ManifestVersion = "assets-manifest.v1"
)

// The files of a version directory that are no case. A case is ID.json.
const (
	RunFile        = "run.json"
	EvaluationFile = "evaluation.json"
	SignatureFile  = "signature.json"
	AssetsFolder   = "assets"
	ManifestFile   = "assets/manifest.json"
)

// Side says which of two agents a directory is about.
type Side string

// The sides.
const (
	Baseline Side = "baseline"
	New      Side = "new"
)

// Status says whether a case has an answer.
type Status string

// The statuses of a case and of an attempt.
const (
	OK          Status = "ok"
	RunnerError Status = "runner_error"
)

// Class is the class of a failure.
type Class string

// The classes.
const (
	Timeout        Class = "timeout"
	HTTPError      Class = "http_error"
	InvalidJSON    Class = "invalid_json"
	SchemaMismatch Class = "schema_mismatch"
	NetworkError   Class = "network_error"
	Other          Class = "other"
)

// Limits bound what is kept of an answer.
type Limits struct {
	MaxBodyBytes          int `json:"max_body_bytes"`           // of a body
	MaxInlineSnippetBytes int `json:"max_inline_snippet_bytes"` // of body_snippet
	MaxPayloadInlineBytes int `json:"max_payload_inline_bytes"` // of a payload or snippets in an event
}

// DefaultLimits are the limits of a run that names none.
func DefaultLimits() Limits { return Limits{2_000_000, 4_000, 16_384} }

// Run is run.json.
type Run struct {
	SchemaVersion   string            `json:"schema_version"`
	RunID           string            `json:"run_id"`
	Version         Side              `json:"version"`
	GeneratedAt     string            `json:"generated_at"`
	BaseURL         string            `json:"base_url"`
	CasesPath       string            `json:"cases_path"`
	CasesSHA256     canon.ContentHash `json:"cases_sha256"`
	CasesHref       string            `json:"cases_href,omitempty"` // of the copy of the cases; redaction may have changed it
	OutDir          string            `json:"out_dir"`
	SelectedCaseIDs []string          `json:"selected_case_ids"`
	RunnerVersion   string            `json:"runner_version"`
	TimeoutMS       int64             `json:"timeout_ms"`
	Retries         int               `json:"retries"`
	Concurrency     int               `json:"concurrency"`
	RetryPolicy     RetryPolicy       `json:"retry_policy"`
	Limits          Limits            `json:"limits"`
	RunGroup        *RunGroup         `json:"run_group,omitempty"` // nil: the run was not repeated
	Agent           Agent             `json:"agent"`
	Provenance      map[string]string `json:"provenance,omitempty"` // what the caller knows of the agent
	Interrupted     bool              `json:"interrupted,omitempty"`

	// Of a run that has ended.
	Stats     *Stats            `json:"stats,omitempty"`
	Artifacts map[string]string `json:"artifacts,omitempty"` // the seal: hashes of files, by name
}

// RetryPolicy says which failures are tried again.
type RetryPolicy struct {
	Classes []string `json:"classes"`
	Backoff string   `json:"backoff"`
	Jitter  bool     `json:"jitter"`
}

// RunGroup says which repeat of a run a directory is.
type RunGroup struct {
	RunID string `json:"run_id"`
	Index int    `json:"index"` // from 1 on
	Of    int    `json:"of"`
}

// Agent says how the agent was asked.
type Agent struct {
	Transport string `json:"transport"`           // http, exec or replay
	Isolation string `json:"isolation,omitempty"` // of exec
}

// Stats counts the cases of a run.
type Stats struct {
	CasesTotal     int   `json:"cases_total"`
	CasesCompleted int   `json:"cases_completed"` // with status ok
	CasesFailed    int   `json:"cases_failed"`    // with status runner_error
	DurationMS     int64 `json:"duration_ms"`
}

// Attempt is one request for a case.
type Attempt struct {
	Attempt         int    `json:"attempt"` // from 1 on
	StartedAt       string `json:"started_at"`
	LatencyMS       int64  `json:"latency_ms"`
	Outcome         Status `json:"outcome"`
	ErrorClass      Class  `json:"error_class,omitempty"`
	ErrorName       string `json:"error_name,omitempty"`
	FullBodySavedTo string `json:"full_body_saved_to,omitempty"`
	StderrSavedTo   string `json:"stderr_saved_to,omitempty"` // of a command
}

// FailedCase is the file of a case without an answer.
type FailedCase struct {
	SchemaVersion string    `json:"schema_version"`
	CaseID        string    `json:"case_id"`
	Version       Side      `json:"version"`
	Status        Status    `json:"status"`
	Attempts      []Attempt `json:"attempts"`
	RunnerFailure Failure   `json:"runner_failure"`
}

// FailureType is the type of every Failure.
const FailureType = "runner_fetch_failure"

// Failure says why a case has no answer. It is that of the last attempt.
type Failure struct {
	Type                string   `json:"type"`
	Class               Class    `json:"class"`
	ErrorName           string   `json:"error_name"`
	ErrorMessage        string   `json:"error_message,omitempty"`
	Status              int      `json:"status,omitempty"` // of class http_error alone
	StatusText          string   `json:"status_text,omitempty"`
	URL                 string   `json:"url"`
	Attempt             int      `json:"attempt"`
	TimeoutMS           int64    `json:"timeout_ms"`
	LatencyMS           int64    `json:"latency_ms"`
	BodySnippet         *string  `json:"body_snippet"` // null: there was no body
	FullBodySavedTo     *string  `json:"full_body_saved_to"`
	FullBodyMetaSavedTo *string  `json:"full_body_meta_saved_to"`
	RedactionsApplied   []string `json:"redactions_applied,omitempty"`
}

// Meta describes the body of a failure.
type Meta struct {
	SchemaVersion string            `json:"schema_version"`
	CaseID        string            `json:"case_id"`
	Version       Side              `json:"version"`
	Class         Class             `json:"class"`
	ContentType   *string           `json:"content_type"`
	Encoding      *string           `json:"encoding"` // as it was received
	BytesWritten  int64             `json:"bytes_written"`
	BytesTotal    *int64            `json:"bytes_total"` // null: not known
	Truncated     bool              `json:"truncated"`
	SHA256        string            `json:"sha256"`
	Headers       map[string]string `json:"headers,omitempty"`
}

var (
	runPlan    canon.Plan[Run]
	failedPlan canon.Plan[FailedCase]
	metaPlan   canon.Plan[Meta]
)

// Bytes returns run.json.
func (r Run) Bytes() ([]byte, error) {
	b, _, err := runPlan.Artifact(&r)
	return b, err
}

// Bytes returns the file of the case.
func (c FailedCase) Bytes() ([]byte, error) {
	b, _, err := failedPlan.Artifact(&c)
	return b, err
}

// Bytes returns the file of the description.
func (m Meta) Bytes() ([]byte, error) {
	b, _, err := metaPlan.Artifact(&m)
	return b, err
}

// Snippet returns the beginning of a kept body, cut at a character, with U+FFFD for bytes that
// are not UTF-8.
func Snippet(body []byte, most int) string {
	if len(body) > most {
		for most > 0 && !utf8.RuneStart(body[most]) {
			most--
		}
		body = body[:most]
	}
	return canon.Clean(strings.ToValidUTF8(string(body), "\uFFFD"))
}
