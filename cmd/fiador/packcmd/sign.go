package packcmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// packSignFlags are the flags of sign. key is the file of the private key, and empty
// for the key in FIADOR_PACK_KEY. policy is a profile that is not built in.
type packSignFlags struct {
	key    string
	policy string
}

func signCommand(a *cli.App) *cobra.Command {
	var f packSignFlags
	cmd := &cobra.Command{
		Use:   "sign PACK...",
		Short: "sign run packs, so that a change shows",
		Long: `Sign verifies each pack, strictly, and signs it if it is valid. The signature is a DSSE
envelope in meta.json, over an in-toto statement with the hash of every other file. A
pack can have signatures of several keys; a key that signs again replaces only its own
signature. meta.json is replaced as a whole, and its other members stay. An archive is
not signed: sign the folder first, and then archive it.

If the profile of the pack is not built in, name it with --policy.

Exit codes:
  0  every pack is signed
  1  a pack breaks a rule, and was not signed
  2  a pack could not be read, verified or signed`,
		Example: `  fiador pack sign ./pack --key pack.key
  fiador pack verify ./pack --key pack.pub`,
		Args: cli.AtLeastOne("PACK"),
		RunE: func(_ *cobra.Command, args []string) error { return signPacks(a, args, f) },
	}
	cli.RefuseEmpty(cmd, "key", "policy")
	cmd.Flags().StringVar(&f.key, "key", "", "file with the private key (default: the key in FIADOR_PACK_KEY)")
	policies.ProfileFlag(cmd, &f.policy, "profile that the packs were made under (default: the built-in one that each names)")
	return cmd
}

// signPacks signs the packs one after the other. A pack that cannot be signed stops no
// other one. The worst pack decides the exit status: 1 for a broken rule, 2 for a pack
// that could not be read, decided or signed. If standard output fails, standard error
// names the packs that are signed.
func signPacks(a *cli.App, names []string, f packSignFlags) error {
	key, err := packSigner(a, f.key, names)
	if err != nil {
		return err
	}
	given, err := policies.GivenProfile(a, f.policy)
	if err != nil {
		return err
	}
	o := packs.Options(a, given)
	var out bytes.Buffer
	var signed []string
	for _, name := range names {
		status, err := signPack(a, &out, name, key, o)
		switch {
		case err != nil:
			status = a.Report(err)
		case status == cli.ExitAccepted:
			signed = append(signed, cli.Quoted(name))
		}
		a.Status = max(a.Status, status)
	}
	if len(signed) == 0 {
		return a.Say(out.Bytes())
	}
	return cli.PrintStanding(a, out.Bytes(), "signed all the same: "+strings.Join(signed, ", "))
}

// packSigner returns the key of a file that only its owner can read, or the key of the
// environment. It refuses a file in a pack that it signs.
func packSigner(a *cli.App, file string, packs []string) (*ledger.Signer, error) {
	if file == "" {
		text := a.Env("FIADOR_PACK_KEY")
		if text == "" {
			return nil, cli.Usage("name its file with --key, or put it into FIADOR_PACK_KEY", "which key signs?")
		}
		s, err := ledger.ParseSigner(text)
		if err != nil {
			return nil, cli.Usage("it is the key itself, and not a file; --key names a file", "FIADOR_PACK_KEY is no private key: one begins with PRIVATE+KEY+ and is one line")
		}
		return s, nil
	}
	for _, name := range packs {
		if err := ledgers.Outside(name, file, "pack"); err != nil {
			return nil, err
		}
	}
	s, err := ledgers.ReadKey(file)
	if err != nil {
		return nil, runerr.New(result.CodeUnreadable, err.Error(),
			`name a private key of "fiador pack keygen", in a file that only its owner can read`, runerr.File(screen.Path(file)), runerr.Because(err))
	}
	return s, nil
}

// errInvalid ends the signing of a pack that is not valid.
var errInvalid = errors.New("the pack is not valid")

// signPack signs one pack if it is valid, and writes the result to out. The pack is
// read, verified and signed under one lock (specs/pack.md, Replacing meta.json). A
// signature of the same key is replaced, and others stay.
func signPack(a *cli.App, out *bytes.Buffer, name string, key *ledger.Signer, o verify.Options) (int, error) {
	v := packs.Verified{Name: canon.Clean(name)}
	err := pack.SetMeta(name, func(p *pack.Pack) ([]byte, error) {
		if v.Verdict = verify.Pack(p, o); !v.Verdict.OK() {
			return nil, errInvalid
		}
		return sign.Pack(p, key)
	})
	t := cli.Terminal{W: out, Color: a.Page.Color}
	switch {
	case errors.Is(err, errInvalid):
		v.Human(t)
		return v.Status(), nil
	case err != nil:
		return 0, notSigned(name, err)
	}
	t.Line(t.Paint(screen.Green, "SIGNED"), screen.Plain(v.Name), key.Verifier().ID())
	return cli.ExitAccepted, nil
}

// notSigned returns the RunError for a pack that could not be signed, with what to do
// about it. Files in it have their names in the pack.
func notSigned(name string, err error) error {
	hint := "name a folder that fiador run --pack wrote"
	switch {
	case errors.Is(err, pack.ErrBusy):
		hint = "try again when the other process has ended"
	case errors.Is(err, sign.ErrOtherStatement):
		hint = `take the member "dsse" out of meta.json, and let every key sign again`
	case errors.Is(err, syscall.EXDEV):
		hint = "move the pack: it is a mount point, and what replaces meta.json is made beside it"
	case errors.Is(err, pack.ErrBeside):
		hint = "what replaces meta.json is made beside the pack: make the folder above it writable, or move the pack"
	}
	why := ""
	switch info, statErr := os.Stat(name); {
	case statErr != nil && name == "-":
		why, hint = "standard input is no folder; sign the folder, and archive it then", "name the folder that fiador run --pack wrote"
	case statErr == nil && !info.IsDir():
		why, hint = "it is no folder; sign the folder, and archive it then", "fiador pack archive makes an archive of the signed folder"
	}
	dir := name
	if abs, absErr := filepath.Abs(name); absErr == nil {
		dir = abs
	}
	if real, realErr := filepath.EvalSymlinks(dir); realErr == nil {
		dir = real
	}
	if why == "" {
		why = ledgers.WithoutPaths(err, dir)
	}
	return runerr.New(result.CodeEvidence, "pack "+cli.Quoted(name)+" could not be signed: "+why,
		hint, runerr.File(screen.Path(name)), runerr.Because(err))
}
