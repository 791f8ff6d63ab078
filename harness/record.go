package harness

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Recorder stores records in a ledger. Many runs use a Recorder at once. It is a
// pointer: a Gate remembers which Recorder has its policy set. Its errors name nothing
// of the machine. An error with a method Hint() string says how to solve the problem.
type Recorder interface {
	// Put stores content under its hash. The content is durable when an Append that
	// was called later returns. Content that exists already is stored once.
	Put(blob []byte) (ledger.Blob, error)

	// Append adds a record, and sets its timestamp. The record is durable when Append
	// returns. If the ledger has a terminal record of the same end of the run, Append
	// returns that record's receipt, with Again. Two cases are errors: the run has a
	// different record, or a begun record comes after the end of the run. If the ledger
	// has a begun record of a killed run already, Append returns its receipt: a retry
	// executes once more. The caller makes sure that a run id is used by one run at a
	// time.
	Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error)

	// Blob reads content back without a check, at most one byte more than its size. The
	// error wraps fs.ErrNotExist if there is no such content.
	Blob(b ledger.Blob) ([]byte, error)
}

// lastWords is the maximum time for a record after the run was told to stop.
const lastWords = 10 * time.Second

// account writes the records of one run to the Recorder. Without a Recorder it does
// nothing.
type account struct {
	to     Recorder
	specs  *specs.Set
	gate   *Gate
	req    Request
	head   ledger.Record // members that all records of the run share
	input  []byte
	policy ledger.Blob
	work   *ledger.Work // of the next begun or decision; nil: the run is for no work item
	closed bool         // the run has its terminal record, or an Append has failed
	begun  ledger.Receipt
}

func newAccount(deps Deps, gate *Gate, req Request) (*account, error) {
	a := &account{to: deps.Recorder, specs: deps.Specs, gate: gate, req: req}
	if a.to == nil {
		return a, nil
	}
	_, provenance, err := canon.Artifact(gate.Provenance)
	if err != nil {
		return nil, runerr.Internal("the policy has no canonical form", err)
	}
	a.head = ledger.Record{
		RunID: req.RunID, IntentSHA256: canon.Sum(req.Source), ExecutionMode: req.Mode, Mode: req.ModelMode,
		Policy: gate.Profile.Name, PolicySHA256: provenance, Kernel: kernel.Version,
	}
	return a, nil
}

// asked notes the question to the policy, and stores the policy itself. If evidence
// cannot be stored, the run ends before anything is executed.
func (a *account) asked(in policy.Input) error {
	if a.to == nil {
		return nil
	}
	var err error
	if a.input, _, err = canon.Artifact(in.Document()); err != nil {
		return runerr.Internal("the input of the policy has no canonical form", err)
	}
	a.policy, err = a.gate.kept(a.to)
	return err
}

// begin records that an execution will have its first effect now.
func (a *account) begin(ctx context.Context, d kernel.Decision) (err error) {
	switch {
	case a.to == nil:
		return nil
	case ctx.Err() != nil:
		return runerr.Stopped()
	}
	rec := a.head
	rec.Kind, rec.InputSHA256, rec.BundleSHA256, rec.Work = ledger.KindBegun, canon.Sum(a.input), d.BundleHash, a.work
	if a.begun, err = a.append(ctx, rec); err != nil {
		return recordError("the beginning of the execution could not be recorded, so nothing was executed", err)
	}
	return nil
}

// decide records a decision. If the run was recorded before, the report becomes the
// recorded one.
func (a *account) decide(ctx context.Context, rep *Report, sealed canon.Document) error {
	if a.to == nil {
		return nil
	}
	t := testimony.Decided{Intent: a.req.Source, Input: a.input, Result: rep.Bytes, Policy: a.policy, Work: a.work, RunResult: rep.Result}
	var err error
	if t.Canonical, err = result.Digest(sealed.Value().(map[string]any)); err != nil {
		return runerr.Internal("the result has no canonical form", err)
	}
	if t.Decision, _, err = canon.Artifact(testimony.DocumentOf(rep.Decision)); err != nil {
		return runerr.Internal("the decision has no canonical form", err)
	}
	blob, err := t.Blob()
	if err != nil {
		return runerr.Internal("the evidence has no canonical form", err)
	}
	if canon.Crowded(t.Decision, testimony.MaxValues) || canon.Crowded(t.Result, testimony.MaxValues) {
		return evidenceTooLarge(strconv.Itoa(testimony.MaxValues) + " values")
	}
	evidence, err := keep(a.to, blob)
	if err != nil {
		return err
	}
	rec, err := t.Record(evidence)
	if err != nil {
		return runerr.Internal("the record has no canonical form", err)
	}
	receipt, err := a.append(ctx, rec)
	if err != nil {
		return recordError("the decision could not be recorded, so it does not count", err)
	}
	a.closed, rep.Begun, rep.Receipt = true, a.begun, &receipt
	if !receipt.Again {
		return nil
	}
	return a.repeat(rep, receipt.Record)
}

// repeat replaces the result in a report by the recorded result: a second run under the
// same id gets the result of the first.
func (a *account) repeat(rep *Report, rec ledger.Record) error {
	told, err := testimony.Read(a.to.Blob, a.specs, rec)
	if err != nil {
		f, ok := errors.AsType[*testimony.Fault](err)
		if !ok {
			return runerr.Testimony(err)
		}
		return runerr.New(result.CodeEvidence, "run "+strconv.Quote(rec.RunID)+" was recorded before, and its result is lost: "+f.Error(),
			"restore the evidence of the ledger, or use another --run-id to decide the intent again", runerr.With("status", f.Status), runerr.Because(err))
	}
	if told.RunResult.Execution != nil {
		told.RunResult.Execution.Reasons = told.RunResult.Decision.Reasons
	}
	rep.Result, rep.Bytes = told.RunResult, told.Result
	return nil
}

// fail records that the run has ended in an error, and returns that error. If the record
// failed, the error says so.
func (a *account) fail(ctx context.Context, err error) error {
	if a.to == nil || a.closed {
		return err
	}
	e := runerr.Of(err)
	rec := a.head
	rec.Kind, rec.Code = ledger.KindError, string(e.Code)
	if ledger.RuleID(e.RuleID) {
		rec.RuleID = e.RuleID
	}
	if _, failed := a.append(ctx, rec); failed != nil {
		told := *e
		told.Details = maps.Clone(e.Details)
		runerr.With("not_recorded", canon.Cut(failed.Error()))(&told)
		told.Hint = "the error could not be recorded: " + canon.Cut(failed.Error())
		if e.Hint != "" {
			told.Hint = e.Hint + "; " + told.Hint
		}
		return &told
	}
	return err
}

// append appends a record, even if the run was told to stop, for at most the time
// lastWords. After a failed Append the run appends nothing more, because the record may
// or may not exist.
func (a *account) append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	recording, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(lastWords):
			cancel()
		case <-recording.Done():
		}
	})
	defer stop()
	receipt, err := a.to.Append(recording, rec)
	a.closed = a.closed || err != nil
	return receipt, err
}

// keep puts a blob that a replay can read.
func keep(to Recorder, blob []byte) (ledger.Blob, error) {
	if len(blob) > testimony.MaxBlobBytes {
		return ledger.Blob{}, evidenceTooLarge(strconv.Itoa(testimony.MaxBlobBytes) + " bytes")
	}
	b, err := to.Put(blob)
	if err != nil {
		return ledger.Blob{}, recordError("the evidence could not be kept, so the decision does not count", err)
	}
	return b, nil
}

// frozenSet remembers which Recorder has the policy set of a gate.
type frozenSet struct {
	sync.Mutex
	in   Recorder
	blob ledger.Blob
}

// kept returns the gate's policy set in a Recorder, and puts it there once.
func (g *Gate) kept(to Recorder) (ledger.Blob, error) {
	g.set.Lock()
	defer g.set.Unlock()
	if g.set.in == to {
		return g.set.blob, nil
	}
	text, err := testimony.PolicyBlob(policy.Freeze(g.Profile, g.Layers), g.Base, g.Builtin)
	if err != nil {
		return ledger.Blob{}, runerr.Internal("the policy has no canonical form", err)
	}
	b, err := keep(to, text)
	if err != nil {
		return ledger.Blob{}, err
	}
	g.set.in, g.set.blob = to, b
	return b, nil
}

func evidenceTooLarge(limit string) *result.RunError {
	return runerr.New(result.CodeEvidence, "the evidence of the decision is too large to be recorded: the limit is "+limit,
		"split the intent, or let it leave fewer files behind")
}

// recordError is the RunError for a failed operation of a Recorder.
func recordError(what string, cause error) *result.RunError {
	e := runerr.New(result.CodeEvidence, what+": "+cause.Error(),
		"fiador ledger verify says what state the ledger is in; mend it and run the intent again", runerr.Because(cause))
	var with interface{ Hint() string }
	if errors.As(cause, &with) && with.Hint() != "" {
		e.Hint = with.Hint()
	}
	return e
}
