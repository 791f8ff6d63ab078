package policycmd

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/scaffold"
)

// Init returns the command that gates a repository with a first profile. It keeps every
// existing file. For a kept file of settings that does not mention Fiador, it prints
// the text to add.
func Init(a *cli.App) *cobra.Command {
	name := "house"
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "begin to gate the intents of a repository",
		Long: `Init writes what a repository needs to gate its intents: a profile with its Rego
and tests (.fiador/profile), an example intent, a CI workflow, an entry for
pre-commit, and settings by which an editor checks intents as they are written.
It overwrites nothing: an existing file is kept, and the printed list says so.

Exit codes:
  0  every file is there
  2  a file could not be written`,
		Example: `  fiador init
  fiador init --name acme`,
		Args: cli.AtMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkProfileName(name); err != nil {
				return err
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			list, err := scaffold.Repository(name)
			if err != nil {
				return err
			}
			kept, err := sowAll(a, dir, list)
			if err != nil {
				return err
			}
			for _, s := range kept {
				if !s.Wanted(dir) {
					continue
				}
				if err := a.Print([]byte("\nAdd to " + screen.Plain(asGiven(filepath.Join(dir, filepath.FromSlash(s.Path)))) + ":\n\n" + s.Text)); err != nil {
					return err
				}
			}
			enter := ""
			if dir != "." {
				enter = "  cd " + screen.Plain(asGiven(dir)) + "\n"
			}
			return a.Print([]byte("\nTry next:\n" + enter + "  fiador policy test .fiador/profile --coverage\n  fiador check intents --policy .fiador/profile --tree intents --format human\n"))
		},
	}
	cmd.Flags().StringVar(&name, "name", name, "name of the profile")
	return cmd
}
