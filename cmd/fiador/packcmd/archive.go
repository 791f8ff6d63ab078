package packcmd

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// archiveCommand takes FILE as - for standard output, which cannot be a terminal.
func archiveCommand(a *cli.App) *cobra.Command {
	policy := ""
	cmd := &cobra.Command{
		Use:   "archive PACK FILE",
		Short: "put a run pack into one file",
		Long: `Archive verifies a pack, strictly, and writes it as a gzip-compressed tar archive to
the new file FILE, or to standard output for "-". The bytes depend on the files of the
pack alone: one version of fiador writes the same archive everywhere. Every command
that takes a pack takes an archive too, except pack sign.

If the profile of the pack is not built in, name it with --policy.

Exit codes:
  0  done
  1  the pack breaks a rule, and was not archived
  2  it could not be read, verified or written`,
		Example: `  fiador pack archive ./pack pack.tar.gz
  fiador pack archive ./pack - | sha256sum`,
		Args: cli.ExactArgs("PACK", "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return archivePack(a, args[0], args[1], policy) },
	}
	cli.RefuseEmpty(cmd, "policy")
	policies.ProfileFlag(cmd, &policy, "profile that the pack was made under (default: the built-in one that it names)")
	return cmd
}

// archivePack verifies a pack at level strict and writes it as an archive
// (specs/pack.md, Archive). An invalid pack is printed on standard error and not
// archived: exit status 1. A pack that cannot be decided is exit status 2.
func archivePack(a *cli.App, name, file, policy string) error {
	if file == "" {
		return cli.Usage("name a new file, or - for standard output", "FILE is empty")
	}
	if err := archivable(a, name, file); err != nil {
		return err
	}
	p, given, err := packs.ReadUnder(a, policy, name)
	if err != nil {
		return err
	}
	v := packs.Verified{Name: canon.Clean(name), Verdict: verify.Pack(p, packs.Options(a, given)), Hint: packs.TopHint(p)}
	if a.Status = v.Status(); a.Status != cli.ExitAccepted {
		v.Human(a.Term)
		return nil
	}
	var b bytes.Buffer
	if err := p.WriteArchive(&b); err != nil {
		return runerr.New(result.CodeEvidence, "pack "+cli.Quoted(name)+": "+err.Error(),
			"share the folder as it is", runerr.File(screen.Path(name)), runerr.Because(err))
	}
	if file == "-" {
		return a.Print(b.Bytes())
	}
	return cli.WriteNew(file, b.Bytes(), nil)
}

// archivable refuses a terminal, a file in the pack and a file that exists, before
// anything is read.
func archivable(a *cli.App, name, file string) error {
	if file == "-" {
		if a.OutTTY {
			return cli.Unfit("name a file, or send standard output to one", "an archive is not for a terminal")
		}
		return nil
	}
	in, err := cli.Beneath(name, file)
	if in {
		err = cli.Unfit("name a file elsewhere", "file %q lies in the pack", screen.Path(file))
	}
	return errors.Join(err, cli.Absent(file))
}
