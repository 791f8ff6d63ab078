package packcmd

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/ledger"
)

func keygenCommand(a *cli.App) *cobra.Command {
	var name, file, public string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "make a key that signs run packs",
		Long: `Keygen makes a private key (Ed25519) in the new file of --key, which only its owner can
read. It prints the verifier key: give it to those who verify packs. With --pem it also
writes the public key as PEM, a form that other programs read.

The name is part of the key and of every signature: a domain and a path of yours will do.

Exit codes:
  0  done
  2  not done, and nothing was made; or all was made, and the verifier key could not
     be printed: then it stands on standard error`,
		Example: `  fiador pack keygen --name example.com/release --key pack.key >pack.pub`,
		Args:    cli.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return packKeygen(a, name, file, public) },
	}
	cli.RefuseEmpty(cmd, "name", "key", "pem")
	cmd.Flags().StringVar(&name, "name", "", "name of the key (required)")
	cmd.Flags().StringVar(&file, "key", "", "new file to write the private key to (required)")
	cmd.Flags().StringVar(&public, "pem", "", "new file to write the public key to, as PEM")
	return cmd
}

// packKeygen makes an Ed25519 key in the form of a signed note (specs/pack.md,
// Signature). If the PEM cannot be written, the private key is removed again. It
// refuses a name that no key can have and every existing file.
func packKeygen(a *cli.App, name, file, public string) error {
	if name == "" {
		return cli.Usage("for instance: --name example.com/release", "--name is missing")
	}
	if err := ledger.CheckOrigin(name); err != nil {
		why := strings.Replace(err.Error(), "an origin", "a name", 1)
		return cli.Usage("for instance: --name example.com/release", "name %q cannot be used: %s", name, why)
	}
	switch {
	case file == "":
		return cli.Usage("for instance: --key pack.key", "--key is missing")
	case file == "-" || public == "-":
		return cli.Unfit("name a file", `"-" would not be standard output`)
	}
	if err := cmp.Or(keyPlaces(file, public), cli.Absent(public)); err != nil {
		return err
	}
	signer, err := ledgers.NewKey(a, name, file)
	if err != nil {
		return err
	}
	if public != "" {
		if err := writePEM(public, signer.Verifier()); err != nil {
			return errors.Join(err, os.Remove(file))
		}
	}
	return ledgers.PrintVerifier(a, signer.Verifier(), fmt.Sprintf("key %q was made all the same", screen.Path(file)))
}

// keyPlaces refuses two places for keys before any file is made: one file for both
// keys, and a file in a pack. The readers of that pack would get the private key.
func keyPlaces(file, public string) error {
	if public != "" {
		same, err := cli.Beneath(file, public)
		if same {
			return cli.Unfit("give each a file of its own", "--key and --pem are both file %q", screen.Path(file))
		}
		if err != nil {
			return err
		}
	}
	dir := filepath.Dir(file)
	for _, name := range []string{pack.RunFile, pack.PolicyFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return nil
		}
	}
	return cli.Unfit("keep it where the pack's readers cannot get at it", "the key %q would lie in a pack", screen.Path(file))
}

// writePEM writes a public key as a SubjectPublicKeyInfo to a new file.
func writePEM(name string, key ledger.Verifier) error {
	der, err := x509.MarshalPKIXPublicKey(key.PublicKey())
	if err != nil {
		return err
	}
	return cli.WriteNew(name, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil)
}
