package workflow

import (
	"context"
	"errors"
	"slices"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Decided looks for the decision of a pending run in its ledger. It returns the receipt_hash
// that the decision names, or "" if the ledger has no decision of that run.
type Decided func(ctx context.Context, p history.Pending) (receiptHash string, err error)

// Recover ends what a killed run has left pending, and returns what it did, or "". A receipt that
// is not in its place, or whose decision its ledger does not have, is removed. Otherwise its
// change is applied, if the folder is still what it was before, and noted. If the folder is
// neither that nor what it becomes, Recover returns an error, or with discard notes that the
// change is not applied.
func (w *Workflow) Recover(ctx context.Context, decided Decided, discard bool) (did string, err error) {
	if err := w.Sweep(); err != nil {
		return "", err
	}
	p, err := w.Waiting()
	if err != nil || p == nil {
		return "", err
	}
	l, kept := p.Line, false
	if p.Ledger == "" {
		kept, err = w.Placed(l.ReceiptID)
	} else {
		var hash string
		hash, err = decided(ctx, *p)
		kept = hash == l.ReceiptHash
	}
	if err != nil {
		return "", err
	}
	if !kept {
		return "the killed run of item " + l.ItemID + " was not decided, and nothing of it is kept", w.Drop(*p)
	}
	if l.Status != receipt.Success || l.Before == l.After {
		return "the receipt of item " + l.ItemID + " is noted", w.Settle(l)
	}
	return w.bring(ctx, l, discard)
}

// bring applies the change of a pending receipt, unless it is applied already.
func (w *Workflow) bring(ctx context.Context, l history.Line, discard bool) (did string, err error) {
	r, err := w.Receipt(l.ReceiptID)
	if err != nil {
		return "", err
	}
	p := &plan{Workflow: w}
	p.Plan.Scratch = r.Core.Scratch
	p.how = workspace.Options{Scratch: p.scratch}
	state, err := p.scan(ctx)
	if err != nil {
		return "", err
	}
	before, after, err := l.States()
	if err != nil {
		return "", err
	}
	switch state {
	case after:
		if err := w.Store.Prune(ctx, w.Tree, before, after); err != nil {
			return "", stateError(ctx, err)
		}
		return "the change of item " + l.ItemID + " is applied", w.Settle(l)
	case before:
	default:
		if discard {
			l.Discarded = true
			return "the change of item " + l.ItemID + " is discarded", w.Settle(l)
		}
		return "", w.edited(ctx, l, before, state)
	}
	m, err := w.Store.Plan(ctx, w.Tree, state, after, p.how)
	if err != nil {
		return "", stateError(ctx, err)
	}
	defer m.Close()
	if err := m.Apply(ctx, w.Journals); err != nil {
		return "", stateError(ctx, err)
	}
	return "the change of item " + l.ItemID + " is applied", w.Settle(l)
}

// edited is the error for a folder that was edited while a change is pending.
func (w *Workflow) edited(ctx context.Context, l history.Line, before, state receipt.Hash) error {
	first := ""
	if list, err := w.Store.Diff(ctx, before, state); err == nil && len(list) > 0 {
		first = ": " + canon.Quote(list[0].Path)
	}
	return runerr.New(result.CodeEvidence, "the change of item "+l.ItemID+" was decided and not applied, and the folder was edited since then"+first,
		"put the folder back and run the command again, or keep the edit with fiador work run --discard", runerr.With("receipt_id", l.ReceiptID))
}

// stateError is the RunError for a state that cannot be had, or a folder that cannot be
// changed; nil for nil.
func stateError(ctx context.Context, err error) error {
	var re *result.RunError
	var of *workspace.Error
	var apply *workspace.ApplyError
	switch {
	case err == nil || errors.As(err, &re):
		return err
	case ctx.Err() != nil:
		return runerr.Stopped()
	case errors.Is(err, workspace.ErrDrift):
		return runerr.New(result.CodeEvidence, err.Error(), "run it again when nobody changes the folder", runerr.Because(err))
	case errors.As(err, &of):
		return runerr.New(result.CodeUnreadable, of.Error(), "a state has files, links and folders alone, which its user can read: remove the path, or move it elsewhere", runerr.Because(err))
	case errors.As(err, &apply):
		return runerr.New(result.CodeEvidence, "the folder could not be changed: "+runerr.Reason(err), "give the folder, and the folder for journals, room and permission", runerr.Because(err))
	}
	return history.Error(err)
}

func (it *item) line(r receipt.Receipt) history.Line {
	return history.Line{
		ReceiptID: r.ReceiptID, ReceiptHash: r.ReceiptHash, ItemID: it.ID, Key: it.key.String(),
		Before: r.Core.Before, After: r.Core.After, Status: r.Core.Status, Plan: it.sha,
	}
}

// known returns the newest success of the same key that has led to a state.
func (p *plan) known(key, state receipt.Hash) *history.Line {
	if p.Rerun {
		return nil
	}
	for _, l := range slices.Backward(p.lines) {
		if l.Success() && l.Key == key.String() && l.After == state.String() {
			return &l
		}
	}
	return nil
}

// duplicate returns the receipt of a success of another key with the same two states, which
// differ; "" if there is none.
func (it *item) duplicate() string {
	if it.after == it.before {
		return ""
	}
	for _, l := range it.lines {
		if l.Success() && l.Key != it.key.String() && l.Before == it.before.String() && l.After == it.after.String() {
			return l.ReceiptID
		}
	}
	return ""
}

// resultOf returns the result that a receipt of the history stands for.
func (w *Workflow) resultOf(l history.Line) (receipt.Result, error) {
	r, err := w.Receipt(l.ReceiptID)
	if err != nil {
		return receipt.Result{}, err
	}
	out := receipt.ResultOf(r)
	out.ID = l.ItemID
	return out, nil
}
