package policies

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/kernel/canon"
)

// ToolFlags select the registry of tools. Without one, every call is that of a model.
type ToolFlags struct {
	Tools string
	check func() error // refuses an empty name
}

// Register adds the flag to a command.
func (f *ToolFlags) Register(cmd *cobra.Command) {
	cmd.Flags().Var(&cli.Once{Value: &f.Tools}, "tools", "folder with the tools that calls may use, outside the gated folder; fiador tool index writes its index")
	f.check = func() error { return cli.NotEmpty(cmd, "tools") }
}

// Places adds the folder of the tools.
func (f ToolFlags) Places(p *cli.Places) {
	p.Add(cli.Registry|cli.Needed, "--tools", "tools", f.Tools)
}

// Use opens the registry and gives it to the gate. It stays open: a document is read when a
// call first needs it.
func (f ToolFlags) Use(a *cli.App, gate *harness.Gate) error {
	if f.Tools == "" {
		return f.check()
	}
	r, err := dispatch.Open(a.Specs, f.Tools)
	if err != nil {
		return err
	}
	gate.UseTools(harness.ToolsOf(r))
	return nil
}

// CallIntent returns the intent of one call of a tool in canonical form, with a line feed.
// Without adapterID the tool's first adapter is used.
func CallIntent(toolID, adapterID string, params map[string]any, inputs []string) ([]byte, error) {
	intent := struct {
		Actions []callAction `json:"actions"`
		Goal    string       `json:"goal"`
		Inputs  []string     `json:"inputs,omitempty"`
	}{[]callAction{{"call", toolID, adapterID, params}}, "Call the tool " + toolID, inputs}
	b, _, err := canon.Artifact(intent)
	if err != nil {
		return nil, cli.Unfit("name the tool and its parameters in UTF-8", "the call is no intent: %v", err)
	}
	return b, nil
}

// callAction is the action of such an intent.
type callAction struct {
	Kind      string         `json:"kind"`
	ToolID    string         `json:"tool_id"`
	AdapterID string         `json:"adapter_id,omitempty"`
	Params    map[string]any `json:"params"`
}
