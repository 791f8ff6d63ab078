package suitecmd

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
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
		Long: `Verify holds a version directory (OUT/new/RUN_ID) against the artifact contract. It
checks the documents and their schemas, the cases that were selected, every reference to
a file or to evidence, hashes, and the seal. Verify is strict about the contract and
tolerant about names of assets and members that the contract does not know. A directory
without a seal is valid, and verify says so: it can be changed later without a trace.
With --key, one of the keys must have signed run.json, whose seal has the hashes of all
other files.

Of the folder of a comparison, verify checks the signature, every file that was signed, and
the version directories beneath the folder.

Exit codes:
  0  every directory is valid
  1  one breaks a rule: each line names the rule, the file and the place
  2  a directory cannot be read`,
		Example: `  fiador suite verify runs/new/nightly
  fiador suite verify runs/new/nightly --key suite.pub`,
		Args: cli.AtLeastOne("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			trusted, err := verifiers(keys)
			if err != nil {
				return err
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

// verifiers returns the keys that flags name.
func verifiers(given []string) (keys []ledger.Verifier, err error) {
	for _, text := range given {
		key, err := ledgers.VerifierKey("key", text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// verifyOne verifies one directory.
func verifyOne(a *cli.App, dir string, keys []ledger.Verifier) error {
	_, compared := os.Lstat(filepath.Join(dir, suitedir.CompareFile))
	if _, run := os.Lstat(filepath.Join(dir, trial.RunFile)); compared == nil && run != nil { // a run never passes for a comparison
		return verifyComparison(a, dir, keys)
	}
	v, err := verdict(dir, keys)
	if err != nil {
		return runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name a version directory: OUT/new/RUN_ID")
	}
	a.RejectIf(!v.OK())
	return cli.PrintText(a, func(t cli.Terminal) {
		violations(t, dir, v.Violations)
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

// violations prints a line for each violation.
func violations(t cli.Terminal, dir string, list []verify.Violation) {
	for _, f := range list {
		fmt.Fprintln(t.W, screen.Plain(fmt.Sprintf("%s: %s %s: %s", screen.Folder(dir), f.Rule, f.Path+f.Pointer, f.Msg)))
	}
}

// verifyComparison verifies the folder of a comparison.
func verifyComparison(a *cli.App, dir string, keys []ledger.Verifier) error {
	c, err := suitedir.Comparison(dir, keys, a.Specs)
	if err != nil {
		return runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name the folder of a comparison: its --out")
	}
	a.RejectIf(len(c.Violations) > 0)
	return cli.PrintText(a, func(t cli.Terminal) {
		violations(t, dir, c.Violations)
		if len(c.Violations) > 0 {
			return
		}
		state := "no key was given, so no signature is checked"
		if c.Signed {
			state = "signed by a given key"
		}
		fmt.Fprintln(t.W, screen.Plain(screen.Folder(dir)+": a valid comparison; "+state))
		for _, name := range c.Elsewhere {
			fmt.Fprintln(t.W, screen.Plain(screen.Folder(dir)+": not at its place in the folder, and not checked: "+name))
		}
	})
}

// verdict reads a directory and verifies it.
func verdict(dir string, keys []ledger.Verifier) (verify.Verdict, error) {
	d, err := suitedir.Open(dir)
	if err != nil {
		return verify.Verdict{}, err
	}
	defer d.Close()
	v, err := d.Verify()
	if err != nil || len(keys) == 0 {
		return v, err
	}
	if _, err := d.Signed(v.Sealed, keys); err != nil {
		v.Violations = append(v.Violations, verify.Violation{Rule: "signature", Path: trial.SignatureFile, Msg: runerr.Reason(err)})
	}
	return v, nil
}
