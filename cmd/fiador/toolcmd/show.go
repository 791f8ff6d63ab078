package toolcmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/kernel/adapter/level"
)

// toolsFlag adds the flag that names the folder of tools.
func toolsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "tools", "", "folder of the tools, with its index")
}

// open opens the folder that the flag names.
func open(a *cli.App, cmd *cobra.Command, dir string) (*dispatch.Registry, error) {
	if dir == "" {
		return nil, cli.Usage(cli.HelpHint(cmd), "--tools is missing")
	}
	return dispatch.Open(a.Specs, dir)
}

// listCommand reads the index and no document.
func listCommand(a *cli.App) *cobra.Command {
	dir, format := "", ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the tools of an index",
		Long: `List prints the tools and adapters that the index of a folder has: the adapter's
id, type, name and version, and the tool's status. It reads the index alone.

Exit codes:
  0  printed
  2  the index cannot be used`,
		Example: `  fiador tool list --tools tools
  fiador tool list --tools tools --format json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := open(a, cmd, dir)
			if err != nil {
				return err
			}
			defer r.Close()
			return cli.PrintAs(a, format, r.Index(), func(t cli.Terminal) {
				for _, tool := range r.Index().Tools {
					for _, one := range tool.Adapters {
						t.Line(tool.ToolID+"/"+one.AdapterID, string(one.Type), screen.Plain(one.Name), one.Version, tool.Status)
					}
				}
			})
		},
	}
	toolsFlag(cmd, &dir)
	cli.FormatFlag(cmd, &format, "text", "json")
	return cmd
}

// levels are the names of the levels, in their order.
var levels = []string{"L0", "L1", "L2", "L3"}

// showCommand prints a document at a level.
func showCommand(a *cli.App) *cobra.Command {
	dir, name := "", ""
	cmd := &cobra.Command{
		Use:   "show TOOL[/ADAPTER]",
		Short: "print a tool or an adapter at a level of detail",
		Long: `Show prints a tool, or an adapter of it, as one line of canonical JSON. Each level
adds to the level before it:
  L0  what it is called
  L1  its operations and parameters
  L2  what is needed to perform it
  L3  the rest, with the names of its examples and fixtures

Exit codes:
  0  printed
  2  there is no such tool or adapter, or a document cannot be used`,
		Example: `  fiador tool show TL-003 --tools tools
  fiador tool show TL-003/ADP-001 --tools tools --level L3`,
		Args: cli.ExactArgs("TOOL[/ADAPTER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Choice("level", name, levels); err != nil {
				return err
			}
			r, err := open(a, cmd, dir)
			if err != nil {
				return err
			}
			defer r.Close()
			l := level.Level(slices.Index(levels, name))
			toolID, adapterID, one := strings.Cut(args[0], "/")
			if one {
				return showAdapter(a, r, toolID, adapterID, l)
			}
			t, err := r.Tool(toolID)
			if err != nil {
				return err
			}
			if t == nil {
				return unknown("tool", toolID)
			}
			return cli.PrintJSON(a, level.OfTool(t, l))
		},
	}
	toolsFlag(cmd, &dir)
	cmd.Flags().StringVar(&name, "level", "L1", "L0, L1, L2 or L3")
	cli.Complete(cmd, "level", levels...)
	return cmd
}

func showAdapter(a *cli.App, r *dispatch.Registry, toolID, adapterID string, l level.Level) error {
	one, err := r.Adapter(toolID, adapterID)
	if err != nil {
		return err
	}
	if one == nil {
		return unknown("adapter", toolID+"/"+adapterID)
	}
	view := level.OfAdapter(one, l)
	if l == level.L3 {
		if view.Examples, view.Fixtures, err = r.Beside(toolID, adapterID); err != nil {
			return err
		}
	}
	return cli.PrintJSON(a, view)
}

func unknown(what, id string) error {
	return cli.Usage("fiador tool list prints what it has", "the index has no %s %q", what, id)
}
