package kernel

import (
	"cmp"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/reason"
)

// Outcome is one of the three answers (RS2).
type Outcome string

// The three outcomes.
const (
	OutcomeBundle  Outcome = "BUNDLE"
	OutcomeClarify Outcome = "CLARIFY"
	OutcomeRefuse  Outcome = "REFUSE"
)

// IDNotPermitted is the reason for an effect without a permit.
const IDNotPermitted = "NOT_PERMITTED"

// TitleNotPermitted is the title of that reason.
const TitleNotPermitted = "No rule permits this effect"

// ModuleKernel is the module of the kernel's own results, and ModuleBuiltin the package of
// the built-in layer. Other results name their layer's package.
const (
	ModuleKernel  = "kernel"
	ModuleBuiltin = "gate.builtin"
)

// DefaultPriority is the priority of a question whose rule states no priority.
const DefaultPriority = 60

// Result is one answer of a policy rule, with what its record says.
type Result struct {
	Module string // layer package, for example gate.builtin
	ID     string // rule id, [A-Z][A-Z0-9_]{1,31}
	Path   string // JSON Pointer into the intent
	Text   string // msg of a deny or note, question of a clarify
	Fix    string // of the answer, else of the rule's record; may be empty

	// These belong to a clarify only.
	Options    []string // sorted by code unit; nil when the answer is free text
	Answerable bool     // an answer in the intent settles the question
	Settling   []string // the options that settle it; nil: each does
	ByPolicy   bool     // no answer settles the question, but another profile does

	// From the rule's METADATA.
	Title    string
	Why      string // description
	Priority int    // 0..100, of a clarify; 60 where the rule states none
}

// Need says what settles a question.
type Need string

// The needs of a question.
const (
	NeedAnswer Need = "answer" // an answer in the intent
	NeedIntent Need = "intent" // another intent
	NeedPolicy Need = "policy" // another profile
)

// Needs returns what settles the question.
func (r Result) Needs() Need {
	switch {
	case r.Answerable && (len(r.Options) == 0 || len(r.Answers()) > 0):
		return NeedAnswer
	case r.ByPolicy:
		return NeedPolicy
	}
	return NeedIntent
}

// SettledBy says whether a text, as the answer in the intent, settles the question.
func (r Result) SettledBy(answer string) bool {
	return r.Answerable && (len(r.Options) == 0 || slices.Contains(r.Options, answer)) &&
		(len(r.Settling) == 0 || slices.Contains(r.Settling, answer))
}

// Answers returns the options that settle the question: none if every text does, or no answer.
func (r Result) Answers() []string {
	list := r.Options
	if len(list) == 0 {
		list = r.Settling
	}
	return slices.DeleteFunc(slices.Clone(list), func(o string) bool { return !r.SettledBy(o) })
}

// QuestionID returns the id by which context.answers of an intent names the question of a
// clarify (policy-contract.md, Answers). Without a canonical form it is empty, and nothing
// answers the question.
func (r Result) QuestionID() string {
	id, err := askPlan.ID(nil, "ask_", &askDomain{r.Module, r.ID, r.Path, r.Text})
	if err != nil {
		return ""
	}
	return id
}

// askDomain holds the members that the id of a policy's question covers.
type askDomain struct {
	Layer string `json:"layer"`
	Rule  string `json:"rule"`
	Path  string `json:"path"`
	Text  string `json:"text"`
}

var askPlan canon.Plan[askDomain]

// Verdict holds the answers of all policy layers, before the kernel decides. Each list
// is sorted by module, id, path and text.
type Verdict struct {
	Permits []string // effect ids that gate.builtin permitted, sorted
	Deny    []Result
	Clarify []Result
	Note    []Result

	// Answered are the questions that answers in the intent have settled. They decide
	// nothing.
	Answered []Result
}

// Decision is the kernel's answer to an intent and a verdict.
type Decision struct {
	Outcome Outcome

	// Bundle is nil for a REFUSE, and set for the other outcomes.
	Bundle *Bundle
	// BundleBytes is the bundle's canonical JSON and one LF; BundleHash covers
	// exactly these bytes.
	BundleBytes []byte
	BundleHash  canon.ContentHash

	// Reasons lists the reasons in the closed vocabulary ID POINTER: sorted by code
	// unit, without duplicates. It is empty for a BUNDLE.
	Reasons []string
	// RefuseReason is the first reason of a REFUSE with its rule's title.
	RefuseReason string

	// Findings are the results that decided, worded for people: the denials of a
	// REFUSE, or the questions of a CLARIFY. Notes never decide.
	Findings []Result
	Notes    []Result
}

// Questions returns the texts of the open questions, in the order of the bundle.
func (d Decision) Questions() []string {
	if d.Outcome != OutcomeClarify {
		return nil
	}
	var texts []string
	for _, q := range d.Bundle.UnresolvedQuestions {
		texts = append(texts, q.Text)
	}
	return texts
}

// Decide joins an intent with its verdict. A denial, or an effect without a permit,
// refuses the intent. Otherwise a question asks for an answer. Otherwise the intent is
// allowed. An error comes from canonicalisation and means that no decision was made.
func Decide(in Intent, effects []Effect, findings []Finding, v Verdict) (Decision, error) {
	denials := append(slices.Clone(v.Deny), notPermitted(effects, v)...)
	if len(denials) > 0 {
		return refuse(denials, v.Note), nil
	}
	questions, err := newQuestions(v.Clarify)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Outcome: OutcomeBundle, Reasons: reasons(v.Clarify), Findings: v.Clarify, Notes: v.Note}
	if len(questions) > 0 {
		d.Outcome = OutcomeClarify
	}
	if d.Bundle, d.BundleBytes, err = newBundle(in, findings, questions); err != nil {
		return Decision{}, err
	}
	d.BundleHash = canon.Sum(d.BundleBytes)
	return d, nil
}

// notPermitted returns a denial for each effect without a permit. It leaves out an
// effect if a denial already points to the effect or into it.
func notPermitted(effects []Effect, v Verdict) []Result {
	if len(effects) == 0 {
		return nil
	}
	permitted := make(map[string]bool, len(v.Permits))
	for _, id := range v.Permits {
		permitted[id] = true
	}
	denied := make(map[string]bool, len(v.Deny))
	for _, d := range v.Deny {
		for p := d.Path; p != ""; p, _, _ = pathname.CutLast(p) {
			denied[p] = true
		}
	}
	var list []Result
	for _, e := range effects {
		if !permitted[e.ID] && !denied[e.Pointer] {
			list = append(list, Result{
				Module: ModuleKernel, ID: IDNotPermitted, Path: e.Pointer, Title: TitleNotPermitted,
				Text: "no rule permits this " + string(e.Kind),
			})
		}
	}
	return list
}

func refuse(denials, notes []Result) Decision {
	slices.SortStableFunc(denials, func(a, b Result) int {
		return cmp.Or(canon.Compare(asReason(a), asReason(b)), canon.Compare(a.Module, b.Module), canon.Compare(a.Text, b.Text))
	})
	d := Decision{Outcome: OutcomeRefuse, Reasons: reasons(denials), Findings: denials, Notes: notes}
	d.RefuseReason = asReason(denials[0]) + ": " + denials[0].Title
	return d
}

func asReason(r Result) string { return reason.Finding(r.ID, r.Path) }

func reasons(list []Result) []string {
	out := make([]string, 0, len(list))
	for _, r := range list {
		out = append(out, asReason(r))
	}
	return sortedSet(out)
}

// newQuestions sorts by priority, highest first, then by id. Equal questions of two
// rules become one, with the higher priority and the options of both: no rule removes
// an answer from another rule's question. The policy engine limits the number of joined
// options.
func newQuestions(clarify []Result) ([]Question, error) {
	list := make([]Question, 0, len(clarify))
	for _, c := range clarify {
		q := Question{
			Text: c.Text, ExpectedAnswerType: "text", WhyNeeded: c.Why,
			InformationGain: c.Priority, Priority: c.Priority, Options: c.Options,
		}
		if len(c.Options) > 0 {
			q.ExpectedAnswerType = "choice"
		}
		var err error
		q.ID, err = questionPlan.ID(nil, "q_", &questionDomain{q.ExpectedAnswerType, q.Text, q.WhyNeeded})
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	slices.SortStableFunc(list, func(a, b Question) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), canon.Compare(a.ID, b.ID), slices.CompareFunc(a.Options, b.Options, canon.Compare))
	})
	first := make(map[string]int, len(list))
	kept := list[:0]
	for _, q := range list {
		n, again := first[q.ID]
		if !again {
			first[q.ID] = len(kept)
			kept = append(kept, q)
			continue
		}
		if len(q.Options) > 0 {
			kept[n].Options = sortedSet(append(slices.Clone(kept[n].Options), q.Options...))
		}
	}
	return kept, nil
}

// Execution is the record of an executed bundle, in the form that a RunResult carries.
type Execution struct {
	SandboxID        string            `json:"sandbox_id"`
	Cmd              []string          `json:"cmd"`
	ExitCode         int               `json:"exit_code"`
	StdoutSHA256     canon.ContentHash `json:"stdout_sha256"`
	StderrSHA256     canon.ContentHash `json:"stderr_sha256"`
	Inputs           []FileRef         `json:"inputs"`
	Outputs          []FileRef         `json:"outputs"`
	TotalOutputBytes int               `json:"total_output_bytes"`
	OutputTruncated  bool              `json:"output_truncated"`

	// Reasons says why the execution is rejected, in the closed vocabulary of
	// specs/run-result.md. It is empty where only the exit code gives a reason.
	Reasons []string `json:"-"`
}

// FileRef names one file with its content hash and its size in bytes.
type FileRef struct {
	Path      string            `json:"path"`
	SHA256    canon.ContentHash `json:"sha256"`
	SizeBytes int               `json:"size_bytes"`
}

// DecisionRecord is the final decision of a RunResult (run-result.md, 5.3).
type DecisionRecord struct {
	Accepted          bool     `json:"accepted"`
	Reasons           []string `json:"reasons"`
	ValidatedByKernel bool     `json:"validated_by_kernel"`
}

// Conclude returns the decision record. It accepts a BUNDLE that was not executed, and
// a BUNDLE whose execution ended with exit code 0. It accepts nothing else (RS8).
func Conclude(d Decision, e *Execution) DecisionRecord {
	rec := DecisionRecord{Accepted: d.Outcome == OutcomeBundle, Reasons: nonNil(d.Reasons), ValidatedByKernel: true}
	if e == nil || !rec.Accepted {
		return rec
	}
	rec.Accepted = e.ExitCode == 0
	if !rec.Accepted {
		rec.Reasons = sortedSet(e.Reasons)
		if len(rec.Reasons) == 0 {
			rec.Reasons = []string{reason.Exited(e.ExitCode).String()}
		}
	}
	return rec
}
