package cli

import (
	"context"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness/runerr"
)

// Run is the whole program except for the process around it, and returns the exit status.
// A panic in any command becomes RUN_E007. commands makes the commands that args can name.
func Run(ctx context.Context, args []string, sys System, commands func(a *App, args ...string) []*cobra.Command) (status int) {
	debug.SetMemoryLimit(512 << 20)
	debug.SetGCPercent(startupGC)
	a := NewApp(sys)
	defer func() {
		if p := recover(); p != nil {
			status = a.failed(runerr.Panicked())
		}
	}()
	root := Root(a, commands(a, args...)...)
	a.format = formatOf(root, args)
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if a.out.err != nil { // a part of standard output was not written
		err = Unprinted(a.out.err)
	}
	if err != nil {
		status = a.failed(err)
		if cmd != nil && cmd.Annotations[FailsWith] != "" {
			status, _ = strconv.Atoi(cmd.Annotations[FailsWith])
		}
		return status
	}
	return a.Status
}

// failed reports why the command has no answer. An agent reads standard output alone, so it
// finds the error there too.
func (a *App) failed(err error) int {
	if a.format == report.FormatAgent {
		_ = a.Print(report.AgentError(runerr.Of(err)))
	}
	return a.Report(err)
}

// formatOf returns the last value of --format of a command line. It also finds the format if
// another flag of the line is wrong. A command without that flag has no format: its --format
// belongs to the program that it starts.
func formatOf(root *cobra.Command, args []string) (format string) {
	if cmd, _, err := root.Find(args); err == nil && !cmd.HasSubCommands() && cmd.Flags().Lookup("format") == nil {
		return ""
	}
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--format")
		switch {
		case arg == "--":
			return format
		case !ok:
		case strings.HasPrefix(value, "="):
			format = value[1:]
		case value == "" && i+1 < len(args):
			format = args[i+1]
		}
	}
	return format
}

// FailsWith is the annotation of a command with the exit status, in decimal digits, of its
// ends without an answer. Other commands end with exitError.
const FailsWith = "fails-with"

// Root returns the command fiador with its commands.
func Root(a *App, commands ...*cobra.Command) *cobra.Command {
	root := Group(&cobra.Command{
		Use:   "fiador",
		Short: "the safety catch for agent intents",
		Long: `Fiador reads what an agent wants to do, and decides under a policy profile whether the
agent may do it. The answer is BUNDLE (allowed, with the plan), CLARIFY (not yet, with
questions) or REFUSE (no, with the reason).

Fiador sends nothing but prompts, and these only to the models that
--model-adapters lists. It asks nothing on the terminal.

Exit codes:
  0  accepted, valid, the same, or printed
  1  rejected, a check failed, or different
  2  no answer`,
		Example: `  fiador demo
  fiador run intent.json
  fiador run intent.json --policy strict --bundle bundle.json`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
	}, commands...)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(narrow(a, root.HelpFunc()))
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colour on the terminal: auto, always or never")
	Complete(root, "color", "auto", "always", "never")
	root.PersistentFlags().BoolVar(&a.full, "full", false, "print hashes whole on the terminal")
	help, version := root.RunE, root.Flags().Bool("version", false, "print what the command version prints")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if c, _, err := root.Find([]string{"version"}); *version && err == nil {
			return c.RunE(c, nil)
		}
		return help(cmd, args)
	}
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			strictCompletion(cmd)
		}
	}
	return root
}
