package compare

import (
	"context"
	"runtime"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/grade/judge"
)

// intent is what an agent proposed or did, as the policy decides it: one call.
type intent struct {
	Goal        string   `json:"goal"`
	Constraints []string `json:"constraints"`
	Context     origin   `json:"context"`
	Actions     []call   `json:"actions"`
}

type origin struct {
	CaseID     string `json:"case_id"`
	ActionID   string `json:"action_id,omitempty"`
	ActionType string `json:"action_type,omitempty"`
}

type call struct {
	Kind      string   `json:"kind"`
	ToolID    string   `json:"tool_id"`
	AdapterID string   `json:"adapter_id,omitempty"`
	Params    any      `json:"params"`
	RiskLevel string   `json:"risk_level,omitempty"`
	RiskTags  []string `json:"risk_tags,omitempty"`
}

var intentPlan canon.Plan[intent]

// asked is a subject with the place of its decision.
type asked struct {
	judge.Subject
	caseID string
	to     *grade.Action
}

// decide has the policy decide the subjects of every case of a side, by the code of fiador check.
// What makes no valid intent is undecided.
func (p *Plan) decide(ctx context.Context, versions []*Version) error {
	if p.Gate == nil {
		return nil
	}
	var list []asked
	for _, v := range versions {
		v.actions = map[string][]grade.Action{}
		for _, id := range v.ids {
			subjects := judge.Subjects(v.cases[id].Doc)
			v.actions[id] = make([]grade.Action, len(subjects))
			for i, s := range subjects {
				list = append(list, asked{s, id, &v.actions[id][i]})
			}
		}
	}
	jobs := func(yield func(harness.Job) bool) {
		for _, a := range list {
			request := harness.Request{Path: a.caseID, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
			source := func(context.Context) ([]byte, error) { return a.source(p.Gate.Tools != nil) }
			if !yield(harness.Job{Request: request, Read: source}) {
				return
			}
		}
	}
	n := 0
	return harness.Each(ctx, p.Deps, p.Gate, runtime.GOMAXPROCS(0), jobs, func(end harness.End) error {
		a := list[n]
		n++
		*a.to = a.action(end)
		if p.Decided != nil {
			p.Decided(end)
		}
		return ctx.Err()
	})
}

// source returns the intent. With a registry the tool chooses its adapter; without one, policies
// know the tool by the name of the adapter as well.
func (a asked) source(registry bool) ([]byte, error) {
	c := call{Kind: "call", ToolID: a.Tool, Params: a.Params, RiskLevel: a.Risk, RiskTags: a.RiskTags}
	if !registry {
		c.AdapterID = a.Tool
	}
	src, _, err := intentPlan.Artifact(&intent{
		"act as the agent of a test case did", []string{"only what the case needs"}, origin{a.caseID, a.ActionID, a.ActionType}, []call{c},
	})
	return src, err
}

// action returns what the policy said.
func (a asked) action(end harness.End) grade.Action {
	said := grade.Action{Subject: a.Place, Tool: a.Tool, Outcome: grade.Undecided, Reasons: []string{}, Executed: a.Executed}
	if end.Err != nil {
		return said
	}
	said.Outcome, said.IntentSHA256 = string(end.Decision.Outcome), canon.Sum(end.Source)
	said.Reasons = append(said.Reasons, end.Result.Decision.Reasons...)
	return said
}
