package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// Format is the version of the record and line format. It stands in the genesis
// record.
const Format = "1.0.0"

// MaxEntryBytes is the size limit of an entry: 16 KiB.
const MaxEntryBytes = 16 << 10

// Kind says what a record is about.
type Kind string

// The kinds of records.
const (
	KindGenesis     Kind = "genesis"      // the first record: who signs
	KindBegun       Kind = "begun"        // an execution is about to have its first effect
	KindDecision    Kind = "decision"     // a run ended in a RunResult
	KindError       Kind = "error"        // a run of a readable intent ended without one
	KindKeyRotation Kind = "key-rotation" // from here on another key signs
	KindRepair      Kind = "repair"       // what was found and mended when the ledger was opened
)

// Ends says whether a record of the kind is the last one of its run.
func (k Kind) Ends() bool { return k == KindDecision || k == KindError }

// OfRun says whether a record of the kind belongs to a run.
func (k Kind) OfRun() bool { return k == KindBegun || k.Ends() }

// Record is one entry of a ledger. Which members it has depends on its Kind:
// members gives the list. The others are zero.
type Record struct {
	Kind      Kind
	Timestamp string // RFC 3339, UTC, milliseconds; never before the previous record's

	// ClockBehindMS is by how much the clock was behind the previous record when
	// the timestamp was taken from that record instead; 0: it was not.
	ClockBehindMS int64

	// Of a run: begun, decision and error.
	RunID         string
	IntentSHA256  canon.ContentHash
	ExecutionMode string
	Mode          string // the model mode
	Policy        string // name of the profile
	PolicySHA256  canon.ContentHash
	InputSHA256   canon.ContentHash
	BundleSHA256  canon.ContentHash // empty: null, there is no bundle
	Kernel        string            // version of the kernel

	// Former says of a begun that it has neither accepted nor result_kind, which are
	// null: so it was written once.
	Former bool

	// Of a decision.
	ResultKind      string
	Accepted        bool
	Reasons         []string
	DecisionSHA256  canon.ContentHash
	CanonicalSHA256 canon.ContentHash // of the canonical subset of the RunResult
	ResultSHA256    canon.ContentHash // of the RunResult as it was printed
	Evidence        Blob

	// Of an error.
	Code   string
	RuleID string // may be empty

	// Of the genesis and a key rotation: the format version, the log's origin, and
	// the verifier key that signs from then on.
	Format string
	Origin string
	Key    string

	// Of a repair.
	Repairs []Repair
}

// MaxBlobBytes is the most that a blob of evidence has: 16 MiB.
const MaxBlobBytes = 16 << 20

// Blob names content that is stored beside the ledger.
type Blob struct {
	SHA256 canon.ContentHash `json:"sha256"`
	Size   int64             `json:"size"` // bytes
}

// Repair is one thing that was mended.
type Repair struct {
	What   string            `json:"what"`             // one of the Repair constants
	Offset int64             `json:"offset"`           // place in ledger.jsonl, in bytes
	Bytes  int64             `json:"bytes"`            // number of bytes removed or added
	SHA256 canon.ContentHash `json:"sha256,omitempty"` // of the removed bytes, which are in quarantine; else empty
}

// What a repair can be.
const (
	RepairTornTail   = "torn-tail"  // an unfinished last line was taken to quarantine
	RepairNewline    = "newline"    // the last line had lost its line feed
	RepairCheckpoint = "checkpoint" // the checkpoint was missing or unreadable
)

// members are the members of a record of each kind, sorted. A member with a
// question mark may be absent.
var members = map[Kind][]string{
	KindGenesis:     {"clock_behind_ms?", "format", "key", "kind", "origin", "timestamp"},
	KindKeyRotation: {"clock_behind_ms?", "key", "kind", "timestamp"},
	KindRepair:      {"clock_behind_ms?", "kind", "repairs", "timestamp"},
	KindBegun: {
		"accepted", "bundle_sha256", "clock_behind_ms?", "execution_mode", "input_sha256", "intent_sha256", "kernel", "kind",
		"mode", "policy", "policy_sha256", "result_kind", "run_id", "timestamp",
	},
	KindDecision: {
		"accepted", "bundle_sha256", "canonical_sha256", "clock_behind_ms?", "decision_sha256", "evidence",
		"execution_mode", "input_sha256", "intent_sha256", "kernel", "kind", "mode", "policy", "policy_sha256",
		"reasons", "result_kind", "result_sha256", "run_id", "timestamp",
	},
	KindError: {
		"clock_behind_ms?", "code", "execution_mode", "intent_sha256", "kernel", "kind", "mode", "policy",
		"policy_sha256", "rule_id?", "run_id", "timestamp",
	},
}

// members are the members of the record, as those of its kind stand.
func (r Record) members() []string {
	if !r.Former {
		return members[r.Kind]
	}
	return slices.DeleteFunc(slices.Clone(members[r.Kind]), func(m string) bool { return m == "accepted" || m == "result_kind" })
}

// Entry is the record as it is hashed: canonical JSON without a line feed. A record
// that ParseRecord would not read back is an error.
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
	}
	kernelEntry struct {
		Version string `json:"version"`
	}
	formerEntry struct {
		runEntry
		BundleSHA256 *canon.ContentHash `json:"bundle_sha256"`
		InputSHA256  canon.ContentHash  `json:"input_sha256"`
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
	run := runEntry{head, r.ExecutionMode, r.IntentSHA256, kernelEntry{r.Kernel}, r.Mode, r.Policy, r.PolicySHA256, r.RunID}
	former := formerEntry{runEntry: run, InputSHA256: r.InputSHA256}
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

// EndOf says whether the record, which ends a run, is one of the run that begun began: what
// was to be executed is what the end is of.
func (r Record) EndOf(begun Record) bool {
	same := r.RunID == begun.RunID && r.IntentSHA256 == begun.IntentSHA256 && r.ExecutionMode == begun.ExecutionMode &&
		r.Mode == begun.Mode && r.Policy == begun.Policy && r.PolicySHA256 == begun.PolicySHA256 && r.Kernel == begun.Kernel
	return same && (r.Kind == KindError || r.InputSHA256 == begun.InputSHA256 && r.BundleSHA256 == begun.BundleSHA256)
}

// SameRun says whether two terminal records tell the same end of one run: all but
// the times and what holds times (the RunResult as printed, and the evidence).
func (r Record) SameRun(o Record) bool {
	for _, p := range []*Record{&r, &o} {
		p.Timestamp, p.ClockBehindMS, p.ResultSHA256, p.Evidence, p.Former = "", 0, "", Blob{}, false
	}
	return slices.Equal(r.Reasons, o.Reasons) && slices.Equal(r.Repairs, o.Repairs) && r.scalars() == o.scalars()
}

// scalars is the record without its lists, which makes it comparable.
func (r Record) scalars() string {
	r.Reasons, r.Repairs = nil, nil
	return fmt.Sprintf("%#v", r)
}

// TimeFormat is the layout of a timestamp, which is in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Time is the record's timestamp.
func (r Record) Time() time.Time {
	t, _ := time.Parse(TimeFormat, r.Timestamp)
	return t
}

// Stamp sets the timestamp to now, or to the last record's where now is before it:
// the time of a ledger never goes backwards, and the record says by how much it
// would have.
func (r *Record) Stamp(now time.Time, last string) {
	r.Timestamp, r.ClockBehindMS = now.UTC().Format(TimeFormat), 0
	if r.Timestamp < last {
		before, _ := time.Parse(TimeFormat, last)
		r.Timestamp, r.ClockBehindMS = last, max(before.Sub(now.UTC().Truncate(time.Millisecond)).Milliseconds(), 1)
	}
}

// Reasons are the reasons of a decision as a record has them: the identifiers
// alone, with the number that belongs to an exit code or a signal. Pointers and
// paths, which are the intent's text, stay in the evidence.
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

// How many reasons and repairs a record has at most.
const (
	maxReasons = 64
	maxRepairs = 8
)
