// Package replay decides recorded decisions again, from their evidence in a ledger and by
// the policy that decided then or by another. It executes nothing and records nothing.
package replay

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
	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Status says how the replay of a recorded decision ended.
type Status string

// The ends of a replay.
const (
	Match            Status = "MATCH"                 // the same input, decision and RunResult
	DecisionDiffers  Status = "DECISION-DIFFERS"      // another input of the policy, another decision, or none
	CanonicalDiffers Status = "CANONICAL-DIFFERS"     // the same decision, and another RunResult
	EvidenceMissing  Status = testimony.StatusMissing // a blob is missing
	EvidenceCorrupt  Status = testimony.StatusCorrupt // a blob differs from the record, or contradicts itself
)

// Answer is a policy's decision about an intent, before any execution. Err is set if
// there is no decision.
type Answer struct {
	testimony.Answered
	Err *result.RunError
}

// Result is the result of the replay of a record.
type Result struct {
	Status Status

	// Document names the document that differs or is at fault: "record", "decision" or
	// "policy-set" of the evidence; "input", "decision" or "result" of a replay.
	// Difference is the first different place: A is recorded, B is new.
	Document   string
	Difference result.Difference

	Recorded Answer // zero if the evidence has no answer
	Now      Answer // zero if nothing was decided again
	Details  []string
}

// Session decides recorded decisions again. It keeps compiled policy sets, so one
// Session serves many records. One goroutine or many may use it.
//
// Evidence reads a blob as Recorder.Blob does, without a check. Its error wraps
// fs.ErrNotExist if there is no blob; any other error ends the replay without a status.
type Session struct {
	Specs    *specs.Set
	Evidence func(ledger.Blob) ([]byte, error)

	mu    sync.Mutex
	gates map[ledger.Blob]*compiled
}

// maxGates is the maximum number of policy sets that a Session keeps.
const maxGates = 16

// replayLimits are the limits of a policy that is compiled without the proofs of its
// program. They allow the time that this takes on a busy machine.
func replayLimits() policy.Limits {
	l := policy.DefaultLimits()
	l.Compile, l.Deadline = 30*time.Second, 30*time.Second
	return l
}

// Replay decides the intent of a recorded decision again, from its own evidence and by
// the policy that decided it. Replay executes nothing: it takes the observations of an
// execution from the recorded result. The error, always a *result.RunError, says that no
// replay was possible: the record has no decision, the evidence could not be read, or
// the policy was stopped.
func (r *Session) Replay(ctx context.Context, rec ledger.Record) (rp Result, err error) {
	defer recovered(&rp, &err)
	t, err := r.Read(rec)
	if err != nil {
		return found(err)
	}
	var m made
	gate, err := r.thaw(ctx, t, rec)
	if err == nil {
		m, err = r.again(ctx, gate, t, rec, contractOf(t.Input))
	}
	if err != nil {
		return undecided(t, rec, err)
	}
	rp = m.replayed(t, rec)
	if err := m.compare(t, rec, &rp); err != nil {
		return Result{}, err
	}
	return rp, nil
}

// With decides the intent of a recorded decision by another policy. MATCH means the same
// outcome for the same reasons. With compares the evidence with the record as Replay
// does, except the policy set.
func (r *Session) With(ctx context.Context, gate *harness.Gate, rec ledger.Record) (rp Result, err error) {
	defer recovered(&rp, &err)
	t, err := r.Read(rec)
	if err != nil {
		return found(err)
	}
	m, err := r.again(ctx, gate, t, rec, "")
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
	text, err := canon.Canonical(a.Answered)
	if err != nil {
		return nil
	}
	doc, _ := canon.ParseCanonical(text, len(text))
	return doc.Value()
}

func (m made) replayed(t testimony.Decided, rec ledger.Record) Result {
	now := Answer{Answered: testimony.Answered{Outcome: m.decision.Outcome, Reasons: m.decision.Reasons}}
	return Result{Status: Match, Recorded: Answer{Answered: t.Answer}, Now: now, Details: details(t, rec)}
}

func recovered(rp *Result, err *error) {
	if p := recover(); p != nil {
		*rp, *err = Result{}, runerr.Panicked()
	}
}

// found ends a replay whose evidence is at fault.
func found(err error) (Result, error) {
	if f, ok := errors.AsType[*testimony.Fault](err); ok {
		return Result{Status: Status(f.Status), Document: f.Document, Difference: f.Difference, Details: []string{f.Detail}}, nil
	}
	return Result{}, runerr.Of(runerr.Testimony(err))
}

// undecided ends a replay that gives no decision. This is a difference, because the
// record has a decision. If the policy was stopped, undecided returns an error.
func undecided(t testimony.Decided, rec ledger.Record, err error) (Result, error) {
	re := runerr.Of(runerr.Testimony(err))
	if _, ok := errors.AsType[*testimony.Fault](err); ok {
		rp, err := found(err)
		rp.Recorded = Answer{Answered: t.Answer}
		return rp, err
	}
	if pe, ok := errors.AsType[*policy.Error](err); ok && (pe.Kind == policy.KindTimeout || pe.Kind == policy.KindWatchdog) {
		return Result{}, re
	}
	return Result{
		Status: DecisionDiffers, Document: "decision", Recorded: Answer{Answered: t.Answer}, Now: Answer{Err: re},
		Details: append(details(t, rec), "no decision now: "+re.Message),
	}, nil
}

func details(t testimony.Decided, rec ledger.Record) []string {
	var list []string
	if rec.Kernel != kernel.Version {
		list = append(list, "recorded by kernel "+rec.Kernel+"; this is "+kernel.Version+", and a bundle and a result name their kernel")
	}
	if t.RunResult.Execution != nil {
		list = append(list, "the execution is the recorded one; nothing was executed again")
	}
	return list
}

// Read reads the evidence of a recorded decision. It refuses a record of another kind with a
// *result.RunError; other errors are those of testimony.Read.
func (r *Session) Read(rec ledger.Record) (testimony.Decided, error) {
	if rec.Kind != ledger.KindDecision {
		return testimony.Decided{}, runerr.New(result.CodeEvidence, "a record of kind "+strconv.Quote(string(rec.Kind))+" has no decision to replay",
			"fiador ledger list --kind decision lists what can be replayed")
	}
	return testimony.Read(r.Evidence, r.Specs, rec)
}

// thaw returns the gate that decided, compiled from its policy set. The text of the
// recorded modules decides, whatever this program's own policy is.
func (r *Session) thaw(ctx context.Context, t testimony.Decided, rec ledger.Record) (*harness.Gate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.gates[t.Policy]
	if !ok {
		set, err := testimony.ReadPolicySet(r.Evidence, r.Specs, t.Policy)
		if err != nil {
			return nil, err
		}
		known = &compiled{gate: &harness.Gate{Profile: set.Profile, Builtin: set.Builtin, Base: set.Base, Layers: set.Layers}, provenance: set.Provenance}
		if len(r.gates) >= maxGates || r.gates == nil {
			r.gates = map[ledger.Blob]*compiled{}
		}
		r.gates[t.Policy] = known
	}
	told := t.RunResult.PolicyProvenance
	told.ToolsSHA256 = "" // no policy set has it
	if _, own, err := canon.Artifact(told); err != nil || known.provenance != own {
		return nil, testimony.Corrupt("record", "/policy_sha256", "the policy set is not the one of the record")
	}
	if known.gate.Judge == nil {
		if err := known.compile(ctx); err != nil {
			return nil, err
		}
	}
	return known.gate, nil
}

// compiled is the gate of a policy set. Its gate has no Judge before compilation.
type compiled struct {
	gate       *harness.Gate
	provenance canon.ContentHash
}

// compile compiles the policy of the gate. No module counts as embedded: the proofs of a
// program about its own policy are no proofs about this one.
func (k *compiled) compile(ctx context.Context) error {
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

// contractOf returns the version in which the input of a policy was put, as policy.Input
// has it.
func contractOf(input []byte) string {
	asked, err := testimony.Parse(input, testimony.MaxBlobBytes)
	if v, _ := canon.Lookup(asked.Value(), "/contract"); err == nil {
		for _, old := range policy.EarlierContracts() {
			if v == old {
				return old
			}
		}
	}
	return ""
}

// again decides the intent of a testimony, and asks the policy in a version of the contract.
// The policy gets the same kernel as in the record.
func (r *Session) again(ctx context.Context, gate *harness.Gate, t testimony.Decided, rec ledger.Record, contract string) (made, error) {
	m := made{gate: gate, req: harness.Request{
		Source: t.Intent, Path: t.RunResult.Intent.Path, Mode: rec.ExecutionMode, ModelMode: rec.Mode, RunID: rec.RunID,
		Contract: contract,
	}}
	tools := t.RunResult.PolicyProvenance.ToolsSHA256
	bound, err := recordedTools(tools, t.Input)
	if err != nil {
		return m, err
	}
	m.req.Calls = bound.foreign()
	if tools != "" {
		m.gate = &harness.Gate{
			Profile: gate.Profile, Builtin: gate.Builtin, Base: gate.Base, Layers: gate.Layers,
			Provenance: gate.Provenance, Judge: gate.Judge, IDs: gate.IDs,
		}
		m.gate.UseTools(bound)
		gate = m.gate
	}
	in, intent, err := gate.Ask(r.Specs, m.req)
	if err != nil {
		return m, err
	}
	m.in = in
	m.in.KernelVersion = rec.Kernel
	m.decision, err = gate.Decide(ctx, m.in, intent)
	return m, err
}

// made is a decision that was made again.
type made struct {
	gate     *harness.Gate
	req      harness.Request
	in       policy.Input
	decision kernel.Decision
}

// compare compares the new decision with the Decided, in the order of a run.
func (m made) compare(t testimony.Decided, rec ledger.Record, rp *Result) error {
	differs := func(status Status, document string, recorded, now []byte) bool {
		if bytes.Equal(recorded, now) {
			return false
		}
		rp.Status, rp.Document, rp.Difference = status, document, testimony.FirstDifference(recorded, now)
		return true
	}
	input, _, err := canon.Artifact(m.in.Document())
	if err != nil {
		return runerr.Internal("the input of the policy has no canonical form", err)
	}
	if differs(DecisionDiffers, "input", t.Input, input) {
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
	differs(CanonicalDiffers, "result", t.Result, res)
	return nil
}

// decisions returns the recorded decision and the new one. If the kernels differ, both
// are without the bundle, because its hash always differs then. The results show that
// difference.
func (m made) decisions(t testimony.Decided, rec ledger.Record) (recorded, now []byte, err error) {
	doc := testimony.DocumentOf(m.decision)
	recorded = t.Decision
	if rec.Kernel != kernel.Version {
		parsed, err := testimony.Parse(t.Decision, testimony.MaxBlobBytes)
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

// result returns the RunResult of the new decision, with the times and the execution of
// the recorded one.
func (m made) result(t testimony.Decided) ([]byte, error) {
	var execution *kernel.Execution
	if t.RunResult.Execution != nil {
		e := *t.RunResult.Execution
		var err error
		if e.SandboxID, err = evidence.SandboxID(m.decision.BundleHash, m.gate.Profile.Contract()); err != nil {
			return nil, err
		}
		e.Reasons, e.TotalOutputBytes = t.RunResult.Decision.Reasons, 0
		for _, f := range e.Outputs {
			e.TotalOutputBytes += f.SizeBytes
		}
		execution = &e
	}
	res := m.gate.Result(m.req, m.decision, execution)
	res.StartedAt, res.CompletedAt = t.RunResult.StartedAt, t.RunResult.CompletedAt
	return res.Bytes()
}
