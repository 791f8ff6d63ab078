package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

func ledgerInitCommand(a *app) *cobra.Command {
	var origin, key string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "make a ledger and its key",
		Long: `Init makes the folder DIR with an empty ledger, and a private key in the file of
--key, which only its owner can read and which does not belong into the folder. It
prints the verifier key: keep it where those who check the ledger find it, and out of
reach of those who write it.

The origin names the ledger for ever: a domain and a path of yours will do.

Exit codes:
  0  done
  2  not done, and nothing was made; or all was made, and the verifier key could not
     be printed: then it stands on standard error`,
		Example: `  fiador ledger init ./ledger --origin example.com/gate --key gate.key >gate.pub`,
		Args:    exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			return initLedger(a, args[0], origin, key)
		},
	}
	cmd.Flags().StringVar(&origin, "origin", "", "name of the ledger (required)")
	cmd.Flags().StringVar(&key, "key", "", "file to write the private key to (required)")
	return cmd
}

func initLedger(a *app, dir, origin, keyFile string) error {
	if origin == "" {
		return usage("for instance: --origin example.com/gate", "--origin is missing")
	}
	if err := ledger.CheckOrigin(origin); err != nil {
		return usage("for instance: --origin example.com/gate", "origin %q cannot be used: %s", origin, err)
	}
	if keyFile == "" {
		return usage("for instance: --key gate.key", "--key is missing")
	}
	if err := outside(dir, keyFile); err != nil {
		return err
	}
	signer, err := newKey(a, origin, keyFile)
	if err != nil {
		return err
	}
	r, err := disk.Create(dir, signer, disk.Options{Now: a.now})
	if err != nil {
		return errors.Join(ledgerError(dir, err), os.Remove(keyFile))
	}
	warnLedger(a, r.Warnings)
	if a.tty {
		a.term.message(fmt.Sprintf("ledger %q of %q; its verifier key is on standard output", screen.Path(dir), origin))
		a.term.hint("run: fiador run INTENT --ledger " + screen.Path(dir) + " --ledger-key " + screen.Path(keyFile))
	}
	return printVerifier(a, signer.Verifier(), fmt.Sprintf("ledger %q and key %q were made all the same", screen.Path(dir), screen.Path(keyFile)))
}

// newKey makes a private key for an origin and writes it to a new file.
func newKey(a *app, origin, file string) (*ledger.Signer, error) {
	private, _, err := ledger.GenerateKey(a.rand, origin)
	if err != nil {
		return nil, err
	}
	signer, err := ledger.ParseSigner(private)
	if err != nil {
		return nil, err
	}
	return signer, writeKey(file, private)
}

// printVerifier prints a verifier key. When standard output fails, standard error gets the
// key and the text stands.
func printVerifier(a *app, key ledger.Verifier, stands string) error {
	err := a.print([]byte(key.String() + "\n"))
	if err != nil {
		a.term.message(stands + "; the verifier key:")
		fmt.Fprintln(a.stderr, key)
	}
	return err
}

// outside refuses a key that lies in the ledger that it signs. Such a signature would
// prove nothing.
func outside(dir, keyFile string) error {
	in, err := beneath(dir, keyFile)
	if in {
		return unfit("keep it where the ledger's readers cannot get at it", "the key %q lies in the ledger that it signs", screen.Path(keyFile))
	}
	return err
}

// writeKey writes a private key to a new file that only its owner can read.
func writeKey(name, private string) error {
	taken := func(name string) error {
		return usage("name a new file: a key is never replaced", "key %q is there already", screen.Path(name))
	}
	if _, err := os.Lstat(name); err == nil {
		return taken(name)
	}
	return addFile(name, []byte(private+"\n"), nil, 0o600, taken)
}

// keyFlags name the private key of a ledger.
type keyFlags struct {
	file string
}

func (f *keyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "ledger-key", "", "file with the private key of the ledger (default: the key in FIADOR_LEDGER_KEY)")
}

// signer returns the private key of a ledger: from a file that only its owner can read, or
// from the environment.
func signer(a *app, f keyFlags, dir string) (*ledger.Signer, error) {
	if f.file == "" {
		text := a.env("FIADOR_LEDGER_KEY")
		if text == "" {
			return nil, usage("name its file with --ledger-key, or put it into FIADOR_LEDGER_KEY", "which key signs the ledger?")
		}
		s, err := ledger.ParseSigner(text)
		if err != nil {
			return nil, usage("it is the key itself, and not a file; --ledger-key names a file", "FIADOR_LEDGER_KEY is %s", err)
		}
		return s, nil
	}
	if err := outside(dir, f.file); err != nil {
		return nil, err
	}
	s, err := readKey(f.file)
	if err != nil {
		return nil, runerr.New(result.CodeUnreadable, err.Error(),
			"name the private key of the ledger, in a file that only its owner can read", runerr.Because(err))
	}
	return s, nil
}

// readKey reads a private key. Its errors name the file as other messages do.
func readKey(file string) (*ledger.Signer, error) {
	name := strconv.Quote(screen.Path(file))
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file") // to open a pipe would wait
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %s", name, runerr.Reason(err))
	}
	text := keyText(file)
	if _, err := ledger.ParseVerifier(text); err == nil || isPEM(text) {
		return nil, fmt.Errorf("key %s: this is the public key, and the private one is wanted", name)
	}
	s, err := disk.ReadKey(file)
	if err != nil && text != "" {
		// If the file holds no key, the permissions of the file are no fault to mend.
		if _, err := ledger.ParseSigner(text); err != nil {
			return nil, fmt.Errorf("key %s: not a private key: one begins with PRIVATE+KEY+ and is one line", name)
		}
	}
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("key %s: %s", name, runerr.Reason(err))
	}
	if err != nil {
		text := strings.ReplaceAll(err.Error(), strconv.Quote(file), name)
		return nil, errors.New(canon.Clean(strings.ReplaceAll(text, file, screen.Path(file))))
	}
	return s, nil
}

// keyText returns the first 4096 bytes of a file, more than any key has. It returns empty
// if the file cannot be read.
func keyText(file string) string {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK the open of a pipe would wait
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func ledgerRepairCommand(a *app) *cobra.Command {
	var dir string
	var key keyFlags
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "mend what stops appends, after looking at the whole ledger",
		Long: `Repair reads the whole ledger, makes everything again that is derived from it, takes
a torn end to quarantine, and allows appends again where one could not be undone.
Most of that an append does by itself. A ledger that does not verify is not repaired:
no whole line is ever changed or taken away.

Exit codes:
  0  done
  2  not done: the ledger does not verify, or cannot be written`,
		Example: `  fiador ledger repair --ledger ./ledger --ledger-key gate.key`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := ledgerDir(a, dir)
			if err != nil {
				return err
			}
			signer, err := signer(a, key, dir)
			if err != nil {
				return err
			}
			did, err := disk.Repair(cmd.Context(), dir, signer, disk.Options{Now: a.now, Progress: rebuilding(a)})
			if err != nil {
				return ledgerError(dir, err)
			}
			return a.print([]byte(strings.Join(did, "\n") + "\n"))
		},
	}
	cmd.Flags().StringVar(&dir, "ledger", "", "folder of the ledger (default: FIADOR_LEDGER)")
	key.register(cmd)
	return cmd
}

func ledgerRotateCommand(a *app) *cobra.Command {
	var dir, next string
	var key keyFlags
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "let another key sign from now on",
		Long: `Rotate-key makes a new private key in the file of --new-key and records its verifier
key, which the old key signs for. It prints the new verifier key. The old key signs
nothing any more; whoever trusts it can go on: verify follows the records.

Exit codes:
  0  done
  2  not done; or the key was rotated, and the verifier key could not be printed: then
     it stands on standard error`,
		Example: `  fiador ledger rotate-key --ledger ./ledger --ledger-key gate.key --new-key gate-2.key >gate-2.pub`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := ledgerDir(a, dir)
			if err != nil {
				return err
			}
			signer, err := signer(a, key, dir)
			if err != nil {
				return err
			}
			return rotateKey(cmd.Context(), a, dir, next, signer)
		},
	}
	cmd.Flags().StringVar(&dir, "ledger", "", "folder of the ledger (default: FIADOR_LEDGER)")
	key.register(cmd)
	cmd.Flags().StringVar(&next, "new-key", "", "file to write the new private key to (required)")
	return cmd
}

func rotateKey(ctx context.Context, a *app, dir, file string, signer *ledger.Signer) error {
	if file == "" {
		return usage("for instance: --new-key gate-2.key", "--new-key is missing")
	}
	if err := outside(dir, file); err != nil {
		return err
	}
	log, err := disk.Open(dir, signer, disk.Options{Now: a.now, Progress: rebuilding(a)})
	if err != nil {
		return ledgerError(dir, err)
	}
	defer log.Close()
	next, err := newKey(a, signer.Origin(), file)
	if err != nil {
		return err
	}
	r, err := log.Rotate(ctx, next)
	if err != nil {
		// It is uncertain whether the record of the new key is in the ledger. If it is,
		// nothing can be appended without that key.
		a.term.message(fmt.Sprintf("the new key stays in %q; delete it if \"fiador ledger list\" shows no key-rotation", screen.Path(file)))
		return ledgerError(dir, err)
	}
	warnLedger(a, r.Warnings)
	return printVerifier(a, next.Verifier(), fmt.Sprintf("the key was rotated all the same, and %q signs from now on", screen.Path(file)))
}

// warnLedger prints warnings about work after a record was written durably.
func warnLedger(a *app, warnings []string) {
	for _, w := range warnings {
		a.term.warning(w)
	}
}
