package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Line is a line of history.jsonl: a receipt, in the order in which receipts were made.
type Line struct {
	ReceiptID   string            `json:"receipt_id"`
	ReceiptHash string            `json:"receipt_hash"`
	ItemID      string            `json:"item_id"`
	Key         string            `json:"key"`
	Before      string            `json:"before"`
	After       string            `json:"after"`
	Status      receipt.Status    `json:"status"`
	Plan        canon.ContentHash `json:"plan,omitempty"`
	Discarded   bool              `json:"discarded,omitempty"` // a success whose change was not applied
}

// success says whether the change of the receipt was applied.
func (l Line) success() bool { return l.Status == receipt.Success && !l.Discarded }

var (
	linePlan    canon.Plan[Line]
	lineDecoder canon.Decoder[Line]
)

func (it *item) line(r receipt.Receipt) Line {
	return Line{
		ReceiptID: r.ReceiptID, ReceiptHash: r.ReceiptHash, ItemID: it.ID, Key: it.key.String(),
		Before: r.Core.Before, After: r.Core.After, Status: r.Core.Status, Plan: it.sha,
	}
}

// The files of a store that package workflow owns.
const (
	historyFile = "history.jsonl"
	pendingFile = "pending"
)

// History reads the history of a store. A last line without its end was not written.
func (w *Workflow) History() ([]Line, error) { return History(w.Store) }

// History reads the history of a store.
func History(s *workspace.Store) ([]Line, error) {
	text, err := s.Folder().ReadFile(historyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storeError(err)
	}
	var list []Line
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		doc, err := canon.Parse(line, len(line))
		if err != nil {
			return nil, damagedHistory(len(list)+1, err)
		}
		l, err := lineDecoder.Decode(doc.Value())
		if err != nil {
			return nil, damagedHistory(len(list)+1, err)
		}
		list = append(list, *l)
	}
	return list, nil
}

func damagedHistory(n int, err error) error {
	return runerr.New(result.CodeEvidence, fmt.Sprintf("line %d of %s of the store cannot be read: %v", n, historyFile, err), "restore the file, or use another store", runerr.Because(err))
}

// known returns the newest success of the same key that has led to a state.
func (p *plan) known(key, state receipt.Hash) *Line {
	if p.Rerun {
		return nil
	}
	for _, l := range slices.Backward(p.history) {
		if l.success() && l.Key == key.String() && l.After == state.String() {
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
	for _, l := range it.history {
		if l.success() && l.Key != it.key.String() && l.Before == it.before.String() && l.After == it.after.String() {
			return l.ReceiptID
		}
	}
	return ""
}

// pending is the file that says that a receipt may not have been applied or noted yet.
type pending struct {
	Line   Line   `json:"line"`
	RunID  string `json:"run_id"`
	Ledger string `json:"ledger,omitempty"` // folder of the ledger that gets the decision; empty: none
}

var (
	pendingPlan    canon.Plan[pending]
	pendingDecoder canon.Decoder[pending]
)

func (w *Workflow) pend(p pending) error {
	text, _, err := pendingPlan.Artifact(&p)
	if err != nil {
		return runerr.Internal("the pending receipt has no canonical form", err)
	}
	f, err := durable.Create(w.Store.Folder(), pendingFile, 0o600)
	if err != nil {
		return storeError(err)
	}
	if _, err := f.Write(text); err != nil {
		return storeError(errors.Join(err, f.Abort()))
	}
	return storeError(f.Replace())
}

// settle adds a line to the history; nothing is pending then.
func (w *Workflow) settle(l Line) error {
	text, _, err := linePlan.Artifact(&l)
	if err != nil {
		return runerr.Internal("the line of the history has no canonical form", err)
	}
	if err := w.add(text); err != nil {
		return storeError(err)
	}
	return storeError(durable.Remove(w.Store.Folder(), pendingFile))
}

// add appends to the history, behind the last whole line.
func (w *Workflow) add(text []byte) error {
	f, err := w.Store.Folder().OpenFile(historyFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	end, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.WriteAt(text, end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && end == 0 {
		err = syncFolder(w.Store.Folder(), ".")
	}
	return err
}

// wholeLines returns the size of the lines of a file that have their end.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var last [4096]byte
	for end := info.Size(); end > 0; end -= int64(len(last)) {
		from := max(0, end-int64(len(last)))
		n, err := f.ReadAt(last[:end-from], from)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(last[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
	}
	return 0, nil
}

// Decided looks for the decision of a run in a ledger. It returns the receipt_hash that the
// decision names, or "" if the ledger has no decision of that run.
type Decided func(ctx context.Context, ledger, runID string) (receiptHash string, err error)

// Recover ends what a killed run has left pending. A receipt whose decision no ledger has is
// removed. Otherwise its change is applied if the folder is what it was before, and noted. If
// the folder is neither that nor what it becomes, Recover returns an error, or with discard notes
// that the change is not applied. It returns what it did, or "".
func (w *Workflow) Recover(ctx context.Context, decided Decided, discard bool) (did string, err error) {
	root := w.Store.Folder()
	if err := root.RemoveAll("stage"); err != nil {
		return "", storeError(err)
	}
	text, err := root.ReadFile(pendingFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var p *pending
	if err == nil {
		var doc canon.Document
		if doc, err = canon.Parse(text, len(text)); err == nil {
			p, err = pendingDecoder.Decode(doc.Value())
		}
	}
	if err != nil {
		return "", storeError(fmt.Errorf("%s: %w", pendingFile, err))
	}
	l := p.Line
	if list, err := w.History(); err != nil || slices.ContainsFunc(list, func(o Line) bool { return o.ReceiptID == l.ReceiptID }) {
		if err == nil {
			err = storeError(durable.Remove(root, pendingFile))
		}
		return "", err
	}
	if p.Ledger != "" {
		hash, err := decided(ctx, p.Ledger, p.RunID)
		if err != nil {
			return "", err
		}
		if hash != l.ReceiptHash {
			err := errors.Join(root.RemoveAll(receipts+"/"+l.ReceiptID), durable.Remove(root, pendingFile))
			return "the killed run of item " + l.ItemID + " was not recorded, and nothing of it is kept", storeError(err)
		}
	}
	if l.Status != receipt.Success || l.Before == l.After {
		return "the receipt of item " + l.ItemID + " is noted", w.settle(l)
	}
	return w.bring(ctx, l, discard)
}

// bring applies the change of a pending receipt, unless it is applied already.
func (w *Workflow) bring(ctx context.Context, l Line, discard bool) (did string, err error) {
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
	switch state.String() {
	case l.After:
		return "the change of item " + l.ItemID + " is applied", w.settle(l)
	case l.Before:
	default:
		if discard {
			l.Discarded = true
			return "the change of item " + l.ItemID + " is discarded", w.settle(l)
		}
		return "", w.edited(ctx, l, state)
	}
	after, err := receipt.ParseHash(l.After)
	if err != nil {
		return "", storeError(err)
	}
	m, err := w.Store.Plan(ctx, w.Tree, state, after, p.how)
	if err != nil {
		return "", stateError(ctx, err)
	}
	defer m.Close()
	if err := m.Apply(ctx, w.Journals); err != nil {
		return "", stateError(ctx, err)
	}
	return "the change of item " + l.ItemID + " is applied", w.settle(l)
}

// edited is the error for a folder that was edited while a change is pending.
func (w *Workflow) edited(ctx context.Context, l Line, state receipt.Hash) error {
	first := ""
	if before, err := receipt.ParseHash(l.Before); err == nil {
		if list, err := w.Store.Diff(ctx, before, state); err == nil && len(list) > 0 {
			first = ": " + canon.Quote(list[0].Path)
		}
	}
	return runerr.New(result.CodeEvidence, "the change of item "+l.ItemID+" was decided and not applied, and the folder was edited since then"+first,
		"put the folder back and run the command again, or keep the edit with fiador work run --discard", runerr.With("receipt_id", l.ReceiptID))
}

// Receipt reads a receipt of the store.
func (w *Workflow) Receipt(id string) (receipt.Receipt, error) {
	root, err := w.Store.Folder().OpenRoot(receipts + "/" + id)
	if err != nil {
		return receipt.Receipt{}, storeError(err)
	}
	defer root.Close()
	r, faults, err := verify.Read(root)
	if err != nil {
		return receipt.Receipt{}, storeError(err)
	}
	if r == nil {
		return receipt.Receipt{}, storeError(fmt.Errorf("receipt %s: %s", id, faults[0]))
	}
	return *r, nil
}

// resultOf returns the result that a receipt of the history stands for.
func (w *Workflow) resultOf(l Line) (receipt.Result, error) {
	r, err := w.Receipt(l.ReceiptID)
	if err != nil {
		return receipt.Result{}, err
	}
	out := resultOf(r)
	out.ID = l.ItemID
	return out, nil
}

// storeError is the RunError for a store that cannot be used; nil for nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return runerr.New(result.CodeEvidence, "the store cannot be used: "+runerr.Reason(err), "give the store room and permission, or name another one with --store", runerr.Because(err))
}

// stateError is the RunError for a state that cannot be had, or a folder that cannot be
// changed; nil for nil.
func stateError(ctx context.Context, err error) error {
	var re *result.RunError
	var of *workspace.Error
	var apply *workspace.ApplyError
	conflict, changed := errors.AsType[*tree.ConflictError](err)
	switch {
	case err == nil || errors.As(err, &re):
		return err
	case ctx.Err() != nil:
		return runerr.Stopped()
	case changed:
		return runerr.New(result.CodeEvidence, "nothing is changed: "+conflict.Error(), "run it again when nobody changes the folder", runerr.Because(err))
	case errors.Is(err, workspace.ErrDrift):
		return runerr.New(result.CodeEvidence, err.Error(), "run it again when nobody changes the folder", runerr.Because(err))
	case errors.As(err, &of):
		return runerr.New(result.CodeUnreadable, of.Error(), "a state has files, links and folders alone, which its user can read: remove the path, or move it elsewhere", runerr.Because(err))
	case errors.As(err, &apply):
		return runerr.New(result.CodeEvidence, "the folder could not be changed: "+runerr.Reason(err), "give the folder, and the folder for journals, room and permission", runerr.Because(err))
	}
	return storeError(err)
}

// drifted is the error for a path that has not the content of the state any more.
func drifted(name string) error {
	return runerr.New(result.CodeEvidence, canon.Quote(name)+" was changed while the item ran", "run it again when nobody changes the folder")
}
