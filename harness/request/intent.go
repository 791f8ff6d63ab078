package request

import (
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/text"
)

// execGoal is the goal of an exec without a purpose of its own.
const execGoal = "exec"

// intentDocument is the JSON document of an intent with one run action.
type intentDocument struct {
	Goal    string         `json:"goal"`
	Actions []intentAction `json:"actions"`
	Inputs  []string       `json:"inputs,omitzero"`
	Outputs []string       `json:"outputs,omitzero"`
	Context *intentContext `json:"context,omitempty"`
}

type intentAction struct {
	Kind  kernel.ActionKind `json:"kind"`
	Argv  []string          `json:"argv"`
	Env   map[string]string `json:"env,omitempty"`
	Cwd   string            `json:"cwd,omitempty"`
	Stdin *string           `json:"stdin,omitempty"`
}

type intentContext struct {
	Request requestContext `json:"request"`
}

func (doc intentDocument) of(action intentAction) ([]byte, error) {
	action.Kind = kernel.ActionRun
	doc.Actions = []intentAction{action}
	b, _, err := canon.Artifact(doc)
	if err != nil {
		return nil, runerr.Internal("the intent has no canonical form", err)
	}
	return b, nil
}

// CommandIntent returns the intent of one command, as canonical JSON and one LF. Its
// standard input is the empty text.
func CommandIntent(argv []string, env map[string]string) ([]byte, error) {
	return intentDocument{Goal: execGoal}.of(intentAction{Argv: argv, Env: env, Stdin: new(string)})
}

// Intent returns the request as an intent of one run action, as canonical JSON and one
// LF. Its goal is the purpose of the request. Members that an intent does not have are
// in context.request.
func (r Request) Intent() ([]byte, error) {
	action := intentAction{Argv: r.Inputs.Argv(), Env: r.Inputs.Environment, Stdin: r.Inputs.Stdin}
	if r.Inputs.WorkingDirectory != "." {
		action.Cwd = r.Inputs.WorkingDirectory
	}
	rest := requestContext{r.ExecutionID, r.ToolID, r.AdapterID, r.Sandbox, r.Outputs, r.Metadata}
	rest.Outputs.OutputFiles = nil
	goal := execGoal
	if !text.IsBlank(r.Metadata.Purpose) {
		goal, rest.Metadata.Purpose = r.Metadata.Purpose, ""
	}
	return intentDocument{
		Goal: goal, Inputs: r.Inputs.InputFiles, Outputs: r.Outputs.OutputFiles, Context: &intentContext{rest},
	}.of(action)
}

// requestContext holds the members of a request that an intent does not have.
type requestContext struct {
	ExecutionID string   `json:"execution_id"`
	ToolID      string   `json:"tool_id"`
	AdapterID   string   `json:"adapter_id,omitempty"`
	Sandbox     Sandbox  `json:"sandbox"`
	Outputs     Outputs  `json:"outputs"`
	Metadata    Metadata `json:"metadata"`
}
