// Package ledger holds the values of a ledger: records and their leaves, the tree over them,
// checkpoints, proofs and receipts, and what is counted over records. It owns their formats;
// it reads and writes no file.
package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/lazy"
)

// Format is the version of the record and line format. The genesis record contains it.
const Format = "1.0.0"

// MaxEntryBytes is the size limit of an entry: 16 KiB.
const MaxEntryBytes = 16 << 10

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	KindGenesis     Kind = "genesis"      // the first record: who signs
	KindBegun       Kind = "begun"        // an execution is about to have its first effect
	KindDecision    Kind = "decision"     // a run ended in a RunResult
	KindError       Kind = "error"        // a run of a readable intent ended without a RunResult
	KindKeyRotation Kind = "key-rotation" // another key signs from this record on
	KindRepair      Kind = "repair"       // faults that were found and repaired when the ledger was opened
)

// Ends says whether a record of the kind is the last one of its run.
func (k Kind) Ends() bool { return k == KindDecision || k == KindError }

// OfRun says whether a record of the kind belongs to a run.
func (k Kind) OfRun() bool { return k == KindBegun || k.Ends() }

// hasKey says whether a record of the kind introduces a key.
func (k Kind) hasKey() bool { return k == KindGenesis || k == KindKeyRotation }

// Record is one entry of a ledger. The Kind decides which members a record has; the
// variable members lists them. The others are zero.
type Record struct {
	Kind      Kind
	Timestamp string // RFC 3339, UTC, milliseconds; not before the previous record's

	// ClockBehindMS says how far the clock was behind the previous record, whose
	// timestamp this record then has; 0 means that the clock was not behind.
	ClockBehindMS int64

	// Members of a run: begun, decision and error.
	RunID         string
	IntentSHA256  canon.ContentHash
	ExecutionMode string
	Mode          string // the model mode
	Policy        string // name of the profile
	PolicySHA256  canon.ContentHash
	InputSHA256   canon.ContentHash
	BundleSHA256  canon.ContentHash // empty means null: there is no bundle
	Kernel        string            // version of the kernel

	// Former marks a begun record of the older form: it has neither accepted nor
	// result_kind, which are null in the newer form.
	Former bool

	// Work names the work item of a begun and its decision; nil: it is none of one.
	Work *Work

	// Submitter is the client that sent the record to a server of ledgers; empty in a
	// ledger without a server.
	Submitter string

	// Members of a decision.
	ResultKind      string
	Accepted        bool
	Reasons         []string
	DecisionSHA256  canon.ContentHash
	CanonicalSHA256 canon.ContentHash // of the canonical subset of the RunResult
	ResultSHA256    canon.ContentHash // of the RunResult in its printed form
	Evidence        Blob

	// Members of an error.
	Code   string
	RuleID string // may be empty

	// Members of the genesis and a key rotation: the format version, the log's origin,
	// and the verifier key that signs from this record on.
	Format string
	Origin string
	Key    string

	// Members of a repair.
	Repairs []Repair
}

// Work is a part of a begun and of a decision: the work item that the run is for. A state
// is "blake3:" and 64 hex digits, and so is a receipt.
type Work struct {
	ItemID     string            `json:"item_id"`
	PlanSHA256 canon.ContentHash `json:"plan_sha256,omitempty"` // empty: the item is in no plan
	Base       string            `json:"base,omitempty"`        // of a begun: the state in which the agent begins
	Before     string            `json:"before,omitempty"`      // of a decision: the state that the item changes
	After      string            `json:"after,omitempty"`       // of a decision: the state that follows
	Receipt    string            `json:"receipt,omitempty"`     // of a decision: the hash of its receipt
}

// MaxBlobBytes is the maximum size of a blob of evidence: 16 MiB.
const MaxBlobBytes = 16 << 20

// Blob names content that is stored beside the ledger.
type Blob struct {
	SHA256 canon.ContentHash `json:"sha256"`
	Size   int64             `json:"size"` // bytes
}

// Repair is one fault that was repaired.
type Repair struct {
	What   string            `json:"what"`             // one of the Repair constants
	Offset int64             `json:"offset"`           // place in ledger.jsonl, in bytes
	Bytes  int64             `json:"bytes"`            // number of bytes removed or added
	SHA256 canon.ContentHash `json:"sha256,omitempty"` // of the removed bytes, which are in quarantine; else empty
}

// The kinds of repairs.
const (
	RepairTornTail   = "torn-tail"  // an unfinished last line was moved to quarantine
	RepairNewline    = "newline"    // the last line had lost its line feed
	RepairCheckpoint = "checkpoint" // the checkpoint was missing or unreadable
)

// members are the sorted members of a record of each kind. A member with a question mark
// may be absent.
var members = lazy.Value[map[Kind][]string]{Make: func() map[Kind][]string {
	return map[Kind][]string{
		KindGenesis:     {"clock_behind_ms?", "format", "key", "kind", "origin", "timestamp"},
		KindKeyRotation: {"clock_behind_ms?", "key", "kind", "timestamp"},
		KindRepair:      {"clock_behind_ms?", "kind", "repairs", "timestamp"},
		KindBegun: {
			"accepted", "bundle_sha256", "clock_behind_ms?", "execution_mode", "input_sha256", "intent_sha256", "kernel", "kind",
			"mode", "policy", "policy_sha256", "result_kind", "run_id", "submitter?", "timestamp", "work?",
		},
		KindDecision: {
			"accepted", "bundle_sha256", "canonical_sha256", "clock_behind_ms?", "decision_sha256", "evidence",
			"execution_mode", "input_sha256", "intent_sha256", "kernel", "kind", "mode", "policy", "policy_sha256",
			"reasons", "result_kind", "result_sha256", "run_id", "submitter?", "timestamp", "work?",
		},
		KindError: {
			"clock_behind_ms?", "code", "execution_mode", "intent_sha256", "kernel", "kind", "mode", "policy",
			"policy_sha256", "rule_id?", "run_id", "submitter?", "timestamp",
		},
	}
}}

// members returns the members of the record, by its kind.
func (r Record) members() []string {
	if !r.Former {
		return members.Get()[r.Kind]
	}
	return slices.DeleteFunc(slices.Clone(members.Get()[r.Kind]), func(m string) bool { return m == "accepted" || m == "result_kind" })
}

// Entry returns the bytes of the record that are hashed: canonical JSON without a line
// feed. A record that ParseRecord would refuse is an error.
func (r Record) Entry() ([]byte, error) {
	b, err := r.text()
	if err != nil {
		return nil, fmt.Errorf("the record has no canonical form: %w", err)
	}
	if _, err := ParseRecord(b); err != nil {
		return nil, err
	}
	return b, nil
}

// The JSON documents of the kinds of records.
type (
	entryHead struct {
		ClockBehindMS int64  `json:"clock_behind_ms,omitempty"`
		Kind          Kind   `json:"kind"`
		Timestamp     string `json:"timestamp"`
	}
	genesisEntry struct {
		entryHead
		Format string `json:"format"`
		Key    string `json:"key"`
		Origin string `json:"origin"`
	}
	rotationEntry struct {
		entryHead
		Key string `json:"key"`
	}
	repairEntry struct {
		entryHead
		Repairs []Repair `json:"repairs"`
	}
	runEntry struct {
		entryHead
		ExecutionMode string            `json:"execution_mode"`
		IntentSHA256  canon.ContentHash `json:"intent_sha256"`
		Kernel        kernelEntry       `json:"kernel"`
		Mode          string            `json:"mode"`
		Policy        string            `json:"policy"`
		PolicySHA256  canon.ContentHash `json:"policy_sha256"`
		RunID         string            `json:"run_id"`
		Submitter     string            `json:"submitter,omitempty"`
	}
	kernelEntry struct {
		Version string `json:"version"`
	}
	formerEntry struct {
		runEntry
		BundleSHA256 *canon.ContentHash `json:"bundle_sha256"`
		InputSHA256  canon.ContentHash  `json:"input_sha256"`
		Work         *Work              `json:"work,omitempty"`
	}
	begunEntry struct {
		formerEntry
		Accepted   *bool   `json:"accepted"`    // null
		ResultKind *string `json:"result_kind"` // null
	}
	decisionEntry struct {
		formerEntry
		Accepted        bool              `json:"accepted"`
		CanonicalSHA256 canon.ContentHash `json:"canonical_sha256"`
		DecisionSHA256  canon.ContentHash `json:"decision_sha256"`
		Evidence        Blob              `json:"evidence"`
		Reasons         []string          `json:"reasons"`
		ResultKind      string            `json:"result_kind"`
		ResultSHA256    canon.ContentHash `json:"result_sha256"`
	}
	errorEntry struct {
		runEntry
		Code   string `json:"code"`
		RuleID string `json:"rule_id,omitempty"`
	}
)

var (
	genesisPlan  canon.Plan[genesisEntry]
	rotationPlan canon.Plan[rotationEntry]
	repairPlan   canon.Plan[repairEntry]
	formerPlan   canon.Plan[formerEntry]
	begunPlan    canon.Plan[begunEntry]
	decisionPlan canon.Plan[decisionEntry]
	errorPlan    canon.Plan[errorEntry]
)

// text returns the record in canonical form, without a check by ParseRecord.
func (r Record) text() ([]byte, error) {
	head := entryHead{r.ClockBehindMS, r.Kind, r.Timestamp}
	run := runEntry{head, r.ExecutionMode, r.IntentSHA256, kernelEntry{r.Kernel}, r.Mode, r.Policy, r.PolicySHA256, r.RunID, r.Submitter}
	former := formerEntry{runEntry: run, InputSHA256: r.InputSHA256, Work: r.Work}
	if r.BundleSHA256 != "" {
		former.BundleSHA256 = &r.BundleSHA256
	}
	switch r.Kind {
	case KindGenesis:
		return genesisPlan.Canonical(&genesisEntry{head, r.Format, r.Key, r.Origin})
	case KindKeyRotation:
		return rotationPlan.Canonical(&rotationEntry{head, r.Key})
	case KindRepair:
		return repairPlan.Canonical(&repairEntry{head, append([]Repair{}, r.Repairs...)})
	case KindBegun:
		if r.Former {
			return formerPlan.Canonical(&former)
		}
		return begunPlan.Canonical(&begunEntry{formerEntry: former})
	case KindDecision:
		return decisionPlan.Canonical(&decisionEntry{former, r.Accepted, r.CanonicalSHA256, r.DecisionSHA256, r.Evidence,
			append([]string{}, r.Reasons...), r.ResultKind, r.ResultSHA256})
	case KindError:
		return errorPlan.Canonical(&errorEntry{run, r.Code, r.RuleID})
	}
	return []byte("{}"), nil
}

// EndOf says whether the record is the end of the run of begun. The members that begun
// announced must be the same in both. An error names no work item.
func (r Record) EndOf(begun Record) bool {
	same := r.RunID == begun.RunID && r.IntentSHA256 == begun.IntentSHA256 && r.ExecutionMode == begun.ExecutionMode &&
		r.Mode == begun.Mode && r.Policy == begun.Policy && r.PolicySHA256 == begun.PolicySHA256 && r.Kernel == begun.Kernel
	return same && (r.Kind == KindError || r.InputSHA256 == begun.InputSHA256 && r.BundleSHA256 == begun.BundleSHA256 &&
		r.work().ItemID == begun.work().ItemID && r.work().PlanSHA256 == begun.work().PlanSHA256)
}

// SameRun says whether two terminal records describe the same end of one run. It ignores
// who submitted them, the times, and the members that contain times (the RunResult as
// printed, and the evidence).
func (r Record) SameRun(o Record) bool {
	for _, p := range []*Record{&r, &o} {
		p.Timestamp, p.ClockBehindMS, p.ResultSHA256, p.Evidence, p.Former, p.Submitter = "", 0, "", Blob{}, false, ""
	}
	return slices.Equal(r.Reasons, o.Reasons) && slices.Equal(r.Repairs, o.Repairs) && r.work() == o.work() && r.scalars() == o.scalars()
}

// work returns the work of the record, or the zero value.
func (r Record) work() Work {
	if r.Work == nil {
		return Work{}
	}
	return *r.Work
}

// scalars returns the record without its lists and its work as a text that can be compared.
func (r Record) scalars() string {
	r.Reasons, r.Repairs, r.Work = nil, nil, nil
	return fmt.Sprintf("%#v", r)
}

// TimeFormat is the layout of a timestamp. Timestamps are in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Timestamp returns a time in TimeFormat.
func Timestamp(t time.Time) string { return t.UTC().Format(TimeFormat) }

// Time returns the record's timestamp.
func (r Record) Time() time.Time {
	t, _ := time.Parse(TimeFormat, r.Timestamp)
	return t
}

// Stamp sets the timestamp to now, or to the last record's if now is before it. So the
// time of a ledger never goes backwards, and the record says how far the clock was
// behind.
func (r *Record) Stamp(now time.Time, last string) {
	r.Timestamp, r.ClockBehindMS = now.UTC().Format(TimeFormat), 0
	if r.Timestamp < last {
		before, _ := time.Parse(TimeFormat, last)
		r.Timestamp, r.ClockBehindMS = last, max(before.Sub(now.UTC().Truncate(time.Millisecond)).Milliseconds(), 1)
	}
}

// Reasons returns the reasons of a decision in the form of a record: the identifiers
// alone, with the number of an exit code or a signal. Pointers and paths come from the
// intent's text, and stay in the evidence.
func Reasons(reasons []string) []string {
	var out []string
	for _, r := range reasons {
		if brief := reason.Brief(r); isReason(brief) {
			out = append(out, brief)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxReasons)]
}

// The maximum numbers of reasons and repairs of a record.
const (
	maxReasons = 64
	maxRepairs = 8
)
