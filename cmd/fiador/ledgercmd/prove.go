package ledgercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/ledger"
)

func proveCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	var output string
	var run bool
	cmd := &cobra.Command{
		Use:   "prove N|RUN",
		Short: "prove to a stranger that a run is in the ledger",
		Long: `Prove prints a proof (C2SP tlog-proof) that an entry is in the tree of the newest
checkpoint. The proof has the entry itself, the hashes that lead to the root, and the
checkpoint. Whoever has the verifier key can check the proof, without the ledger. RUN is
the id of a run, and stands for the run's last entry.

A number N is the index of an entry; with --run it is the id of a run. If it could be
both, write "+N" for the entry.

Exit codes:
  0  done
  1  the ledger does not keep what it has promised: entries were changed, or are gone
  2  not done: there is no such entry, or the ledger cannot be read`,
		Example: `  fiador ledger prove run_20260102T030405Z_0123456789abcdef --ledger ./ledger >run.tlog-proof
  fiador ledger check-proof run.tlog-proof --key gate.pub`,
		Args: cli.ExactArgs("N|RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ledgers.Reading(cmd.Context(), a, f, func(r ledger.Source) error {
				return proveRun(cmd.Context(), a, r, f.Name(a), args[0], run, output)
			})
		},
	}
	f.Register(cmd)
	registerRun(cmd, &run)
	cmd.Flags().StringVarP(&output, "output", "o", "", "new file to write the proof to (default: standard output)")
	return cmd
}

// proveRun writes the proof of an entry, or of the last entry of a run
// (specs/ledger.md, Proof). An entry that the tree does not have is reported as
// tampering.
func proveRun(ctx context.Context, a *cli.App, r ledger.Source, source, what string, run bool, output string) error {
	if err := newOutput(output, source); err != nil {
		return err
	}
	list, err := find(ctx, a, r, what, run)
	if err != nil {
		return err
	}
	index := list[len(list)-1].index
	p, err := r.Prove(ctx, index)
	if err != nil {
		if !errors.Is(err, ledger.ErrTampered) && !errors.As(err, new(*fs.PathError)) && ctx.Err() == nil {
			err = fmt.Errorf("%w: entry %d cannot be proved: %w", ledger.ErrTampered, index, err)
		}
		return err
	}
	if output != "" {
		return cli.WriteNew(output, p.Marshal(), nil)
	}
	return a.Print(p.Marshal())
}

// newOutput refuses an output file that lies in the ledger, or exists.
func newOutput(name, ledger string) error {
	if err := cli.ApartFromLedger(name, ledger); err != nil {
		return runerr.Of(err)
	}
	return cli.Absent(name)
}

func checkProofCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	cmd := &cobra.Command{
		Use:   "check-proof FILE",
		Short: "check a proof or a receipt, without the ledger",
		Long: `Check-proof checks a C2SP tlog-proof that carries its entry, as "ledger prove" and
"run --receipt" write it. The signature of the checkpoint must be right, and the hashes
must lead from the entry to the checkpoint's root. Check-proof prints the proved record.

With --key only that key counts, whatever FIADOR_LEDGER says. Without --key the keys of
the ledger count. With --key and --ledger, the key of --key counts, and so do the later
keys that the ledger's records confirm.

Exit codes:
  0  the proof holds
  1  it does not
  2  no answer: no proof at all, or a key that is not known`,
		Example: `  fiador ledger check-proof run.tlog-proof --key gate.pub`,
		Args:    cli.ExactArgs("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return checkProof(cmd.Context(), a, f, args[0]) },
	}
	f.Register(cmd)
	return cmd
}

// keys returns the key of --key alone, or the keys of the ledger. With --key only --ledger
// names the ledger, and FIADOR_LEDGER is ignored: the proof may come from another ledger.
func keys(ctx context.Context, a *cli.App, f ledgers.ReadFlags) (ledger.Keys, error) {
	trusted, err := f.Trusted()
	if err != nil {
		return nil, err
	}
	if f.Dir == "" && trusted != nil {
		return ledger.Keys{{Size: 0, Key: *trusted}}, nil
	}
	if f.Dir == "" && a.Env("FIADOR_LEDGER") == "" {
		return nil, cli.Usage("name its verifier key with --key, or the ledger with --ledger", "whose proof?")
	}
	if trusted == nil {
		r, err := ledgers.Read(ctx, a, f)
		if err != nil {
			return nil, err
		}
		return r.Keys(), r.Close()
	}
	// The later keys in origin.json count as far as signed records confirm them.
	audited, err := ledgers.Audit(ctx, a, f, ledger.AuditOptions{Quick: true})
	if err != nil {
		return nil, ledgers.Error(f.Name(a), err)
	}
	return audited.Keys.Trusting(*trusted)
}

// checkProof prints VALID with the proved entry, or INVALID with exit status 1. A file
// that is no proof and a key that is not known are exit status 2.
func checkProof(ctx context.Context, a *cli.App, f ledgers.ReadFlags, name string) error {
	keys, err := keys(ctx, a, f)
	if err != nil {
		return err
	}
	b, err := ledgers.ReadSmall(name, ledger.MaxProofBytes)
	if err != nil {
		return err
	}
	p, err := ledger.ParseProof(b)
	if err != nil {
		return runerr.Unreadable(screen.Path(name), err.Error(), `name a file of "fiador ledger prove" or "fiador run --receipt"`)
	}
	_, c, err := keys.CheckProof(p)
	switch {
	case errors.Is(err, ledger.ErrUnknownKey):
		return proofError(name, err)
	case err != nil:
		return refuted(a, "INVALID", "%s", err)
	}
	return a.Print(fmt.Appendf(nil, "%s  entry %d of %d in %s\n%s\n", a.Page.Paint(screen.Green, "VALID"), p.Index, c.Size, c.Origin, p.Entry))
}

func consistencyCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	var from, output string
	cmd := &cobra.Command{
		Use:   "consistency",
		Short: "prove that a ledger still has every entry of an older checkpoint",
		Long: `Consistency checks that the tree of the newest checkpoint begins with the tree of an
older checkpoint, pin or receipt. With --output it writes the proof in the form that
a witness takes (C2SP tlog-witness, add-checkpoint).

Exit codes:
  0  consistent
  1  not: entries were changed, or are gone
  2  no answer`,
		Example: `  fiador ledger consistency --from old.checkpoint --ledger ./ledger`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return consistency(cmd.Context(), a, f, from, output) },
	}
	f.Register(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the older checkpoint, pin or receipt (required)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "new file to write the proof to, for a witness")
	return cmd
}

// consistency compares the checkpoint of the file from with the ledger. Entries that
// are gone or changed, and a wrong signature, are INCONSISTENT with exit status 1.
func consistency(ctx context.Context, a *cli.App, f ledgers.ReadFlags, from, output string) error {
	if from == "" {
		return cli.Usage("name a checkpoint, a pin or a receipt", "--from is missing")
	}
	old, err := checkpointFile(from)
	if err != nil {
		return err
	}
	return ledgers.Reading(ctx, a, f, func(r ledger.Source) error {
		if err := newOutput(output, f.Name(a)); err != nil {
			return err
		}
		now := r.Checkpoint()
		if _, err := r.Keys().OpenCheckpoint(old.Note); errors.Is(err, ledger.ErrBadSignature) {
			return refuted(a, "INCONSISTENT", "%s: %s", old.Name, err)
		}
		proof, err := extends(ctx, r, from, old)
		switch {
		case errors.Is(err, ledger.ErrProof) && old.Size > now.Size:
			return refuted(a, "INCONSISTENT", "%s has %s, and the ledger has %d: entries are gone", old.Name, entryCount(old.Size), now.Size)
		case errors.Is(err, ledger.ErrProof):
			return refuted(a, "INCONSISTENT", "the first %s are not those of %s", entryCount(old.Size), old.Name)
		case err != nil:
			return err
		}
		if output != "" {
			if err := cli.WriteNew(output, proof.Witness(now), nil); err != nil {
				return err
			}
		}
		return a.Say(fmt.Appendf(nil, "%s  the first %d of %s are those of %s\n", a.Page.Paint(screen.Green, "CONSISTENT"), old.Size, entryCount(now.Size), screen.Plain(old.Name)))
	})
}

// extends proves that a ledger begins with the entries of an older checkpoint, which one
// of its keys has to have signed. Its error wraps ledger.ErrProof if the ledger does not.
func extends(ctx context.Context, r ledger.Source, name string, old ledger.Promise) (ledger.Consistency, error) {
	if _, err := r.Keys().OpenCheckpoint(old.Note); err != nil {
		return ledger.Consistency{}, proofError(name, err)
	}
	proof := ledger.Consistency{From: old.Size}
	if old.Size <= r.Checkpoint().Size {
		var err error
		if proof, err = r.Consistency(ctx, old.Size); err != nil {
			return proof, err
		}
	}
	return proof, proof.Check(r.Checkpoint(), old.Checkpoint)
}

func pinCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	var output string
	cmd := &cobra.Command{
		Use:   "pin [CHECKPOINT]",
		Short: "keep a checkpoint, so that the ledger cannot become smaller unseen",
		Long: `Pin keeps a checkpoint in the ledger's folder: the newest one, or that of a file, with
the signatures of its witnesses. Nothing is appended to a ledger that is smaller than a
pin, and verify demands the tree of every pin. With --output the checkpoint is written
to a file as well. Keep this file elsewhere: against somebody who can write the ledger's
folder, only a pin outside it proves something. The pin of a server's ledger lies in the
user's state folder.

Exit codes:
  0  done
  1  the ledger does not keep that checkpoint
  2  not done`,
		Example: `  fiador ledger pin --ledger ./ledger --output /mnt/audit/gate.checkpoint
  fiador ledger pin cosigned.checkpoint --ledger ./ledger`,
		Args: cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return ledgers.Reading(cmd.Context(), a, f, func(r ledger.Source) error { return pin(cmd.Context(), a, r, f.Name(a), args, output) })
		},
	}
	f.Register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "new file to write the checkpoint to as well")
	return cmd
}

// pin keeps the checkpoint of args[0], or the newest one without it. The copy of
// --output is written before the pin. A checkpoint that the ledger does not keep is
// exit status 1.
func pin(ctx context.Context, a *cli.App, r ledger.Source, source string, args []string, output string) error {
	c := r.Checkpoint()
	if len(args) > 0 {
		old, err := checkpointFile(args[0])
		if err != nil {
			return err
		}
		switch _, err := extends(ctx, r, args[0], old); {
		case errors.Is(err, ledger.ErrProof):
			return refuted(a, "INCONSISTENT", "the ledger does not have the %s of %s", entryCount(old.Size), old.Name)
		case err != nil:
			return err
		}
		c = old.Checkpoint
	}
	if err := newOutput(output, source); err != nil {
		return err
	}
	if output != "" {
		if err := cli.WriteNew(output, c.Note, nil); err != nil {
			return err
		}
	}
	name, err := r.Pin(c)
	if err != nil {
		return err
	}
	return a.Print(fmt.Appendf(nil, "%s  %s\n", name, c.Root))
}
