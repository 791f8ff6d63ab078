package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/specs"
)

// HelpHint returns the hint that names the help of a command.
func HelpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("%q lists what it takes", cmd.CommandPath()+" --help")
}

// NoArgs refuses every argument.
func NoArgs(cmd *cobra.Command, args []string) error { return ExactArgs()(cmd, args) }

// Group makes cmd a group of commands: without an argument it prints its help.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = groupArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// groupArgs refuses an argument that is no command of the group.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	if cmd.HasParent() {
		name = cmd.Name() + " " + name
	}
	return Usage(nearCommand(cmd, args[0]), "unknown command %q", name)
}

// nearCommand returns the hint for an unknown command name.
func nearCommand(cmd *cobra.Command, name string) string {
	return near(cmd, name, cmd.CommandPath()+" ", (*cobra.Command).IsAvailableCommand)
}

// near returns the hint for an unknown name behind a prefix, which stands for one of the
// commands of cmd that ok accepts.
func near(cmd *cobra.Command, name, prefix string, ok func(*cobra.Command) bool) string {
	var known []string
	for _, c := range cmd.Commands() {
		if ok(c) {
			known = append(known, c.Name())
		}
	}
	if near := specs.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", prefix+near)
	}
	return HelpHint(cmd)
}

// ExactArgs returns a check for one argument of each name.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usage(HelpHint(cmd), "%s is missing", names[len(args)])
		case len(args) > len(names):
			return Usage(HelpHint(cmd), "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// NotEmpty refuses flags with an empty value. An empty value would have the effect of a
// flag that is left out, and the caller does not mean that.
func NotEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return Usage(HelpHint(cmd), "--%s is empty", name)
		}
	}
	return nil
}

// RefuseEmpty makes a command call NotEmpty before it does anything. A command calls
// RefuseEmpty or FormatFlag, because each sets its only check.
func RefuseEmpty(cmd *cobra.Command, names ...string) {
	cmd.PreRunE = func(*cobra.Command, []string) error { return NotEmpty(cmd, names...) }
}

// Choice refuses a flag value that is not in its list.
func Choice(flag, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	hint := "one of: " + strings.Join(known, ", ")
	if near := specs.Nearest(value, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return Unfit(hint, "unknown %s %q", flag, value)
}

// Complete sets the values that a shell completes a flag with.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, fixed); err != nil {
		panic(err)
	}
}

// FormatFlag adds the flag --format. The first format is the default. The command refuses
// an unknown format before it does anything.
func FormatFlag(cmd *cobra.Command, value *string, formats ...string) {
	last := len(formats) - 1
	usage := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVar(value, "format", formats[0], usage)
	Complete(cmd, "format", formats...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return Choice("format", *value, formats) }
}

// AtLeastOne returns a check for one argument of a name, or more.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return ExactArgs(name)(cmd, args[:min(len(args), 1)])
	}
}

// AtMostOne refuses a second argument.
func AtMostOne(cmd *cobra.Command, args []string) error {
	return NoArgs(cmd, args[min(len(args), 1):])
}

// Once is a flag that may be given one time. Otherwise the later of two profiles would win
// without a message.
type Once struct {
	Value *string
	given bool
}

func (o *Once) String() string {
	if o.Value == nil {
		return ""
	}
	return *o.Value
}

func (o *Once) Set(s string) error {
	if o.given {
		return errTwice
	}
	*o.Value, o.given = s, true
	return nil
}

var errTwice = errors.New("given twice")

func (*Once) Type() string { return "string" }
