package grade

import (
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// The schema_version of each document.
const (
	EvaluationVersion = "evaluation.v1"
	CompareVersion    = "compare.v1"
)

// Evaluation is evaluation.json of a version directory.
type Evaluation struct {
	SchemaVersion    string             `json:"schema_version"`
	RunID            string             `json:"run_id"`
	Version          trial.Side         `json:"version"`
	EvaluatedAt      string             `json:"evaluated_at"`
	EvaluatorVersion string             `json:"evaluator_version"`
	CasesSHA256      canon.ContentHash  `json:"cases_sha256"`
	RunSHA256        canon.ContentHash  `json:"run_sha256"`
	PolicyProvenance *result.Provenance `json:"policy_provenance,omitempty"`
	Cases            []EvaluatedCase    `json:"cases"` // by id
	Summary          map[Verdict]int    `json:"summary"`
}

// EvaluatedCase is the judgement of a case.
type EvaluatedCase struct {
	CaseID     string      `json:"case_id"`
	Verdict    Verdict     `json:"verdict"`
	Assertions []Assertion `json:"assertions"`
	RootCause  *RootCause  `json:"root_cause,omitempty"`
	Notes      []string    `json:"notes"`
	Actions    []Action    `json:"actions"`
}

// Comparison is compare-report.json.
type Comparison struct {
	SchemaVersion     string             `json:"schema_version"`
	EvaluatedAt       string             `json:"evaluated_at"`
	EvaluatorVersion  string             `json:"evaluator_version"`
	PolicyProvenance  *result.Provenance `json:"policy_provenance,omitempty"` // nil: no policy decided
	Baseline          *Side              `json:"baseline"`                    // null: there is none
	New               Side               `json:"new"`
	ChangedProvenance []Change           `json:"changed_provenance"`
	Cases             []CaseResult       `json:"cases"` // by id
	Suites            []Suite            `json:"suites"`
	Summary           Summary            `json:"summary"`
	Gate              Gate               `json:"gate"`
}

// Side names the runs of a side.
type Side struct {
	RunIDs    []string            `json:"run_ids"`
	RunSHA256 []canon.ContentHash `json:"run_sha256"`
	Sealed    bool                `json:"sealed"`
	SignedBy  []string            `json:"signed_by,omitempty"` // ids of keys
}

// Change is a member whose value differs between the sides.
type Change struct {
	Name string `json:"name"`
	From string `json:"from"` // empty: absent
	To   string `json:"to"`
}

// CaseResult is one case of a comparison.
type CaseResult struct {
	CaseID     string      `json:"case_id"`
	Title      string      `json:"title,omitempty"`
	Suite      string      `json:"suite,omitempty"`
	Severity   string      `json:"severity,omitempty"`
	Class      Class       `json:"class"`
	Confidence Confidence  `json:"confidence,omitempty"`
	P          *float64    `json:"p,omitempty"` // of a tested case
	PAdjusted  *float64    `json:"p_adjusted,omitempty"`
	Baseline   *SideResult `json:"baseline,omitempty"` // absent: not selected
	New        *SideResult `json:"new,omitempty"`
	Trace      string      `json:"trace,omitempty"` // same or changed; absent: there are no two traces
	Divergence *Divergence `json:"divergence,omitempty"`
}

// SideResult is a case on one side.
type SideResult struct {
	State     State      `json:"state"`
	K         int        `json:"k"` // runs that passed
	N         int        `json:"n"` // runs with data
	Runs      int        `json:"runs"`
	Errors    int        `json:"errors"` // runs that are errors or missing
	RootCause *RootCause `json:"root_cause,omitempty"`
	Failed    []string   `json:"failed"`            // ids of the assertions that failed in any run
	Actions   []Action   `json:"actions,omitempty"` // of all runs, those that were not allowed
}

// Divergence is the first place in which two traces differ.
type Divergence struct {
	Kind     string  `json:"kind"`
	Tool     string  `json:"tool,omitempty"`
	Baseline *string `json:"baseline"` // "events[2]" or "final_output"; null: nothing stands there
	New      *string `json:"new"`
	Pointer  string  `json:"pointer,omitempty"` // of the first member that differs
	From     string  `json:"from,omitempty"`    // its value, at most 256 bytes
	To       string  `json:"to,omitempty"`
	Headline string  `json:"headline"`
}

// Suite counts the cases of one suite.
type Suite struct {
	Suite   string        `json:"suite"` // empty: of none
	Cases   int           `json:"cases"`
	Classes map[Class]int `json:"classes"`
}

// Summary is what the cases show together.
type Summary struct {
	Classes   map[Class]int        `json:"classes"`
	B         int                  `json:"b"` // cases with data on both sides whose rate is lower on new
	C         int                  `json:"c"` // whose rate is higher
	SignP     float64              `json:"sign_p"`
	Delta     [3]float64           `json:"delta"` // mean change of the rates, and its interval of 95 %
	PassShare map[trial.Side]Share `json:"pass_share"`
	Answers   map[trial.Side]Ratio `json:"answers"` // runs with data, of all runs
}

// Share is a share of cases with its interval of 95 % (Wilson).
type Share struct {
	K    int     `json:"k"` // cases that passed in every run with data
	N    int     `json:"n"` // cases with data
	Rate float64 `json:"rate"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Ratio is a part of a whole.
type Ratio struct {
	K    int     `json:"k"`
	N    int     `json:"n"`
	Rate float64 `json:"rate"`
}

// Gate is the decision about new.
type Gate struct {
	Status   string   `json:"status"` // pass, fail or inconclusive
	ExitCode int      `json:"exit_code"`
	Reasons  []Reason `json:"reasons"`
	Limits   Limits   `json:"limits"`
}

// The statuses of a gate.
const (
	GatePass         = "pass"
	GateFail         = "fail"
	GateInconclusive = "inconclusive"
)

// Reason is why a gate did not pass.
type Reason struct {
	Code  string   `json:"code"`
	Count float64  `json:"count"`
	Limit float64  `json:"limit"`
	Cases []string `json:"cases"` // at most 20
}

// Limits are what a gate allows.
type Limits struct {
	MaxRegressions int      `json:"max_regressions"`
	MaxInfra       int      `json:"max_infra"`
	MaxFlaky       *int     `json:"max_flaky,omitempty"`
	MinPassRate    *float64 `json:"min_pass_rate,omitempty"`
	MaxWeakRate    *float64 `json:"max_weak_rate,omitempty"`
	AllowRemoved   bool     `json:"allow_removed"`
	Alpha          float64  `json:"alpha"`
	MinAnswers     float64  `json:"min_answers"`
}

// DefaultLimits are the limits of a comparison that names none.
func DefaultLimits() Limits { return Limits{Alpha: 0.05, MinAnswers: 0.95} }

var (
	evaluationPlan canon.Plan[Evaluation]
	comparisonPlan canon.Plan[Comparison]
)

// Bytes returns evaluation.json.
func (e Evaluation) Bytes() ([]byte, error) {
	b, _, err := evaluationPlan.Artifact(&e)
	return b, err
}

// Bytes returns compare-report.json.
func (c Comparison) Bytes() ([]byte, error) {
	b, _, err := comparisonPlan.Artifact(&c)
	return b, err
}
