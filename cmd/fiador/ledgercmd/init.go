package ledgercmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

func initCommand(a *cli.App) *cobra.Command {
	var origin, key string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "make a ledger and its key",
		Long: `Init makes the folder DIR with an empty ledger, and a private key in the file of
--key. Only the owner can read that file, and it must not lie in DIR. Init prints the
verifier key: keep it where those who check the ledger find it, and out of reach of
those who write the ledger.

The origin names the ledger for ever: a domain and a path of yours will do.

Exit codes:
  0  done
  2  not done, and nothing was made; or all was made, and the verifier key could not
     be printed: then it stands on standard error`,
		Example: `  fiador ledger init ./ledger --origin example.com/gate --key gate.key >gate.pub`,
		Args:    cli.ExactArgs("DIR"),
		RunE:    func(_ *cobra.Command, args []string) error { return initLedger(a, args[0], origin, key) },
	}
	cmd.Flags().StringVar(&origin, "origin", "", "name of the ledger (required)")
	cmd.Flags().StringVar(&key, "key", "", "file to write the private key to (required)")
	return cmd
}

// initLedger makes the private key first and then the ledger with its genesis record.
// If the ledger cannot be made, the key is removed again. It refuses a key in the
// ledger's folder (specs/ledger.md, Keys).
func initLedger(a *cli.App, dir, origin, keyFile string) error {
	if origin == "" {
		return cli.Usage("for instance: --origin example.com/gate", "--origin is missing")
	}
	if err := ledger.CheckOrigin(origin); err != nil {
		return cli.Usage("for instance: --origin example.com/gate", "origin %q cannot be used: %s", origin, err)
	}
	if keyFile == "" {
		return cli.Usage("for instance: --key gate.key", "--key is missing")
	}
	if err := ledgers.Outside(dir, keyFile, "ledger"); err != nil {
		return err
	}
	signer, err := ledgers.NewKey(a, origin, keyFile)
	if err != nil {
		return err
	}
	r, err := disk.Create(dir, signer, disk.Options{Now: a.Now})
	if err != nil {
		return errors.Join(ledgers.Error(dir, err), os.Remove(keyFile))
	}
	ledgers.Warn(a, r.Warnings)
	if a.TTY {
		a.Term.Message(fmt.Sprintf("ledger %q of %q; its verifier key is on standard output", screen.Path(dir), origin))
		a.Term.Hint("run: fiador run INTENT --ledger " + screen.Path(dir) + " --ledger-key " + screen.Path(keyFile))
	}
	return ledgers.PrintVerifier(a, signer.Verifier(), fmt.Sprintf("ledger %q and key %q were made all the same", screen.Path(dir), screen.Path(keyFile)))
}

// repairCommand prints a line for each thing that disk.Repair did. A ledger that does
// not verify is exit status 2: it is never changed.
func repairCommand(a *cli.App) *cobra.Command {
	var f ledgers.SignFlags
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "mend what stops appends, after looking at the whole ledger",
		Long: `Repair reads the whole ledger, makes all files again that are derived from it, and
moves a torn end to quarantine. If an append could not be undone, repair allows appends
again. An append does most of this by itself. A ledger that does not verify is not
repaired: no whole line is ever changed or removed.

Exit codes:
  0  done
  2  not done: the ledger does not verify, or cannot be written`,
		Example: `  fiador ledger repair --ledger ./ledger --ledger-key gate.key`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, signer, err := f.Signer(a)
			if err != nil {
				return err
			}
			did, err := disk.Repair(cmd.Context(), dir, signer, disk.Options{Now: a.Now, Progress: ledgers.Rebuilding(a)})
			if err != nil {
				return ledgers.Error(dir, err)
			}
			return a.Say([]byte(strings.Join(did, "\n") + "\n"))
		},
	}
	f.Register(cmd, " (default: FIADOR_LEDGER)")
	return cmd
}

func rotateCommand(a *cli.App) *cobra.Command {
	var next string
	var f ledgers.SignFlags
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "let another key sign from now on",
		Long: `Rotate-key makes a new private key in the file of --new-key. It records the new
verifier key, signed by the old key, and prints it. The old key signs nothing any
more. Whoever trusts the old key can go on: verify follows the records.

Exit codes:
  0  done
  2  not done; or the key was rotated, and the verifier key could not be printed: then
     it stands on standard error`,
		Example: `  fiador ledger rotate-key --ledger ./ledger --ledger-key gate.key --new-key gate-2.key >gate-2.pub`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, signer, err := f.Signer(a)
			if err != nil {
				return err
			}
			return rotateKey(cmd.Context(), a, dir, next, signer)
		},
	}
	f.Register(cmd, " (default: FIADOR_LEDGER)")
	cmd.Flags().StringVar(&next, "new-key", "", "file to write the new private key to (required)")
	return cmd
}

// rotateKey records the verifier key of a new private key in file, and prints it. From
// then on the new key signs. If the record fails, the new key stays: the ledger may
// need it.
func rotateKey(ctx context.Context, a *cli.App, dir, file string, signer *ledger.Signer) error {
	if file == "" {
		return cli.Usage("for instance: --new-key gate-2.key", "--new-key is missing")
	}
	if err := ledgers.Outside(dir, file, "ledger"); err != nil {
		return err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.Now, Progress: ledgers.Rebuilding(a)})
	if err != nil {
		return ledgers.Error(dir, err)
	}
	defer log.Close()
	next, err := ledgers.NewKey(a, signer.Origin(), file)
	if err != nil {
		return err
	}
	r, err := log.Rotate(ctx, next)
	if err != nil {
		// It is uncertain whether the record of the new key is in the ledger. If it is,
		// nothing can be appended without that key.
		a.Term.Message(fmt.Sprintf("the new key stays in %q; delete it if \"fiador ledger list\" shows no key-rotation", screen.Path(file)))
		return ledgers.Error(dir, err)
	}
	ledgers.Warn(a, r.Warnings)
	return ledgers.PrintVerifier(a, next.Verifier(), fmt.Sprintf("the key was rotated all the same, and %q signs from now on", screen.Path(file)))
}
