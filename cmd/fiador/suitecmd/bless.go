package suitecmd

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/suite/compare"
)

// Bless returns the command that makes a baseline of a run of new.
func Bless(a *cli.App) *cobra.Command {
	var to, sign string
	var keys []string
	cmd := &cobra.Command{
		Use:   "bless DIR...",
		Short: "make a baseline of a run of new",
		Long: `Bless verifies a run of new, and copies it, as a run of baseline, to a place where
nothing stands yet. In the copy the documents name baseline, blessed_from of run.json
names the run that was blessed, and the seal is new. With several directories, or a
folder with the repeats of one run, the place gets a folder for each. The run of new
does not change. Either the whole baseline is there afterwards, or nothing is.

Exit codes:
  0  the baseline is there
  2  it is not: a directory is not valid or not of new, or something stands at the place`,
		Example: `  fiador suite bless runs/new/nightly --to baselines/main
  fiador suite compare --baseline baselines/main --new runs/new/next`,
		Args: cli.AtLeastOne("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return bless(a, args, to, sign, keys) },
	}
	cmd.Flags().StringVar(&to, "to", "", "`DIR` of the baseline, where nothing stands yet")
	cmd.Flags().StringVar(&sign, "sign", "", "`FILE` with the private key that signs run.json of the baseline")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "verifier key, or a file with it, of which one must have signed the run; may be repeated")
	return cmd
}

func bless(a *cli.App, args []string, to, sign string, given []string) error {
	if to == "" {
		return cli.Usage("name it with --to", "where is the baseline to stand?")
	}
	if err := cmp.Or(folders("--to", to), folders("DIR", args...)); err != nil {
		return err
	}
	keys, err := verifiers(given)
	if err != nil {
		return err
	}
	rules, err := redact.New(redact.Config{SchemaVersion: redact.Version})
	if err != nil {
		return err
	}
	var signer func(run []byte) ([]byte, error)
	if sign != "" {
		key, err := signingKey(to, sign)
		if err != nil {
			return err
		}
		signer = func(run []byte) ([]byte, error) { return suitedir.Sign(run, key) }
	}
	var runs []*compare.Version
	defer func() {
		for _, v := range runs {
			_ = v.Close()
		}
	}()
	for _, arg := range args {
		dirs, err := compare.Expand(arg)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			v, err := compare.Load(dir, keys, rules)
			if err != nil {
				return err
			}
			runs = append(runs, v)
		}
	}
	if err := compare.Bless(runs, to, signer); err != nil {
		return err
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, v := range runs {
			t.Line(screen.Plain(screen.Folder(to) + ": baseline, blessed from the run " + v.RunID))
		}
		t.Line(screen.Plain("Compare with it: fiador suite compare --baseline " + to + " --new DIR"))
	})
}
