// Package harness runs the decision pipeline, and is the only place that puts the steps
// of a run and its effects in order.
//
// Each step passes a value to the next: bytes → canonical document → schema → intent,
// effects, findings → verdict → decision → RunResult → its bytes. RS1..RS8 are checked
// on these bytes before anybody sees them. A run ends in a checked result or in an
// error, never in both.
//
// With a Recorder a run leaves a record: of its decision before anybody sees the result,
// of the error that it ends in, and of an execution before its first effect. A result
// that could not be recorded is not returned. Package replay decides again from the
// evidence of a record.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/packing"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// The execution modes.
const (
	ModePlanOnly       = "plan-only"
	ModeExecuteSandbox = "execute-sandbox"
)

// The model modes.
const (
	ModelNone   = "none"
	ModelRecord = "record"
	ModelReplay = "replay"
)

// Judge answers questions to the policy about an intent, and names the rules.
type Judge interface {
	Eval(ctx context.Context, in policy.Input) (kernel.Verdict, error)
	Explain(ctx context.Context, in policy.Input) (policy.Explanation, error)
}

// Deps are the effects that a run may use. Time and randomness change only ephemeral
// members of the result.
type Deps struct {
	Now   func() time.Time
	Rand  io.Reader
	Specs *specs.Set

	// Runner sets up sandboxes of this machine; nil: nothing can be executed. Place carries out
	// the tasks; nil: in those sandboxes. Progress is called with the current action of an
	// execution; it may be nil.
	Runner   execute.Runner
	Place    execute.Place
	Progress func(action, of int)

	// Caller asks models in the model modes record and replay; nil: no intent is
	// executed in these modes. A Caller serves one run.
	Caller execute.Caller

	// ToolCache has the answers of earlier runs of this process to deterministic calls of
	// tools; nil: every call is made.
	ToolCache *execute.Cache

	// Asker makes the calls of tools that no process answers, or answers them from a
	// recording; nil: no intent with such a call is executed. An Asker serves one run.
	Asker execute.Asker

	// Secrets reads the secrets of tools; nil: no call that needs one is performed. A vault
	// serves one run.
	Secrets *secret.Vault

	// Recorder records every run of an intent that was read; nil: no run is recorded.
	Recorder Recorder
}

// Gate is a resolved profile and the policy that decides under it. It is safe
// for concurrent runs.
type Gate struct {
	Profile    kernel.Profile
	Builtin    bool           // the profile is a built-in one
	Base       string         // name of the built-in profile that the profile is or extends, or empty
	Layers     []policy.Layer // in the order in which they answer
	Provenance result.Provenance
	Judge      Judge
	Tools      Tools                       // nil: every call is one of a model
	IDs        func(layer string) []string // ids of a layer's rules, sorted

	set frozenSet
}

// Request is one intent to decide.
type Request struct {
	Source    []byte // the bytes of the intent
	Path      string // the name in results and messages: relative, a base name, or -
	Mode      string // an execution mode
	ModelMode string
	RunID     string // empty: made from the time and Rand
	Line      int    // line of a JSON Lines source, from 1 on; 0 for a file of its own
	Folders   Folders
	Contract  string // the earlier version of the policy contract that a replay asks in, or empty

	// Calls are calls of the intent, by action, that another program asks about and performs
	// itself; nil: the gate's tools bind the calls. Such a request is plan-only.
	Calls map[int]kernel.Call

	// Exec says how the one run action of the intent is executed; nil: like every
	// intent.
	Exec *Exec

	// Item is the work item whose run this is; nil: the run belongs to none.
	Item Item
}

// Item takes part in the run of a work item. Its methods are called in the order in which
// they stand here, each at most once.
type Item interface {
	// Begun returns the member work of the record begun.
	Begun() *ledger.Work

	// Perform performs the task. perform does it once, with whatever task it is given.
	Perform(ctx context.Context, task execute.Task, perform Perform) (*execute.Performed, error)

	// Sealed is called before the decision is recorded, with the result that will be printed.
	// It returns the member work of that record. Its error ends the run.
	Sealed(ctx context.Context, rep Report) (*ledger.Work, error)
}

// Perform performs a task as [execute.Perform] does.
type Perform func(ctx context.Context, task execute.Task) (*execute.Performed, error)

// text returns the text of the intent, with its name in messages.
func (r Request) text() runerr.Text {
	t := runerr.Text{Name: r.Path, Src: r.Source, Line: r.Line}
	if r.Line > 0 {
		t.Name += ":" + strconv.Itoa(r.Line)
	}
	return t
}

// Report is the end of a run that made a decision. Bytes is the checked RunResult in its
// printed form.
type Report struct {
	Result   result.RunResult
	Bytes    []byte
	Decision kernel.Decision
	Effects  []kernel.Effect // of the intent, whatever the decision

	// Execution is the execution of a BUNDLE, if there was one. It holds the written
	// files until it is closed.
	Execution *execute.Performed

	profile kernel.Profile // of the gate

	Begun   ledger.Receipt  // of the beginning of an execution; zero if there is none
	Receipt *ledger.Receipt // the ledger's receipt of the decision; nil without a Recorder
}

// Packing returns the run as what fills its pack.
func (r Report) Packing() packing.Run {
	return packing.Run{Result: r.Result, Bytes: r.Bytes, Decision: r.Decision, Execution: r.Execution}
}

// Pack returns the files of the run's pack, without lines of a ledger. A pack that breaks a
// rule is an error.
func (r Report) Pack(rand io.Reader) (map[string][]byte, error) {
	files, err := r.Packing().Files(rand)
	if err != nil {
		return nil, err
	}
	return files, r.checkPack(files)
}

// checkPack verifies the files of the run's pack.
func (r Report) checkPack(files map[string][]byte) error {
	contract := r.profile.Contract()
	return packing.Check(files, verify.Options{
		Profile: func(string) *kernel.PolicyProfile { return &contract },
		Whole:   func(string) *kernel.Profile { return &r.profile },
	})
}

// Run decides one intent, and in mode execute-sandbox carries out the allowed plan. The
// error is always a *result.RunError; after an error there is no result.
func Run(ctx context.Context, deps Deps, gate *Gate, req Request) (rep Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			rep, err = Report{}, runerr.Panicked()
		}
	}()
	started := deps.Now()
	deps.Now = steady(started, deps.Now)
	if req.RunID == "" {
		if req.RunID, err = NewRunID(started, deps.Rand); err != nil {
			return Report{}, err
		}
	}
	told, err := newAccount(deps, gate, req)
	if err != nil {
		return Report{}, err
	}
	if rep, err = run(ctx, deps, gate, req, started, told); err != nil {
		return Report{}, told.fail(ctx, err)
	}
	return rep, nil
}

// run does steps 2 to 10 for a run that has an id: it decides the intent, executes it if
// asked to, and records the result.
func run(ctx context.Context, deps Deps, gate *Gate, req Request, started time.Time, told *account) (rep Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = runerr.Panicked()
		}
		if err != nil {
			rep, err = rep.fail(err)
		}
	}()
	if err := cmp.Or(checkModes(gate.Profile, req), checkCaller(deps, req)); err != nil {
		return rep, err
	}
	in, intent, err := gate.ask(deps.Specs, req)
	if err != nil {
		return rep, err
	}
	decision, err := gate.Decide(ctx, in, intent)
	if err != nil {
		return rep, err
	}
	if err := told.asked(in); err != nil {
		return rep, err
	}
	var execution *kernel.Execution
	if req.Mode == ModeExecuteSandbox && decision.Outcome == kernel.OutcomeBundle {
		execution, rep.Execution, err = perform(ctx, deps, gate, req, intent, decision, told)
		if err != nil {
			return rep, runerr.Of(err)
		}
	}
	rep.Decision, rep.Effects, rep.profile, rep.Result = decision, in.Effects, gate.Profile, gate.Result(req, decision, execution)
	rep.Result.StartedAt, rep.Result.CompletedAt = ledger.Timestamp(started), ledger.Timestamp(deps.Now())
	var sealed canon.Document
	if rep.Bytes, sealed, err = gate.seal(rep.Result); err != nil {
		return rep, err
	}
	if req.Item != nil {
		if told.work, err = req.Item.Sealed(ctx, rep); err != nil {
			return rep, runerr.Of(err)
		}
	}
	err = told.decide(ctx, &rep, sealed)
	return rep, err
}

// steady returns the clock of one run, which has started at a time. Its times never go
// back, even if the clock of the machine is set while the run lasts.
func steady(started time.Time, now func() time.Time) func() time.Time {
	last := started
	return func() time.Time {
		if t := started.Add(now().Sub(started)); t.After(last) {
			last = t
		}
		return last
	}
}

// Result makes the RunResult of a decision under the gate, except for the times.
func (g *Gate) Result(req Request, decision kernel.Decision, execution *kernel.Execution) result.RunResult {
	res := result.RunResult{
		RunSchemaVersion: result.SchemaVersion,
		RunID:            req.RunID,
		KernelVersion:    kernel.Version,
		Policy:           g.Profile.Contract(),
		PolicyProvenance: g.Provenance,
		ExecutionMode:    req.Mode,
		ModelMode:        req.ModelMode,
		Intent:           result.IntentRef{Path: req.Path, SHA256: canon.Sum(req.Source)},
		KernelResultKind: decision.Outcome,
		Execution:        execution,
		Decision:         kernel.Conclude(decision, execution),
		ClarifyQuestions: decision.Questions(),
		RefuseReason:     decision.RefuseReason,
	}
	if decision.Bundle != nil {
		res.Bundle = &result.BundleRef{BundleID: decision.Bundle.ID, SHA256: decision.BundleHash}
	}
	return res
}

// fail ends a run without a result. It discards the execution.
func (r Report) fail(err error) (Report, error) {
	if r.Execution != nil {
		err = runerr.Of(errors.Join(err, r.Execution.Close()))
	}
	return Report{}, err
}

// read does steps 2 to 4: strict JSON, schema, intent.
func read(set *specs.Set, req Request) (map[string]any, kernel.Intent, error) {
	doc, err := canon.Parse(req.Source, canon.MaxIntentBytes)
	if err != nil {
		return nil, kernel.Intent{}, runerr.Read(req.text(), err)
	}
	violations, err := set.Validate(specs.KindIntent, req.checked(doc))
	if err != nil {
		return nil, kernel.Intent{}, runerr.Internal("the intent could not be held against its schema", err)
	}
	if len(violations) > 0 {
		return nil, kernel.Intent{}, runerr.NotIntent(req.text(), doc.Value(), violations)
	}
	intent, err := kernel.ParseIntent(doc.Value())
	if err == nil && req.Contract == "" {
		err = intent.CheckAnswers()
	}
	if err != nil {
		return nil, kernel.Intent{}, runerr.Intent(req.text(), err)
	}
	return doc.Value().(map[string]any), intent, nil
}

// checked returns the document that the schema of intents describes. Under an earlier
// contract, context.answers was free data.
func (r Request) checked(doc canon.Document) any {
	obj, _ := doc.Value().(map[string]any)
	free, _ := obj["context"].(map[string]any)
	if r.Contract == "" || free == nil {
		return doc.Value()
	}
	obj, free = maps.Clone(obj), maps.Clone(free)
	delete(free, "answers")
	obj["context"] = free
	return obj
}

// Decide does steps 5 and 6, verdict and decision, about an intent that was asked about.
// The error is always a *result.RunError.
func (g *Gate) Decide(ctx context.Context, in policy.Input, intent kernel.Intent) (kernel.Decision, error) {
	verdict, err := g.Judge.Eval(ctx, in)
	if err != nil {
		return kernel.Decision{}, runerr.Policy(err)
	}
	decision, err := kernel.Decide(intent, in.Effects, in.Findings, verdict)
	if err != nil {
		return kernel.Decision{}, runerr.Internal("the decision has no canonical form", err)
	}
	return decision, nil
}

// Question returns the question to the policy about an intent. Tests of a policy use the
// same document as their input. The error is always a *result.RunError.
func Question(set *specs.Set, p kernel.Profile, req Request) (policy.Input, error) {
	in, _, err := (&Gate{Profile: p}).ask(set, req)
	return in, err
}

// Ask reads an intent that the gate's profile allows to be decided so, and returns the
// question to the policy about it. The error is always a *result.RunError.
func (g *Gate) Ask(set *specs.Set, req Request) (policy.Input, kernel.Intent, error) {
	if err := checkModes(g.Profile, req); err != nil {
		return policy.Input{}, kernel.Intent{}, err
	}
	return g.ask(set, req)
}

func (g *Gate) ask(set *specs.Set, req Request) (policy.Input, kernel.Intent, error) {
	doc, intent, err := read(set, req)
	switch {
	case err != nil:
	case req.Calls != nil:
		intent = intent.Bind(req.Calls)
	case g.Tools != nil:
		intent, err = bind(g.Tools, req, intent)
	}
	if err != nil {
		return policy.Input{}, kernel.Intent{}, err
	}
	return policy.Input{
		Contract: req.Contract, Mode: req.Mode, ModelMode: req.ModelMode, KernelVersion: kernel.Version,
		Intent: whole(doc), IntentSHA256: string(canon.Sum(req.Source)),
		Effects: intent.Effects(g.Profile), Findings: intent.FindingsUnder(g.Profile),
	}, intent, nil
}

// whole returns the given intent with every member set, so that each policy rule finds
// all members. It leaves out $schema, which is for editors. Pointers into the given
// document stay right.
func whole(doc map[string]any) map[string]any {
	out := map[string]any{
		"actions": []any{}, "constraints": []any{}, "context": map[string]any{},
		"inputs": []any{}, "outputs": []any{},
	}
	maps.Copy(out, doc)
	delete(out, "$schema")
	return out
}

// seal is step 9: it returns the checked bytes of a result, and their document. A result
// that breaks an invariant, or names another policy than the gate's, is an internal
// error and is never printed.
func (g *Gate) seal(res result.RunResult) ([]byte, canon.Document, error) {
	b, err := res.Bytes()
	if err != nil {
		return nil, canon.Document{}, runerr.Internal("the result has no canonical form", err)
	}
	if fault := agree(b, res); fault != nil {
		return nil, canon.Document{}, fault
	}
	profile := g.Profile.Contract()
	doc, unsound := result.Sound(b, &profile)
	if unsound != nil {
		e := runerr.Internal(unsound.Error(), unsound.Err)
		e.RuleID = unsound.ID
		return nil, canon.Document{}, e
	}
	return b, doc, nil
}

// agree compares the bytes of a result with the bytes that encoding/json and jcs make,
// so that the canonical form does not depend on one encoder alone. A nil list, which
// both write as null, is refused too.
func agree(b []byte, res result.RunResult) *result.RunError {
	other, err := canon.TransformAgain(res) // b is read again below, with every check
	none := res.Decision.Reasons == nil || res.PolicyProvenance.Modules == nil
	if x := res.Execution; x != nil {
		none = none || x.Cmd == nil || x.Inputs == nil || x.Outputs == nil
	}
	if err != nil || none || !bytes.Equal(b, append(other, '\n')) {
		e := runerr.Internal("the result breaks an invariant: two encoders give other bytes", err)
		e.RuleID = "RS7"
		return e
	}
	return nil
}

// NewRunID returns the time and 64 random bits, in the form of result.RunIDLayout and
// hexadecimal digits.
func NewRunID(t time.Time, rand io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", runerr.Internal("no randomness for a run id", err)
	}
	return t.UTC().Format(result.RunIDLayout) + hex.EncodeToString(b[:]), nil
}
