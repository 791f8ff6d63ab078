package workflow

import (
	"context"
	"errors"
	"io/fs"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
)

// Replayed says how a replay ended. Difference is the first path at which it left another
// file, and "" for none; Status is not success if the item did not even succeed.
type Replayed struct {
	Status     receipt.Status
	Why        string // without success
	Difference string
}

// Match says whether the replay has made the same change.
func (r Replayed) Match() bool { return r.Status == receipt.Success && r.Difference == "" }

// Replay runs the item of a receipt again in the empty folder w.Tree, which gets the state on
// which the agent ran: from the store from, or else from a folder with that content. The store
// and the journals of w are for w.Tree.
func (w *Workflow) Replay(ctx context.Context, r receipt.Receipt, s receipt.Subject, from *workspace.Store, tree string) (Replayed, error) {
	base, err := receipt.ParseHash(r.Core.Base)
	if err != nil {
		return Replayed{}, runerr.New(result.CodeEvidence, "core/base: "+err.Error(), "")
	}
	p := work.Plan{Items: []work.Item{s.Item}, Scratch: r.Core.Scratch, One: true}
	w.alone = true // what the item waited for is in the state
	source := &plan{Workflow: &Workflow{Deps: w.Deps, History: history.History{Store: from}, Tree: tree}, Plan: p}
	source.how = workspace.Options{Scratch: source.scratch}
	if _, err := source.scan(ctx); err != nil { // now the store knows the nodes of the folder
		return Replayed{}, err
	}
	if err := from.Export(ctx, base, w.Tree, tree); err != nil {
		return Replayed{}, noBase(ctx, r, err)
	}
	if s.Agent != nil {
		w.Agents = map[string]work.Agent{s.Item.AgentID: *s.Agent}
	}
	var got receipt.Result
	w.Result = func(r receipt.Result) error { got = r; return nil }
	if _, err := w.Run(ctx, p, ""); err != nil {
		return Replayed{}, err
	}
	again, err := w.Receipt(got.ReceiptID)
	if err != nil {
		return Replayed{}, err
	}
	why := got.Error + got.DenialReason
	return Replayed{Status: got.Status, Why: why, Difference: firstDifference(r.Core.Artifacts, again.Core.Artifacts)}, nil
}

// noBase is the error for a state that neither the store nor the folder has.
func noBase(ctx context.Context, r receipt.Receipt, err error) error {
	if !errors.Is(err, workspace.ErrMissing) && !errors.Is(err, fs.ErrNotExist) {
		return stateError(ctx, err)
	}
	hint := "name with --tree a folder with that state"
	if r.Ephemeral.Head != "" {
		hint += "; its commit was " + r.Ephemeral.Head
	}
	return runerr.New(result.CodeEvidence, "neither the store nor the folder has the state on which the item ran, "+r.Core.Base, hint+". fiador work freeze keeps a state before it is needed", runerr.Because(err))
}

// firstDifference returns the first path at which two lists of artifacts differ, or "".
func firstDifference(a, b []receipt.Artifact) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i == len(a):
			return b[i].Path
		case i == len(b):
			return a[i].Path
		case a[i] != b[i]:
			if canon.Compare(a[i].Path, b[i].Path) < 0 {
				return a[i].Path
			}
			return b[i].Path
		}
	}
	return ""
}
