package workcmd

import (
	"context"
	"fmt"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/ledger"
)

// decided looks for the decision of a pending run in its ledger, which the store names. named has
// the ledger that the user names.
func decided(a *cli.App, named *workflow.Workflow) workflow.Decided {
	return func(ctx context.Context, p history.Pending) (hash string, err error) {
		f, err := ledgers.Kept(a, ledgers.ReadFlags{Dir: p.Ledger, Key: p.Key}, named.Ledger, named.LedgerKey)
		if err != nil {
			return "", err
		}
		err = ledgers.Reading(ctx, a, f, func(log ledger.Source) error {
			_, w, err := decisionOf(ctx, log, p.RunID, true)
			if w == nil && err == nil {
				w, err = unsigned(log, p.RunID)
			}
			if w != nil {
				hash = w.Receipt
			}
			return err
		})
		return hash, err
	}
}

// decisionOf returns what the decision of a run says of a work item, and the index of its entry;
// nil if the ledger has none. all is that of ledger.Source: a change whose decision cannot be found is
// dropped.
func decisionOf(ctx context.Context, log ledger.Source, runID string, all bool) (at int64, w *ledger.Work, err error) {
	list, err := log.Find(ctx, runID, all)
	if err != nil {
		return 0, nil, err
	}
	for _, index := range list {
		e, err := log.Entry(ctx, index)
		if err != nil {
			return 0, nil, err
		}
		if e.Record.Kind == ledger.KindDecision && e.Record.Work != nil {
			at, w = index, e.Record.Work
		}
	}
	return at, w, nil
}

// unsigned looks for the decision of a run behind the last checkpoint. A kill can leave it
// there, and the next entry of the ledger signs it.
func unsigned(log ledger.Source, runID string) (w *ledger.Work, err error) {
	list, err := log.Behind()
	for _, rec := range list {
		if rec.RunID == runID && rec.Kind == ledger.KindDecision {
			w = rec.Work
		}
	}
	return w, err
}

// inLedger says why the ledger does not prove a receipt, or "".
func inLedger(ctx context.Context, log ledger.Source, r receipt.Receipt) (why string, err error) {
	run := r.Ephemeral.RunID
	at, w, err := decisionOf(ctx, log, run, false)
	if err != nil {
		return "", err
	}
	if w == nil {
		if w, err = unsigned(log, run); err != nil || w != nil {
			return "the decision of run " + run + " stands behind its last checkpoint: fiador ledger repair signs it", err
		}
		return "it has no decision of run " + run, nil
	}
	for _, m := range [][3]string{
		{"work.receipt", w.Receipt, r.ReceiptHash}, {"work.before", w.Before, r.Core.Before}, {"work.after", w.After, r.Core.After},
	} {
		if m[1] != m[2] {
			return fmt.Sprintf("%s of entry %d is not that of the receipt", m[0], at), nil
		}
	}
	return "", nil
}
