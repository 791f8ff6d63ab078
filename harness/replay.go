package harness

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
)

// Status is how the replay of a recorded decision ended.
type Status string

// The ends of a replay.
const (
	Match            Status = "MATCH"             // the same input, decision and RunResult
	DecisionDiffers  Status = "DECISION-DIFFERS"  // another input of the policy, another decision, or none
	CanonicalDiffers Status = "CANONICAL-DIFFERS" // the same decision, and another RunResult
	EvidenceMissing  Status = "EVIDENCE-MISSING"  // a blob is not there
	EvidenceCorrupt  Status = "EVIDENCE-CORRUPT"  // a blob is not what the record says, or contradicts itself
)

// Answer is what a policy decides about an intent, before anything is executed. Err
// stands in place of a decision.
type Answer struct {
	Outcome kernel.Outcome   `json:"outcome"`
	Reasons []string         `json:"reasons"`
	Err     *result.RunError `json:"-"`
}

// Replayed is what came of the replay of a record.
type Replayed struct {
	Status Status

	// Document says what differs or is at fault: "record", "decision" or "policy-set"
	// of the evidence, "input", "decision" or "result" of a replay. Difference is its
	// first place: A as it was recorded, B as it is now.
	Document   string
	Difference result.Difference

	Recorded Answer // zero where the evidence says nothing
	Now      Answer // zero where nothing was decided again
	Details  []string
}

// Replayer decides recorded decisions again. Policy sets that it has compiled it keeps,
// so that one Replayer is for many records. It is used by one goroutine or many.
//
// Evidence reads a blob as Recorder.Blob does: what is there, whatever its bytes are
// now. Its error wraps fs.ErrNotExist if there is none, and any other error ends the
// replay without a status.
type Replayer struct {
	Deps     Deps // only Specs is used
	Evidence func(ledger.Blob) ([]byte, error)

	mu    sync.Mutex
	gates map[ledger.Blob]*thawed
}

// maxGates is how many policy sets a Replayer keeps.
const maxGates = 16

// replayLimits give a policy that is compiled without what its program has proved of
// it the time that it takes on a busy machine.
func replayLimits() policy.Limits {
	l := policy.DefaultLimits()
	l.Compile, l.Deadline = 30*time.Second, 30*time.Second
	return l
}

// Replay is Replayer.Replay of one record.
func Replay(ctx context.Context, deps Deps, evidence func(ledger.Blob) ([]byte, error), rec ledger.Record) (Replayed, error) {
	return (&Replayer{Deps: deps, Evidence: evidence}).Replay(ctx, rec)
}

// ReplayWith is Replayer.With of one record.
func ReplayWith(ctx context.Context, deps Deps, gate *Gate, evidence func(ledger.Blob) ([]byte, error), rec ledger.Record) (Replayed, error) {
	return (&Replayer{Deps: deps, Evidence: evidence}).With(ctx, gate, rec)
}

// Replay decides the intent of a recorded decision again, from its own evidence and by
// the policy that decided it. Nothing is executed: what an execution has observed is
// taken from the recorded result. The error, always a *result.RunError, says that the
// replay could not be made: the record is none of a decision, the evidence could not be
// read, or the policy was stopped.
func (r *Replayer) Replay(ctx context.Context, rec ledger.Record) (rp Replayed, err error) {
	defer recovered(&rp, &err)
	t, err := r.testify(rec)
	if err != nil {
		return found(err)
	}
	gate, err := r.thaw(ctx, t, rec)
	if err != nil {
		return undecided(t, rec, err)
	}
	m, err := r.again(ctx, gate, t, rec)
	if err != nil {
		return undecided(t, rec, err)
	}
	rp = m.replayed(t, rec)
	if err := m.compare(t, rec, &rp); err != nil {
		return Replayed{}, err
	}
	return rp, nil
}

// With decides the intent of a recorded decision by another policy: MATCH is the same
// outcome for the same reasons. The evidence is held against the record as Replay does,
// without the policy set.
func (r *Replayer) With(ctx context.Context, gate *Gate, rec ledger.Record) (rp Replayed, err error) {
	defer recovered(&rp, &err)
	t, err := r.testify(rec)
	if err != nil {
		return found(err)
	}
	m, err := r.again(ctx, gate, t, rec)
	if err != nil {
		return undecided(t, rec, err)
	}
	rp = m.replayed(t, rec)
	if d, differs := result.Compare(rp.Recorded.value(), rp.Now.value()); differs {
		rp.Status, rp.Document, rp.Difference = DecisionDiffers, "decision", d
	}
	return rp, nil
}

// value returns the answer as a decoded value.
func (a Answer) value() any {
	a.Reasons = append([]string{}, a.Reasons...)
	text, err := canon.Canonical(a)
	if err != nil {
		return nil
	}
	doc, _ := canon.ParseCanonical(text, len(text))
	return doc.Value()
}

func (m made) replayed(t testimony, rec ledger.Record) Replayed {
	now := Answer{Outcome: m.decision.Outcome, Reasons: m.decision.Reasons}
	return Replayed{Status: Match, Recorded: t.answer, Now: now, Details: details(t, rec)}
}

func recovered(rp *Replayed, err *error) {
	if p := recover(); p != nil {
		*rp, *err = Replayed{}, runerr.Panicked()
	}
}

// found is the end of a replay whose evidence is at fault.
func found(err error) (Replayed, error) {
	var f *fault
	if errors.As(err, &f) {
		return Replayed{Status: f.status, Document: f.document, Difference: f.difference, Details: []string{f.detail}}, nil
	}
	return Replayed{}, runError(err)
}

// undecided is the end of a replay that gives no decision: a difference, for there was
// one; unless the policy was stopped, which says nothing.
func undecided(t testimony, rec ledger.Record, err error) (Replayed, error) {
	var f *fault
	var pe *policy.Error
	re := runError(err)
	switch {
	case errors.As(err, &f):
		rp, err := found(err)
		rp.Recorded = t.answer
		return rp, err
	case errors.As(err, &pe) && (pe.Kind == policy.KindTimeout || pe.Kind == policy.KindWatchdog):
		return Replayed{}, re
	}
	return Replayed{
		Status: DecisionDiffers, Document: "decision", Recorded: t.answer, Now: Answer{Err: re},
		Details: append(details(t, rec), "no decision now: "+re.Message),
	}, nil
}

func details(t testimony, rec ledger.Record) []string {
	var list []string
	if rec.Kernel != kernel.Version {
		list = append(list, "recorded by kernel "+rec.Kernel+"; this is "+kernel.Version+", and a bundle and a result name their kernel")
	}
	if t.res.Execution != nil {
		list = append(list, "the execution is the recorded one; nothing was executed again")
	}
	return list
}

func (r *Replayer) testify(rec ledger.Record) (testimony, error) {
	if rec.Kind != ledger.KindDecision {
		return testimony{}, runerr.New(result.CodeEvidence, "a record of kind "+strconv.Quote(string(rec.Kind))+" has no decision to replay",
			"fiador ledger list --kind decision lists what can be replayed")
	}
	return testify(r.Evidence, r.Deps.Specs, rec)
}

// thaw is the gate that decided, compiled from its policy set. The text of the frozen
// modules decides, whatever this program's own policy is.
func (r *Replayer) thaw(ctx context.Context, t testimony, rec ledger.Record) (*Gate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.gates[t.policy]
	if !ok {
		doc, err := fetch(r.Evidence, r.Deps.Specs, t.policy, blobPolicySet)
		if err != nil {
			return nil, err
		}
		if known, err = thaw(doc, t.policy); err != nil {
			return nil, err
		}
		if len(r.gates) >= maxGates || r.gates == nil {
			r.gates = map[ledger.Blob]*thawed{}
		}
		r.gates[t.policy] = known
	}
	if known.provenance != rec.PolicySHA256 {
		return nil, corrupt("record", "/policy_sha256", "the policy set is not the one of the record")
	}
	if known.gate.Judge == nil {
		if err := known.compile(ctx); err != nil {
			return nil, err
		}
	}
	return known.gate, nil
}

// compile makes the gate decide. No module counts as embedded: what a program proves
// of its own policy it has not proved of this one.
func (k *thawed) compile(ctx context.Context) error {
	layers := slices.Clone(k.gate.Layers)
	for i := range layers {
		layers[i].Embedded = false
	}
	engine, err := policy.New(ctx, k.gate.Profile, layers, replayLimits())
	if err != nil {
		return runerr.Load(err)
	}
	k.gate.Provenance, k.gate.Judge, k.gate.IDs = engine.Provenance(), engine, engine.IDs
	return nil
}

// again decides the intent of a testimony. The policy is told the kernel that it was
// told.
func (r *Replayer) again(ctx context.Context, gate *Gate, t testimony, rec ledger.Record) (made, error) {
	m := made{gate: gate, req: Request{
		Source: t.intent, Path: t.res.Intent.Path, Mode: rec.ExecutionMode, ModelMode: rec.Mode, RunID: rec.RunID,
	}}
	if err := checkModes(gate.Profile, m.req); err != nil {
		return m, err
	}
	doc, intent, err := read(r.Deps.Specs, m.req)
	if err != nil {
		return m, err
	}
	m.in = question(gate.Profile, m.req, doc, intent)
	m.in.KernelVersion = rec.Kernel
	m.decision, err = judge(ctx, gate, m.in, intent)
	return m, err
}

// made is a decision that was made again.
type made struct {
	gate     *Gate
	req      Request
	in       policy.Input
	decision kernel.Decision
}

// compare holds what was decided again against the testimony, in the order of a run.
func (m made) compare(t testimony, rec ledger.Record, rp *Replayed) error {
	differs := func(status Status, document string, recorded, now []byte) bool {
		if bytes.Equal(recorded, now) {
			return false
		}
		rp.Status, rp.Document, rp.Difference = status, document, firstDifference(recorded, now)
		return true
	}
	input, _, err := canon.Artifact(m.in.Document())
	if err != nil {
		return runerr.Internal("the input of the policy has no canonical form", err)
	}
	if differs(DecisionDiffers, "input", t.input, input) {
		return nil
	}
	recorded, now, err := m.decisions(t, rec)
	if err != nil {
		return runerr.Internal("the decision has no canonical form", err)
	}
	if differs(DecisionDiffers, "decision", recorded, now) {
		return nil
	}
	res, err := m.result(t)
	if err != nil {
		return runerr.Internal("the result has no canonical form", err)
	}
	differs(CanonicalDiffers, "result", t.result, res)
	return nil
}

// decisions are the recorded decision and the one that was made again. Another kernel's
// bundle has another hash, whatever it says; the results differ in it.
func (m made) decisions(t testimony, rec ledger.Record) (recorded, now []byte, err error) {
	doc := decisionDocument(m.decision)
	recorded = t.decision
	if rec.Kernel != kernel.Version {
		parsed, err := parseText(t.decision, MaxBlobBytes)
		if err != nil {
			return nil, nil, err
		}
		old := maps.Clone(parsed.Value().(map[string]any))
		old["bundle"], doc.Bundle = nil, nil
		if recorded, _, err = canon.Artifact(old); err != nil {
			return nil, nil, err
		}
	}
	now, _, err = canon.Artifact(doc)
	return recorded, now, err
}

// result is the RunResult of the decision that was made again, with the times and the
// execution of the recorded one.
func (m made) result(t testimony) ([]byte, error) {
	var execution *kernel.Execution
	if t.res.Execution != nil {
		e := *t.res.Execution
		var err error
		if e.SandboxID, err = evidence.SandboxID(m.decision.BundleHash, m.gate.Profile.Contract()); err != nil {
			return nil, err
		}
		e.Reasons, e.TotalOutputBytes = t.res.Decision.Reasons, 0
		for _, f := range e.Outputs {
			e.TotalOutputBytes += f.SizeBytes
		}
		execution = &e
	}
	res := compose(m.gate, m.req, m.decision, execution)
	res.StartedAt, res.CompletedAt = t.res.StartedAt, t.res.CompletedAt
	return res.Bytes()
}
