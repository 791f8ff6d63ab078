package harness

import (
	"context"
	"errors"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/ledger"
)

// Sinks are the places that receive what a run leaves. A nil member takes nothing.
type Sinks struct {
	Receipt   func(ctx context.Context, r ledger.Receipt) error
	Recording func(modelIO, toolIO []byte) error // nil: no such call was made
	Pack      *PackSink
	Evidence  func(name string, text []byte) error // one file of the observed evidence
	Keep      func(p *execute.Performed) error     // the written files, accepted or not

	// Accepts says whether an execution may be promoted. Nil: it may if its decision is
	// accepted.
	Accepts func(p *execute.Performed) (bool, error)
	Promote *Promotion

	// Apply applies the change of a work item, in the place of Promote. Its decision is
	// recorded, and a kill is recovered, so that Apply runs even if the run was told to stop.
	Apply func(ctx context.Context) error
}

// PackSink receives the pack of a run.
type PackSink struct {
	Folder interface { // a *pack.Writer
		Stage(files map[string][]byte) error
		Commit() error
	}

	// Ledger adds the lines of the ledger about the run of these receipts, and the receipt of end.
	Ledger func(ctx context.Context, files map[string][]byte, begun, end ledger.Receipt) error

	Ready func() error          // called before the pack is put in its place
	Fault func(err error) error // returns the error for a pack that could not be written, and nil for nil
}

// Promotion is a folder that gets the accepted changes.
type Promotion struct {
	Folder func() (string, error) // called just before the folder is changed
	State  string                 // folder of the journal during the change
	Refuse func(dir string, plan *patch.Plan) error
}

// Deliver delivers the products of a run that ended in a result. Deliver is the only
// place that puts these steps in order:
//
//  1. [Run] has recorded the decision in the ledger. A run that cannot be recorded ends in
//     an error, and nothing is delivered.
//  2. Receipt: the proof that the decision is recorded.
//  3. Recording: the calls to models and services. The calls were made, so the recording is kept even if
//     the receipt was not.
//  4. Pack, staged: its files are written beside its place. An execution that cannot be
//     packed is not promoted.
//  5. Evidence, in the order stdout, stderr, runner.json; then Keep.
//  6. Promote, if the execution is accepted, and nobody has asked the run to stop. For a
//     work item, whose receipt was put in place before step 1 (Item), Apply.
//  7. Pack, in its place.
//
// An error ends the order; only after an error of step 2, step 3 still runs. Results of
// earlier steps stay: the record in the ledger, and the files. Later steps leave
// nothing. If Promote fails, the folder is unchanged, or the next command on it
// completes the change. So a pack in its place says that everything was delivered. An
// error after Promote leaves a changed folder without a pack; the record in the ledger
// shows that run.
//
// A kill at any time leaves the same, and also the files that a sink has begun beside
// its place. Each sink puts its files in place at once. Deliver does not close the
// execution.
func Deliver(ctx context.Context, deps Deps, rep Report, to Sinks) error {
	d := delivery{ctx, deps, rep, to}
	if err := errors.Join(d.receipt(), d.recording()); err != nil {
		return err
	}
	for _, step := range []func() error{d.stage, d.observed, d.promote, d.commit} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// delivery is a running Deliver.
type delivery struct {
	ctx  context.Context
	deps Deps
	rep  Report
	to   Sinks
}

func (d delivery) receipt() error {
	if d.rep.Receipt == nil || d.to.Receipt == nil {
		return nil
	}
	return d.to.Receipt(d.ctx, *d.rep.Receipt)
}

func (d delivery) recording() error {
	switch {
	case d.to.Recording == nil:
		return nil
	case d.rep.Execution == nil:
		return d.to.Recording(nil, nil)
	}
	return d.to.Recording(d.rep.Execution.ModelIO, d.rep.Execution.ToolIO)
}

// stage writes the pack beside its place. A pack that breaks a rule is never written.
func (d delivery) stage() error {
	w := d.to.Pack
	if w == nil {
		return nil
	}
	files, err := d.rep.Packing().Files(d.deps.Rand)
	if err != nil {
		return err
	}
	if d.rep.Receipt != nil {
		if err := w.Ledger(d.ctx, files, d.rep.Begun, *d.rep.Receipt); err != nil {
			return err
		}
	}
	if err := d.rep.checkPack(files); err != nil {
		return err
	}
	return w.Fault(w.Folder.Stage(files))
}

func (d delivery) observed() error {
	p := d.rep.Execution
	if p == nil {
		return nil
	}
	if d.to.Evidence != nil {
		record, err := p.RunnerRecord(d.deps.Rand)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			name string
			text []byte
		}{{"stdout", p.Stdout.Bytes}, {"stderr", p.Stderr.Bytes}, {pack.RunnerFile, record}} {
			if err := d.to.Evidence(f.name, f.text); err != nil {
				return err
			}
		}
	}
	if d.to.Keep == nil {
		return nil
	}
	return d.to.Keep(p)
}

func (d delivery) promote() error {
	p, to := d.rep.Execution, d.to.Promote
	if d.to.Apply != nil {
		return d.to.Apply(context.WithoutCancel(d.ctx))
	}
	if p == nil || to == nil {
		return nil
	}
	accepted := d.rep.Result.Decision.Accepted
	if d.to.Accepts != nil {
		var err error
		if accepted, err = d.to.Accepts(p); err != nil {
			return err
		}
	}
	if !accepted {
		return nil
	}
	if d.ctx.Err() != nil && len(p.Accepted) > 0 {
		return runerr.Stopped()
	}
	dir, err := to.Folder()
	if err != nil {
		return err
	}
	return p.Promote(d.ctx, to.State, dir, func(plan *patch.Plan) error {
		if to.Refuse == nil {
			return nil
		}
		return to.Refuse(dir, plan)
	})
}

func (d delivery) commit() error {
	w := d.to.Pack
	if w == nil {
		return nil
	}
	if err := w.Ready(); err != nil {
		return err
	}
	return w.Fault(w.Folder.Commit())
}
