// Package agent owns what an agent asks before it acts, as an intent, and the words that
// tell the agent how the intent was decided. Hook, gate and MCP server ask in this form.
package agent

import (
	"context"
	"strings"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// MaxWords is the most bytes that an agent is told about a decision.
const MaxWords = 2000

// Question is what an agent is about to do. Asker is the name of the client or server that
// the question comes from: letters, digits and hyphens.
type Question struct {
	Asker   string
	Inputs  []string
	Actions []Action
	Context Context
}

// Context says where a question comes from. The ledger keeps it with the intent.
type Context struct {
	Client    string `json:"client,omitempty"`
	Server    string `json:"server,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	ToolUseID string `json:"tool_use_id,omitempty"`
	Line      string `json:"line,omitempty"` // the line of a shell whose commands are asked about
}

// Action is an action of an intent. A call is that of a tool that no registry has; its
// arguments are Params. Listed is the hash of the tool as its server lists it.
type Action struct {
	Kind     kernel.ActionKind `json:"kind"`
	Path     string            `json:"path,omitempty"`
	Content  *string           `json:"content,omitempty"`
	Argv     []string          `json:"argv,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Stdin    *string           `json:"stdin,omitempty"`
	ToolID   string            `json:"tool_id,omitempty"`
	Params   any               `json:"params,omitempty"`
	RiskTags []string          `json:"risk_tags,omitempty"`

	Listed canon.ContentHash `json:"-"`
}

// Call returns the action that calls a tool with arguments, which are a JSON object.
func Call(tool string, arguments any, listed canon.ContentHash) Action {
	return Action{Kind: kernel.ActionCall, ToolID: tool, Params: arguments, Listed: listed}
}

// document is the intent of a question.
type document struct {
	Goal    string   `json:"goal"`
	Inputs  []string `json:"inputs,omitempty"`
	Actions []Action `json:"actions,omitempty"`
	Context Context  `json:"context"`
}

// Request returns the question as a request that is decided and not executed.
func (q Question) Request() (harness.Request, error) {
	src, _, err := canon.Artifact(document{"a tool call of " + q.Asker, q.Inputs, q.Actions, q.Context})
	if err != nil {
		return harness.Request{}, runerr.Internal("the question has no canonical form", err)
	}
	calls := map[int]kernel.Call{}
	for i, a := range q.Actions {
		if a.Kind == kernel.ActionCall {
			calls[i] = kernel.ForeignCall(a.ToolID, a.Listed)
		}
	}
	return harness.Request{
		Source: src, Path: q.Asker, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone, Calls: calls,
	}, nil
}

// Ask decides a question. allowed is true only for a BUNDLE that was recorded where there
// is a Recorder. words say to the agent what was decided and what it can do.
func Ask(ctx context.Context, deps harness.Deps, gate *harness.Gate, q Question) (allowed bool, words string) {
	req, err := q.Request()
	end := harness.End{Request: req, Err: err}
	if err == nil {
		end.Report, end.Err = harness.Run(ctx, deps, gate, req)
	}
	return end.Err == nil && end.Decision.Outcome == kernel.OutcomeBundle && end.Result.Decision.Accepted, Words(end)
}

// Words returns the outcome of a question, its reasons or questions, and what to do about
// them: plain text of at most MaxWords bytes.
func Words(end harness.End) string {
	item := report.Item{Path: end.Path, Made: true, Decision: end.Decision}
	tail := "Fiador decided this; run " + end.Result.RunID + "."
	if end.Err != nil {
		item.Err = runerr.Of(end.Err)
		tail = "Fiador made no decision, so this is not allowed."
	}
	var b strings.Builder
	_ = report.Human(&b, false, item) // a Builder does not fail
	return cut(b.String(), MaxWords-len(tail)) + tail
}

// cut returns whole lines of a text, at most so many bytes.
func cut(text string, most int) string {
	const more = "(more is not shown)\n"
	if len(text) <= most {
		return text
	}
	text = text[:most-len(more)-1]
	if end := strings.LastIndexByte(text, '\n'); end >= 0 {
		return text[:end+1] + more
	}
	return strings.ToValidUTF8(text, "") + "\n" + more
}
