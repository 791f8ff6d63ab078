package policycmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/scaffold"
)

// newCommand makes the folder of a profile. It refuses a folder that is not empty.
func newCommand(a *cli.App) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "begin a profile: a commented example with its test",
		Long: `New makes a folder with a profile that extends default, two commented rules, their
tests, and the intents that the tests use. It overwrites nothing.

Exit codes:
  0  the folder was made
  2  the name cannot be used, or the folder is there and not empty`,
		Example: `  fiador policy new acme
  fiador policy test acme --coverage`,
		Args: cli.ExactArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if err := checkProfileName(name); err != nil {
				return err
			}
			to := cmp.Or(dir, name)
			entries, err := os.ReadDir(to)
			if err == nil && len(entries) > 0 {
				return cli.Usage("name another folder with --dir", "folder %s is not empty", cli.Quoted(to))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return cli.Usage("name another folder with --dir", "folder %s: %s", cli.Quoted(to), runerr.Reason(err))
			}
			list, err := scaffold.Profile(name)
			if err != nil {
				return err
			}
			shown := asGiven(to)
			if _, err := sowAll(a, to, list); err != nil {
				return err
			}
			return a.Print(fmt.Appendf(nil, "\nTry next:\n  fiador policy test %[1]s --coverage\n  fiador check %[1]s/intents --policy %[1]s --tree %[1]s/intents --format human\n", shown))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder to make (default: the name)")
	return cmd
}
