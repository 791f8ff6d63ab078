package suitecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
	"github.com/fiador/fiador/ledger"
)

// Verify returns the command that verifies version directories.
func Verify(a *cli.App) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "verify the directories of runs, those of other runners too",
		Long: `Verify holds a version directory (OUT/new/RUN_ID) against the artifact contract: the
documents and their schemas, the cases that were selected, every reference to a file or to
evidence, hashes, and the seal. It is strict about the contract and tolerant about names of
assets and members that the contract does not know. A directory without a seal is valid,
and verify says so: it can be changed later without a trace. With --key, one of the keys
must have signed run.json, whose seal has the hashes of all other files.

Exit codes:
  0  every directory is valid
  1  one breaks a rule: each line names the rule, the file and the place
  2  a directory cannot be read`,
		Example: `  fiador suite verify runs/new/nightly
  fiador suite verify runs/new/nightly --key suite.pub`,
		Args: cli.AtLeastOne("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			var trusted []ledger.Verifier
			for _, text := range keys {
				key, err := ledgers.VerifierKey("key", text)
				if err != nil {
					return err
				}
				trusted = append(trusted, key)
			}
			for _, dir := range args {
				if err := verifyOne(a, dir, trusted); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "verifier key, or a file with it, of which one must have signed (suite run --sign); may be repeated")
	return cmd
}

// verifyOne verifies one directory.
func verifyOne(a *cli.App, dir string, keys []ledger.Verifier) error {
	v, err := verdict(dir, keys)
	if err != nil {
		return runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name a version directory: OUT/new/RUN_ID")
	}
	a.RejectIf(!v.OK())
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, f := range v.Violations {
			fmt.Fprintln(t.W, screen.Plain(fmt.Sprintf("%s: %s %s: %s", screen.Folder(dir), f.Rule, f.Path+f.Pointer, f.Msg)))
		}
		if v.More > 0 {
			fmt.Fprintln(t.W, screen.Plain(fmt.Sprintf("%s: %d more violations", screen.Folder(dir), v.More)))
		}
		state := "unsealed"
		if v.Sealed {
			state = "sealed"
		}
		if v.OK() {
			fmt.Fprintln(t.W, screen.Plain(screen.Folder(dir)+": valid, "+state))
		}
	})
}

// verdict reads a directory and verifies it.
func verdict(dir string, keys []ledger.Verifier) (verify.Verdict, error) {
	files, err := asset.Open(dir)
	if err != nil {
		return verify.Verdict{}, err
	}
	defer files.Close()
	names, faults, err := files.Names()
	if err != nil {
		return verify.Verdict{}, err
	}
	var others []verify.Entry
	for _, f := range faults {
		others = append(others, verify.Entry{Name: f.Name, What: f.What})
	}
	v, err := suitedir.New(files, names, others).Verify()
	if err != nil || len(keys) == 0 {
		return v, err
	}
	if err := suitedir.Signed(files, v.Sealed, keys); err != nil {
		v.Violations = append(v.Violations, verify.Violation{Rule: "signature", Path: trial.SignatureFile, Msg: runerr.Reason(err)})
	}
	return v, nil
}
