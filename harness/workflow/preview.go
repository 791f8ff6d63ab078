package workflow

import (
	"context"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
)

// Preview is what a plan would run.
type Preview struct {
	PlanSHA256 canon.ContentHash `json:"plan_sha256"`
	Levels     [][]string        `json:"levels"` // ids
	Items      []Verdict         `json:"items"`  // by level and id
}

// Verdict is the decision about an item before it runs.
type Verdict struct {
	ID           string            `json:"id"`
	Level        int               `json:"level"`
	IntentSHA256 canon.ContentHash `json:"intent_sha256"`
	Verdict      kernel.Outcome    `json:"verdict"`
	Reasons      []string          `json:"reasons"`
}

var previewPlan canon.Plan[Preview]

// PreviewBytes returns a preview as it is printed: canonical JSON and one LF.
func PreviewBytes(p Preview) ([]byte, error) {
	b, _, err := previewPlan.Artifact(&p)
	return b, err
}

// Preview decides every item of a plan, and runs none. The error is a *work.Fault or a
// *result.RunError.
func (w *Workflow) Preview(ctx context.Context, doc work.Plan, sha canon.ContentHash) (Preview, error) {
	v := Preview{PlanSHA256: sha, Levels: [][]string{}, Items: []Verdict{}}
	p, levels, err := w.Check(doc)
	if err != nil {
		return v, err
	}
	for n, level := range levels {
		ids := []string{}
		for _, i := range level {
			it := p.Items[i]
			source, err := w.intent(it)
			if err != nil {
				return v, err
			}
			in, intent, err := w.Gate.Ask(w.Deps.Specs, harness.Request{Source: source, Path: it.ID, Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone})
			if err != nil {
				return v, err
			}
			d, err := w.Gate.Decide(ctx, in, intent)
			if err != nil {
				return v, err
			}
			ids = append(ids, it.ID)
			v.Items = append(v.Items, Verdict{it.ID, n, canon.Sum(source), d.Outcome, kernel.Conclude(d, nil).Reasons})
		}
		v.Levels = append(v.Levels, ids)
	}
	return v, nil
}
