// Package provecmd has the commands that prove results: verify, digest and compare hold
// RunResults against their rules and against each other. Fingerprint and conformance hold
// this machine and wrappers against the vectors.
package provecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	"github.com/fiador/fiador/specs"
)

// Verify returns the command that holds RunResults against their rules.
func Verify(a *cli.App) *cobra.Command {
	var profile, format string
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

With --format json it prints one canonical object a RESULT: result, verdict (valid,
invalid or undecided) and checks.

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
			for _, name := range args {
				v, err := verifyResult(cmd.Context(), a, name, given)
				if err != nil {
					a.Status = max(a.Status, a.Report(err))
					continue
				}
				a.Status = max(a.Status, v.status)
				if err := cli.PrintAs(a, format, v, v.text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&profile, "policy", "", "profile that the results were made under (default: the built-in one that each names)")
	cli.Complete(cmd, "policy", profiles.Names()...)
	cli.FormatFlag(cmd, &format, "human", "json")
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
		return resultFile{}, runerr.Read(src.Text(), err)
	}
	if err != nil {
		e := runerr.New(result.CodeEvidence, src.Path+": not a RunResult: "+err.Error(), "name a file that fiador run printed", runerr.File(src.Path))
		if doc, err := canon.Parse(src.Bytes, result.MaxBytes); err == nil {
			src.Text().Named(e, "a RunResult", specs.KindRunResult, doc.Value())
		}
		return resultFile{}, e
	}
	return resultFile{file, src.Path}, nil
}

// verified is what verify says about a result: its checks, those that fail first.
type verified struct {
	Result  string    `json:"result"`
	Verdict string    `json:"verdict"` // valid, invalid or undecided
	Checks  []checked `json:"checks"`
	words   []result.Status
	status  int
	said    string
}

// checked is one check of a result.
type checked struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`        // ok, fail or not_checked
	Why    string `json:"why,omitempty"` // what is wrong, why it was not checked, or what a pass does not cover
}

func (v verified) text(t cli.Terminal) {
	style := map[result.Status]string{result.Fail: screen.Red, result.NotChecked: screen.Yellow, result.Pass: screen.Green}
	for i, c := range v.Checks {
		word := v.words[i]
		fmt.Fprintf(t.W, "%s  %-6s  %s", t.Paint(style[word], fmt.Sprintf("%-11s", word)), c.ID, c.Title)
		if c.Why != "" {
			fmt.Fprintf(t.W, ": %s", screen.Plain(c.Why))
		}
		fmt.Fprintln(t.W)
	}
	t.Line(screen.Plain(v.Result), v.said)
}

// verifyResult makes every check of one file. The status is 1 for a failed check, and 2
// for a check that could not be made. A check that the version of the result does not have
// changes nothing (RS3a).
func verifyResult(ctx context.Context, a *cli.App, name string, given *kernel.Profile) (verified, error) {
	file, err := readResult(ctx, a, name)
	if err != nil {
		return verified{}, err
	}
	checks, err := file.Checks(a.Specs, given)
	if err != nil {
		return verified{}, err
	}
	rank := func(c result.Check) int {
		return slices.Index([]result.Status{result.Fail, result.NotChecked, result.Pass}, c.Status)
	}
	slices.SortStableFunc(checks, func(x, y result.Check) int { return rank(x) - rank(y) })
	v := verified{Result: file.path}
	counts, foreign := map[result.Status]int{}, 0
	for _, c := range checks {
		if c.NotOfVersion {
			foreign++
		} else {
			counts[c.Status]++
		}
		v.words = append(v.words, c.Status)
		v.Checks = append(v.Checks, checked{c.ID, c.Title, strings.ToLower(strings.ReplaceAll(string(c.Status), " ", "_")), cmp.Or(c.Fault, c.Note)})
	}
	v.said, v.Verdict, v.status = screen.Count(counts[result.Pass], "check")+" hold", "valid", cli.ExitAccepted
	switch {
	case counts[result.Fail] > 0:
		v.said, v.Verdict, v.status = fmt.Sprintf("%d of %s failed", counts[result.Fail], screen.Count(len(checks), "check")), "invalid", cli.ExitRejected
	case counts[result.NotChecked] > 0:
		v.said, v.Verdict, v.status = fmt.Sprintf("%d of %s not made", counts[result.NotChecked], screen.Count(len(checks), "check")), "undecided", cli.ExitError
	case foreign > 0:
		v.said += fmt.Sprintf(", %d not of this version", foreign)
	}
	return v, nil
}
