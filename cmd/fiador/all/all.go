// Package all has the list of all commands of fiador. The program and what writes its
// manual build their command tree from this list.
package all

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/agentcmd"
	"github.com/fiador/fiador/cmd/fiador/applycmd"
	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/guidecmd"
	"github.com/fiador/fiador/cmd/fiador/ledgercmd"
	"github.com/fiador/fiador/cmd/fiador/packcmd"
	"github.com/fiador/fiador/cmd/fiador/policycmd"
	"github.com/fiador/fiador/cmd/fiador/provecmd"
	"github.com/fiador/fiador/cmd/fiador/runcmd"
	"github.com/fiador/fiador/cmd/fiador/suitecmd"
	"github.com/fiador/fiador/cmd/fiador/toolcmd"
	"github.com/fiador/fiador/cmd/fiador/transcriptcmd"
	"github.com/fiador/fiador/cmd/fiador/workcmd"
)

// Commands returns the command that the first argument names, or all commands. Help, completion
// and the errors about unknown commands need all, and name none.
func Commands(a *cli.App, args ...string) []*cobra.Command {
	list := []struct {
		name    string
		command func(*cli.App) *cobra.Command
	}{
		{"run", runcmd.Run},
		{"check", runcmd.Check},
		{"exec", runcmd.Exec},
		{"safe-run", runcmd.SafeRun},
		{"doctor", runcmd.Doctor},
		{"sandbox", runcmd.Sandbox},
		{"reproduce", runcmd.Reproduce},
		{"verify", provecmd.Verify},
		{"digest", provecmd.Digest},
		{"compare", provecmd.Compare},
		{"fingerprint", provecmd.Fingerprint},
		{"conformance", provecmd.Conformance},
		{"explain", guidecmd.Explain},
		{"answer", guidecmd.Answer},
		{"demo", guidecmd.Demo},
		{"schema", guidecmd.Schema},
		{"version", guidecmd.Version},
		{"ledger", ledgercmd.Ledger},
		{"pack", packcmd.Pack},
		{"apply", applycmd.Apply},
		{"transcript", transcriptcmd.Transcript},
		{"policy", policycmd.Policy},
		{"tool", func(a *cli.App) *cobra.Command { return toolcmd.Tool(a, runcmd.ToolCall(a), runcmd.ToolPin(a)) }},
		{"hook", agentcmd.Hook},
		{"mcp", func(a *cli.App) *cobra.Command { return agentcmd.MCP(a, runcmd.Executing(a)) }},
		{"work", workcmd.Work},
		{"suite", suitecmd.Suite},
		{"init", policycmd.Init},
		{"exit-codes", guidecmd.ExitCodes},
		{"environment", guidecmd.Environment},
	}
	for i, c := range list {
		if len(args) > 0 && c.name == args[0] {
			list = list[i : i+1]
			break
		}
	}
	commands := make([]*cobra.Command, len(list))
	for i, c := range list {
		commands[i] = c.command(a)
	}
	return commands
}
