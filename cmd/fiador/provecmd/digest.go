package provecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Digest returns the command that prints the hash of a RunResult's canonical subset.
func Digest(a *cli.App) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "digest RESULT",
		Short: "print the hash of a RunResult's canonical subset",
		Long: `Digest prints the SHA-256 of the canonical subset of a RunResult (its canonical
JSON without run_id, started_at, completed_at and intent.path, and one LF). Two
machines that print the same digest decided alike, under the same policy text.

With --format json it prints one canonical object: result and digest.

Exit codes:
  0  the digest was printed
  2  the file could not be read, or is no RunResult`,
		Example: `  fiador digest result.json
  fiador run intent.json | fiador digest -`,
		Args: cli.ExactArgs("RESULT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			obj, err := readProven(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			hash, err := result.Digest(obj.Object)
			if err != nil {
				return err
			}
			document := struct {
				Result string            `json:"result"`
				Digest canon.ContentHash `json:"digest"`
			}{obj.path, hash}
			if format == "json" {
				return cli.PrintJSON(a, document)
			}
			return a.Print([]byte(string(hash) + "\n")) // whole on a terminal too
		},
	}
	cli.FormatFlag(cmd, &format, "human", "json")
	return cmd
}

// readProven reads a RunResult and refuses one that breaks an invariant which the file
// alone can prove (specs/run-result.md, Invariants). It leaves out RS5, which needs the
// profile, and RS7, the form of the file. The canonical subset of a refused file has no
// meaning.
func readProven(ctx context.Context, a *cli.App, name string) (resultFile, error) {
	file, err := readResult(ctx, a, name)
	if err != nil {
		return resultFile{}, err
	}
	checks, err := file.Checks(a.Specs, nil)
	if err != nil {
		return resultFile{}, err
	}
	for _, c := range checks {
		if c.Status == result.Fail && c.ID != "RS5" && c.ID != "RS7" {
			return resultFile{}, runerr.New(result.CodeEvidence, file.path+": not a valid RunResult: "+c.Fault,
				"fiador verify lists every check", runerr.Rule(c.ID), runerr.File(file.path))
		}
	}
	return file, nil
}
