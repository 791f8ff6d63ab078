// Package grade judges runs of a suite (specs/evaluation.md): what a case was expected to do and
// did, how baseline and new differ, and whether a gate lets new pass. It reads no file and
// decides no intent: the decoded files of cases, and what a policy said of them, are given.
package grade

import (
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// Verdict is the judgement of one case in one run.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Weak    Verdict = "weak"    // nothing failed, and nothing was expected but what is always judged
	Fail    Verdict = "fail"    // an assertion failed, or what came is no answer: a wrong answer is an answer
	Error   Verdict = "error"   // the agent could not be asked
	Missing Verdict = "missing" // the case was selected, and the directory has no file of it
)

// Outcome is the end of an assertion. An assertion with Broken counts as failed.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"  // there was nothing to judge
	Broken  Outcome = "error" // it could not be judged
)

// Assertion is the judgement of one expectation.
type Assertion struct {
	ID       string   `json:"id"`   // the kind; in a list, the kind, a colon and the index
	Kind     string   `json:"kind"` // the member of expected
	Outcome  Outcome  `json:"outcome"`
	Reason   string   `json:"reason"`
	Expected string   `json:"expected,omitempty"` // of one that did not pass: at most 256 bytes
	Actual   string   `json:"actual,omitempty"`
	Evidence []string `json:"evidence"` // places in the file of the case: "events[2]", "proposed_actions[0]", "final_output"
}

// Failed says whether the assertion counts as failed.
func (a Assertion) Failed() bool { return a.Outcome == Failed || a.Outcome == Broken }

// Action is what a policy said of something that an agent proposed or did.
type Action struct {
	Subject      string            `json:"subject"` // "proposed_actions[0]" or "events[2]"
	Tool         string            `json:"tool"`
	Outcome      string            `json:"outcome"` // BUNDLE, CLARIFY, REFUSE, or undecided
	Reasons      []string          `json:"reasons"`
	Executed     bool              `json:"executed"`
	IntentSHA256 canon.ContentHash `json:"intent_sha256,omitempty"` // empty: undecided
}

// Undecided is the outcome of a subject that makes no valid intent. It is never allowed.
const Undecided = "undecided"

// RootCause is why a run did not pass.
type RootCause struct {
	Name       string   `json:"name"`
	Confidence string   `json:"confidence"` // high: the file of the case says it; medium: it follows from an assertion; low: unknown
	Evidence   []string `json:"evidence"`
}

// Artifact is the file of a case in one run, and what only its directory shows.
type Artifact struct {
	Doc        map[string]any // decoded, with numbers as json.Number; nil: there is no file
	Unresolved []string       // JSON Pointers of references to evidence that lead nowhere
	Secrets    []string       // the rules that found a secret, here or when the run was made
}

// Given is what a run is judged with.
type Given struct {
	Policy  bool     // a policy has decided the subjects
	Actions []Action // of each subject, in the order of Subjects
	// Schema holds a value against a JSON Schema. It returns the first fault, or an error
	// if the schema cannot be used.
	Schema func(schema, value any) (fault string, err error)
	// Redact returns a text without secrets. Texts of the cases have had no redaction; nil: none
	// is needed.
	Redact func(text string) string
}

// Run is one case in one run, judged.
type Run struct {
	Artifact
	RunID      string
	Verdict    Verdict
	Assertions []Assertion
	Cause      *RootCause // nil: it passed
	Notes      []string
	Actions    []Action
}

// Pair is a case on both sides. A side without runs did not select the case.
type Pair struct {
	trial.Case
	Baseline, New []Run
	Alignment     *Alignment // of the two traces; nil: there are no two
}

// State sums up the runs of a case on one side.
type State string

// The states.
const (
	Absent     State = "absent"  // not selected
	NoData     State = "no_data" // every run is missing or an error
	StablePass State = "stable_pass"
	StableFail State = "stable_fail"
	Flaky      State = "flaky"
)

// Class says how a case on new differs from baseline.
type Class string

// The classes, the ones that need a look first.
const (
	Regression       Class = "regression"
	FlakyWorse       Class = "flaky_worse"
	InfraRegression  Class = "infra_regression"
	Inconclusive     Class = "inconclusive"
	Removed          Class = "removed"
	ChangedFail      Class = "changed_fail"
	Added            Class = "added"
	BaselineUnusable Class = "baseline_unusable"
	FlakySame        Class = "flaky_same"
	FlakyBetter      Class = "flaky_better"
	Improvement      Class = "improvement"
	UnchangedFail    Class = "unchanged_fail"
	UnchangedPass    Class = "unchanged_pass"
)

// Confidence says what a class rests on.
type Confidence string

// The confidences.
const (
	Tested Confidence = "tested" // the rates were compared by a test
	Single Confidence = "single" // a side has one run with data
	Stable Confidence = "stable"
)
