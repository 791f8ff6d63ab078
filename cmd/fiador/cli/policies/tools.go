package policies

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/dispatch"
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
