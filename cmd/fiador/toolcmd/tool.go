// Package toolcmd has the commands of a folder of tools: they write its index, list and show
// what it has, and check it.
package toolcmd

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/dispatch"
)

// Tool returns the group of commands of a folder of tools, with further commands.
func Tool(a *cli.App, more ...*cobra.Command) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "tool",
		Short: "index, show, check and call the tools that intents may name",
		Long: `Tool indexes, shows, checks and calls the tools that intents may name. DIR is a folder
of tools. It has a folder for each tool, with the tool's document tool.yaml and one
document for each of its adapters. DIR also has a folder servers with the documents of
MCP servers. Each document may be JSON as well. The index tools.json has the digest of
every document.

Exit codes:
  0  written, printed, or nothing is wrong
  1  the index is stale, or an example fails
  2  a document or the index cannot be used`,
		Example: `  fiador tool index tools
  fiador tool check tools
  fiador tool show TL-003/ADP-001 --tools tools --level L2`,
	}, append([]*cobra.Command{indexCommand(a), listCommand(a), showCommand(a), checkCommand(a)}, more...)...)
}

// indexCommand writes the index. With --check it writes nothing.
func indexCommand(a *cli.App) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "index DIR",
		Short: "write the index of a folder of tools",
		Long: `Index reads and checks every document of the folder and writes tools.json, the
index. It prints the name of the index if that has changed. Nothing is written if a
document cannot be used.

Exit codes:
  0  the index is current
  1  with --check: the index is stale
  2  a document cannot be used, or the index could not be written`,
		Example: `  fiador tool index tools
  fiador tool index tools --check`,
		Args: cli.ExactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			index, current, err := dispatch.MakeIndex(a.Specs, args[0])
			if err != nil || current {
				return err
			}
			name := filepath.Join(args[0], dispatch.IndexFile)
			if check {
				a.Status = cli.ExitRejected
			} else {
				dir, err := filepath.EvalSymlinks(args[0])
				if err == nil {
					dir, err = filepath.Abs(dir)
				}
				if err != nil {
					return cli.NotWritten(name, err)
				}
				if err := cli.WriteFile(name, index, []string{dir}); err != nil {
					return err
				}
			}
			return a.Print([]byte(screen.Plain(screen.Folder(name)) + "\n"))
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail if the index is stale")
	return cmd
}
