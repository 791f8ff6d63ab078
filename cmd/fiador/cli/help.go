package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/screen"
)

// helpCommand replaces the help command of cobra. It refuses an unknown topic.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "help about a command or a topic",
		Long: `Help prints the help of a command, or a topic: exit-codes or environment.

Exit codes:
  0  the help was printed
  2  there is no help about that`,
		Example: `  fiador help run
  fiador help exit-codes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return Usage(near(root, strings.Join(args, " "), root.CommandPath()+" help ", func(c *cobra.Command) bool {
					return c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
				}), "no help about %q", strings.Join(args, " "))
			}
			return found.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, cmd := range root.Commands() {
				if len(args) == 0 && !cmd.Hidden {
					names = append(names, cmd.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// helpColumns is how many columns a help text has at most.
const helpColumns = 80

// narrow makes a help function wrap its text.
func narrow(a *App, help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	width := helpColumns
	if n := a.layout.Columns; n > 0 {
		width = min(n, width)
	}
	return func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		_, _ = io.WriteString(out, screen.Help(text.String(), width))
	}
}

// strictCompletion makes cobra's completion command refuse a wrong call as the other
// commands do.
func strictCompletion(completion *cobra.Command) {
	var shells []string
	const exitCodes = "\n\nExit codes:\n  0  the script was printed\n  2  the call cannot be understood"
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
		shell.Args = NoArgs
		shell.Long = strings.TrimRight(shell.Long, "\n") + exitCodes
		shell.Example = "  fiador completion " + shell.Name()
	}
	slices.Sort(shells)
	completion.Long = strings.TrimRight(completion.Long, "\n") + exitCodes
	completion.Example = "  fiador completion bash"
	completion.Args = nil
	completion.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage("one of: "+strings.Join(shells, ", "), "SHELL is missing")
		}
		return Choice("shell", args[0], shells)
	}
}
