// Package provecmd has the commands that prove results: verify, digest and compare hold
// RunResults against their rules and against each other. Fingerprint and conformance hold
// this machine and wrappers against the vectors.
package provecmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/resultfile"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
)

// Verify returns the command that holds RunResults against their rules.
func Verify(a *cli.App) *cobra.Command {
	profile := ""
	cmd := &cobra.Command{
		Use:   "verify RESULT...",
		Short: "check RunResult files against RS1..RS8",
		Long: `Verify checks each RunResult file against every invariant and lists all invariants
by name, those that fail first. RS5 needs the profile that the result names. If that
profile is not built in, name it with --policy; otherwise RS5 is not checked, and the
exit code is 2.

A result of version 1.0.0 has the contract's members and no others. RS3a does not
apply to it: RS3a is listed as not checked and does not change the exit code. A later
version 1.x.y may have members that this fiador does not know; verify names them.

Exit codes:
  0  every check of every file holds
  1  at least one check fails
  2  a file could not be read or is no RunResult, or a check could not be made`,
		Example: `  fiador run intent.json >result.json; fiador verify result.json
  fiador verify results/*.json --policy ./acme
  fiador run intent.json | fiador verify -`,
		Args: cli.AtLeastOne("RESULT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := policies.GivenProfile(a, profile)
			if err != nil {
				return err
			}
			var out bytes.Buffer
			for _, name := range args {
				status, err := verifyResult(cmd.Context(), a, &out, name, given)
				if err != nil {
					status = a.Report(err)
				}
				a.Status = max(a.Status, status)
			}
			return a.Print(out.Bytes())
		},
	}
	cmd.Flags().StringVar(&profile, "policy", "", "profile that the results were made under (default: the built-in one that each names)")
	cli.Complete(cmd, "policy", profiles.Names()...)
	return cmd
}

// resultFile is a RunResult file that was read, with its name for messages.
type resultFile struct {
	resultfile.File
	path string
}

// readResult reads a RunResult without checking its invariants. A text that is no
// strict JSON is a RUN_E002, and JSON that is no RunResult is a RUN_E006.
func readResult(ctx context.Context, a *cli.App, name string) (resultFile, error) {
	src, err := a.Read(ctx, name, result.MaxBytes)
	if err != nil {
		return resultFile{}, err
	}
	file, err := resultfile.Parse(src.Bytes)
	if errors.As(err, new(*canon.Error)) {
		return resultFile{}, runerr.Read(src.Path, err)
	}
	if err != nil {
		return resultFile{}, runerr.New(result.CodeEvidence, src.Path+": not a RunResult: "+err.Error(), "name a file that fiador run printed", runerr.File(src.Path))
	}
	return resultFile{file, src.Path}, nil
}

// verifyResult writes every check of one file to out, those that fail first. It returns
// exit status 1 for a failed check, and 2 for a check that could not be made. A check
// that the version of the result does not have changes nothing (RS3a).
func verifyResult(ctx context.Context, a *cli.App, out *bytes.Buffer, name string, given *kernel.Profile) (int, error) {
	file, err := readResult(ctx, a, name)
	if err != nil {
		return 0, err
	}
	checks, err := file.Checks(a.Specs, given)
	if err != nil {
		return 0, err
	}
	rank := func(c result.Check) int {
		return slices.Index([]result.Status{result.Fail, result.NotChecked, result.Pass}, c.Status)
	}
	slices.SortStableFunc(checks, func(x, y result.Check) int { return rank(x) - rank(y) })
	t := cli.Terminal{W: out, Color: a.Page.Color}
	counts, foreign := map[result.Status]int{}, 0
	for _, c := range checks {
		if c.NotOfVersion {
			foreign++
		} else {
			counts[c.Status]++
		}
		style := map[result.Status]string{result.Fail: screen.Red, result.NotChecked: screen.Yellow, result.Pass: screen.Green}[c.Status]
		fmt.Fprintf(out, "%s  %-6s  %s", t.Paint(style, fmt.Sprintf("%-11s", c.Status)), c.ID, c.Title)
		if why := cmp.Or(c.Fault, c.Note); why != "" {
			fmt.Fprintf(out, ": %s", screen.Plain(why))
		}
		fmt.Fprintln(out)
	}
	said, status := screen.Count(counts[result.Pass], "check")+" hold", cli.ExitAccepted
	switch {
	case counts[result.Fail] > 0:
		said, status = fmt.Sprintf("%d of %s failed", counts[result.Fail], screen.Count(len(checks), "check")), cli.ExitRejected
	case counts[result.NotChecked] > 0:
		said, status = fmt.Sprintf("%d of %s not made", counts[result.NotChecked], screen.Count(len(checks), "check")), cli.ExitError
	case foreign > 0:
		said += fmt.Sprintf(", %d not of this version", foreign)
	}
	t.Line(screen.Plain(file.path), said)
	return status, nil
}
