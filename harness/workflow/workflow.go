// Package workflow runs work items: each happens as a whole or not at all (specs/work.md).
//
// It puts the steps of an item and of a plan in order, and owns the history of a store: the
// receipts, which of them was applied, and what a killed run has left. Everything else is done
// by others: package harness decides, executes and records, kernel/work counts and admits,
// harness/workspace knows states and changes the folder.
package workflow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
)

// Workflow runs items on one folder. Its store is locked (Lock).
type Workflow struct {
	history.History
	Deps     harness.Deps
	Env      func(name string) string // variables of the operator, for agents
	Gate     *harness.Gate
	Tree     string // the folder, a real path
	Journals string // folder of the journals of changes
	Read     []string
	Ledger   string // ledger that Deps records in: an absolute folder, or a URL; empty: none
	Agents   map[string]work.Agent

	LedgerKey string // verifier key of the ledger that a URL names

	Jobs   int
	Only   []string // ids; nil: all
	Resume bool     // results of this plan from before count
	Rerun  bool     // no earlier result is taken
	alone  bool     // no item waits for another

	// Result takes the result of an item. It is called for one after another, in the order
	// in which they were integrated.
	Result func(r receipt.Result) error

	// Advise is called with what this machine knows of an agent that failed, for people. Items
	// that run at once call it at once. It may be nil.
	Advise func(id, msg, hint string)
}

// Summary says how a plan ended.
type Summary struct {
	PlanSHA256 canon.ContentHash `json:"plan_sha256"`
	Items      []Ended           `json:"items"`
	Blocked    []Blocked         `json:"blocked"`
}

// Ended is an item that has a receipt.
type Ended struct {
	ID        string         `json:"id"`
	Level     int            `json:"level"`
	Status    receipt.Status `json:"status"`
	ReceiptID string         `json:"receipt_id"`
}

// Blocked is an item that did not run.
type Blocked struct {
	ID         string   `json:"id"`
	WaitingFor []string `json:"waiting_for"`
}

var summaryPlan canon.Plan[Summary]

// Bytes returns the summary as it is printed: canonical JSON and one LF.
func (s Summary) Bytes() ([]byte, error) {
	b, _, err := summaryPlan.Artifact(&s)
	return b, err
}

// Success says whether every item ran and ended well.
func (s Summary) Success() bool {
	return len(s.Blocked) == 0 && !slices.ContainsFunc(s.Items, func(e Ended) bool { return e.Status != receipt.Success })
}

// plan is a plan that runs.
type plan struct {
	*Workflow
	work.Plan
	sha     canon.ContentHash
	lines   []history.Line
	ended   map[string]Ended
	how     workspace.Options
	state   receipt.Hash          // of the folder, by what was applied
	applied []string              // paths that the level has changed
	stages  string                // folder for changes that are not applied yet
	kept    map[receipt.Hash]bool // nodes that the store has, with all beneath
}

// BeyondProfile is the error of an item that asks for more than the profile allows.
type BeyondProfile struct{ *work.Fault }

// Unwrap returns the fault.
func (e *BeyondProfile) Unwrap() error { return e.Fault }

// Check reads what a plan needs before anything runs: limits, agents, intents. The error is a
// *work.Fault, perhaps in a *BeyondProfile, or a *result.RunError.
func (w *Workflow) Check(p work.Plan) (work.Plan, [][]int, error) {
	levels, err := p.Levels()
	if err != nil {
		return p, nil, err
	}
	p.Items = slices.Clone(p.Items)
	for i, it := range p.Items {
		if p.Items[i], err = it.Narrow(w.Gate.Profile.TimeoutMS, w.Gate.Profile.MaxOutputFiles); err != nil {
			if f, ok := errors.AsType[*work.Fault](err); ok {
				err = &BeyondProfile{f}
			}
			return p, nil, err
		}
		if _, err = w.intent(p.Items[i]); err != nil {
			return p, nil, err
		}
	}
	for _, id := range w.Only {
		if !slices.ContainsFunc(p.Items, func(it work.Item) bool { return it.ID == id }) {
			return p, nil, runerr.New(result.CodeProfile, "the plan has no item "+canon.Quote(id), "name ids of the plan with --only")
		}
	}
	return p, levels, nil
}

// agent returns the entry of an item's agent; nil: the item has actions, and no agent runs.
func (w *Workflow) agent(it work.Item) *work.Agent {
	if it.Actions != nil {
		return nil
	}
	if a, ok := w.Agents[it.AgentID]; ok {
		return &a
	}
	return nil
}

func (w *Workflow) intent(it work.Item) ([]byte, error) { return it.Intent(w.agent(it)) }

// Run runs a plan. Levels follow one another; the items of a level run at once, on the state at
// which the level begins. When all have ended, they are integrated in the order of their ids.
// The error is a *result.RunError or a *work.Fault: an item has no result then, and no later
// one ran. What was integrated before stays.
func (w *Workflow) Run(ctx context.Context, doc work.Plan, sha canon.ContentHash) (Summary, error) {
	p := &plan{Workflow: w, sha: sha, ended: map[string]Ended{}, kept: map[receipt.Hash]bool{}}
	s := Summary{PlanSHA256: sha, Items: []Ended{}, Blocked: []Blocked{}}
	var levels [][]int
	var err error
	if p.Plan, levels, err = w.Check(doc); err != nil {
		return s, err
	}
	p.how = workspace.Options{Scratch: p.scratch}
	if p.stages, err = sandbox.DeltaFolder(filepath.Join(w.Dir, history.StageFolder)); err != nil {
		return s, runerr.Evidence("there is no folder for changes that are not applied yet", err)
	}
	defer os.RemoveAll(p.stages)
	if p.lines, err = w.Lines(); err != nil {
		return s, err
	}
	if err := p.resumed(ctx); err != nil {
		return s, err
	}
	for n, level := range levels {
		var ready []*item
		for _, i := range level {
			it := p.Items[i]
			if _, done := p.ended[it.ID]; done || w.Only != nil && !slices.Contains(w.Only, it.ID) {
				continue
			}
			if waiting := p.waiting(i); len(waiting) > 0 {
				s.Blocked = append(s.Blocked, Blocked{it.ID, waiting})
				continue
			}
			ready = append(ready, &item{plan: p, Item: it, level: n})
		}
		if err = p.run(ctx, ready); err != nil {
			break
		}
	}
	for n, level := range levels {
		for _, i := range level {
			if e, ok := p.ended[p.Items[i].ID]; ok {
				e.Level = n
				s.Items = append(s.Items, e)
			}
		}
	}
	return s, err
}

// waiting returns the dependencies of an item that have not ended well. One that does not run
// with this plan counts by its newest receipt.
func (p *plan) waiting(i int) []string {
	list := []string{}
	if p.alone {
		return list
	}
	for _, id := range p.Items[i].Dependencies {
		e, ran := p.ended[id]
		if !ran && (p.Only == nil || slices.Contains(p.Only, id)) && !slices.Contains(p.Outside(i), id) {
			list = append(list, id)
			continue
		}
		if !ran {
			for _, l := range slices.Backward(p.lines) {
				if l.ItemID == id {
					ran = l.Success()
					break
				}
			}
			if ran {
				e.Status = receipt.Success
			}
		}
		if e.Status != receipt.Success {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, canon.Compare)
	return list
}

// resumed takes the successes of this plan from before, if the folder has the state in which
// the last run ended.
func (p *plan) resumed(ctx context.Context) error {
	if !p.Resume || len(p.lines) == 0 {
		return nil
	}
	state, err := p.scan(ctx)
	if err != nil || p.lines[len(p.lines)-1].After != state.String() {
		return err
	}
	for _, l := range p.lines {
		for _, it := range p.Items {
			if l.Plan != p.sha || l.ItemID != it.ID {
				continue
			}
			if delete(p.ended, it.ID); l.Success() {
				p.ended[it.ID] = Ended{ID: it.ID, Status: l.Status, ReceiptID: l.ReceiptID}
			}
		}
	}
	return nil
}

// scan returns the state of the folder.
func (p *plan) scan(ctx context.Context) (receipt.Hash, error) {
	p.how.Now = p.Deps.Now()
	state, err := p.Store.StateOf(ctx, p.Tree, p.how)
	return state.Hash, stateError(ctx, err)
}

// scratch says whether a path is no part of a state.
func (p *plan) scratch(path string, folder bool) bool {
	return slices.ContainsFunc(p.Plan.Scratch, func(g string) bool {
		all, beneath := strings.CutSuffix(g, "/**")
		return work.Glob(g, path) || folder && beneath && work.Glob(all, path)
	})
}

// run runs the items of a level at once.
func (p *plan) run(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	var err error
	if p.state, err = p.scan(ctx); err != nil {
		return err
	}
	p.applied = nil
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	slots := make(chan struct{}, max(1, p.Jobs))
	var performing, all sync.WaitGroup
	var failed error
	var once sync.Once
	first := make(chan struct{})
	turn := first
	for _, it := range items {
		it.turn = turn
		next := make(chan struct{})
		turn = next
		performing.Add(1)
		it.performed = sync.OnceFunc(func() {
			<-slots
			performing.Done()
		})
		all.Go(func() {
			slots <- struct{}{}
			if err := it.do(ctx); err != nil {
				once.Do(func() { failed = err }) // others end because of this one
				stop()
			}
			it.performed()
			<-it.turn
			close(next)
		})
	}
	performing.Wait()
	close(first)
	all.Wait()
	return failed
}
