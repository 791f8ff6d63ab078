package policycmd

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
)

// fmtCommand rewrites files in place. With --check it changes none, and the exit status
// is 1 if a file would change. The first file that cannot be read, parsed or written
// ends it with exit status 2; files before it are already rewritten.
func fmtCommand(a *cli.App) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "fmt PATH...",
		Short: "lay out Rego files in the standard way",
		Long: `Fmt rewrites every .rego file of the paths, those below folders included, in the
standard layout of Rego. It prints the names of those that it changed. A file that
cannot be parsed stays as it is. With - it formats standard input to standard output.

Exit codes:
  0  every file is laid out
  1  with --check: a file would change
  2  a file could not be read, parsed or written`,
		Example: `  fiador policy fmt ./acme
  fiador policy fmt --check ./acme
  fiador policy fmt - <rules.rego`,
		Args: cli.AtLeastOne("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				_, out, err := formatted(cmd.Context(), a, "-")
				if err != nil {
					return err
				}
				return a.Print(out)
			}
			files, err := regoFiles(args)
			if err != nil {
				return err
			}
			for _, name := range files {
				was, out, err := formatted(cmd.Context(), a, name)
				if err != nil {
					return err
				}
				if bytes.Equal(out, was) {
					continue
				}
				if check {
					a.Status = cli.ExitRejected
				} else if err := cli.WriteFile(name, out, nil); err != nil {
					return err
				}
				if err := a.Print([]byte(screen.Plain(screen.Folder(name)) + "\n")); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing, and fail where a file would change")
	return cmd
}

// formatted reads a whole module and formats it. It refuses a module above the limit of
// bytes that a policy has anyway.
func formatted(ctx context.Context, a *cli.App, name string) (was, now []byte, err error) {
	src, err := a.ReadUpTo(ctx, name, policy.DefaultLimits().ModuleBytes, "split the module")
	if err != nil {
		return nil, nil, err
	}
	if now, err = devel.Format(policy.Module{Name: src.Path, Source: src.Bytes}); err != nil {
		return nil, nil, runerr.Load(err)
	}
	return src.Bytes, now, nil
}

// regoFiles returns the files that the arguments name, whatever their suffix, and the
// Rego files below folders. It refuses a folder without any, so that a wrong name is
// noticed.
func regoFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, runerr.Unreadable(screen.Path(arg), runerr.Reason(err), "")
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(arg, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(strings.ToLower(name), ".rego") {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, runerr.Unreadable(screen.Path(arg), runerr.Reason(err), "")
		}
		if len(files) == before {
			return nil, runerr.Unreadable(screen.Path(arg), "no Rego file (*.rego) is below this folder", "")
		}
	}
	return files, nil
}
