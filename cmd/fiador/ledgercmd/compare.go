package ledgercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// compareCommand takes two folders and no key. The keys that the ledgers themselves
// name are trusted.
func compareCommand(a *cli.App) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "say whether two copies of a ledger agree",
		Long: `Compare compares two copies of a ledger, each up to its checkpoint. A copy is a folder
or a URL. They are the same, one is behind the other, or they are forked. For a fork it
prints the first entry that differs and both checkpoints. Keys of one ledger signed both:
that proves the fork.

Exit codes:
  0  the same, or one is behind
  1  forked, or a copy does not keep what it has promised
  2  no answer: two ledgers, or one that cannot be read`,
		Example: `  fiador ledger compare ./ledger /mnt/audit/ledger
  fiador ledger compare ./ledger https://log.example.com --key gate.pub`,
		Args: cli.ExactArgs("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compareLedgers(cmd.Context(), a, ledgers.ReadFlags{Dir: args[0], Key: key}, ledgers.ReadFlags{Dir: args[1], Key: key, Of: args[0]})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "verifier key of the ledger, or a file with this key; a URL needs it")
	return cmd
}

// compareLedgers prints SAME, BEHIND or FORKED. The exit status is 1 for a fork alone.
// Ledgers with different origins or different first keys are no copies of one ledger,
// and are refused.
func compareLedgers(ctx context.Context, a *cli.App, fa, fb ledgers.ReadFlags) error {
	ra, err := ledgers.Read(ctx, a, fa)
	if err != nil {
		return err
	}
	defer ra.Close()
	rb, err := ledgers.Read(ctx, a, fb)
	if err != nil {
		return err
	}
	defer rb.Close()
	ca, cb := ra.Checkpoint(), rb.Checkpoint()
	if ca.Origin != cb.Origin {
		return cli.Unfit("name two copies of one ledger", "these are two ledgers: %q and %q", ca.Origin, cb.Origin)
	}
	if ra.Keys()[0].Key.String() != rb.Keys()[0].Key.String() {
		return cli.Unfit("name two copies of one ledger", "these are two ledgers of the name %q: they began with different keys", ca.Origin)
	}
	tell, clear := progressOf(a, min(ca.Size, cb.Size))
	c, err := ledger.Compare(ctx, ra, rb, tell)
	clear()
	if err != nil {
		return ledgers.Error(fa.Name(a)+" and "+fb.Name(a), err)
	}
	if !c.Forked {
		text := "SAME"
		switch {
		case ca.Size < cb.Size:
			text = fmt.Sprintf("BEHIND  the first has the first %d of the %s of the second", ca.Size, entryCount(cb.Size))
		case ca.Size > cb.Size:
			text = fmt.Sprintf("BEHIND  the second has the first %d of the %s of the first", cb.Size, entryCount(ca.Size))
		default:
			text += "  " + entryCount(ca.Size)
		}
		return a.Say([]byte(text + "\n"))
	}
	a.Status = cli.ExitRejected
	return a.Print(fmt.Appendf(nil, "%s  from entry %d on\n\n%s\n%s\n\n%s\n%s\n", a.Page.Paint(screen.Red, "FORKED"), c.Common,
		c.A.Line.Entry, c.B.Line.Entry, ca.Note, cb.Note))
}

func receiptsCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	cmd := &cobra.Command{
		Use:   "check-receipts DIR",
		Short: "find out whether a ledger keeps what its receipts promise",
		Long: `Check-receipts compares every receipt in a folder (*.tlog-proof, as "run --receipt"
writes them) with the ledger. The entry of a receipt must stand where the receipt says,
in a tree that the ledger really had. An old copy in the ledger's place does not keep
the receipts, and neither does a ledger that was rewritten with its own key.

Exit codes:
  0  every receipt is kept
  1  at least one is not
  2  no answer: no receipt at all, or a ledger that cannot be read`,
		Example: `  fiador ledger check-receipts receipts/ --ledger ./ledger`,
		Args:    cli.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ledgers.Reading(cmd.Context(), a, f, func(r ledger.Source) error { return checkReceipts(cmd.Context(), a, r, args[0]) })
		},
	}
	f.Register(cmd)
	return cmd
}

// receiptSuffix ends the names of receipts.
const receiptSuffix = ".tlog-proof"

// checkReceipts prints a line for each receipt that the ledger does not keep, and the
// counts. One such receipt makes the exit status 1. A receipt that cannot be parsed is
// one of them.
func checkReceipts(ctx context.Context, a *cli.App, r ledger.Source, dir string) error {
	list, err := receipts(dir)
	if err != nil {
		return err
	}
	if err := ledger.Keeps(ctx, r, list); err != nil {
		return err
	}
	var b strings.Builder
	lost := 0
	for _, k := range list {
		if k.Fault != "" {
			lost++
			fmt.Fprintf(&b, "%s  %s: %s\n", a.Page.Paint(screen.Red, "LOST"), screen.Plain(k.Name), screen.Plain(k.Fault))
		}
	}
	a.RejectIf(lost > 0)
	fmt.Fprintf(&b, "%s: %d kept, %d lost\n", screen.Count(len(list), "receipt"), len(list)-lost, lost)
	return a.Say([]byte(b.String()))
}

// receipts reads the receipts beneath a folder. A file with the name of a receipt that
// cannot be read as one is listed with its fault.
func receipts(dir string) ([]ledger.Kept, error) {
	var list []ledger.Kept
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return runerr.Unreadable(screen.Path(path), runerr.Reason(err), "name a folder that may be read")
		}
		if d.IsDir() || !strings.HasSuffix(path, receiptSuffix) {
			return nil
		}
		k := ledger.Kept{Name: screen.Path(path)}
		if err := receiptFile(path, &k); err != nil {
			k.Fault = err.Error()
		}
		list = append(list, k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, runerr.Unreadable(screen.Path(dir), "it has no receipt", "name a folder with files *"+receiptSuffix)
	}
	return list, nil
}

// receiptFile reads a receipt: a proof, or the ack of a server. It refuses a pipe, whose
// reading might never end.
func receiptFile(path string, k *ledger.Kept) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return errors.New("it is not a file that can be read")
	}
	b, err := ledgers.ReadSmall(path, ledger.MaxProofBytes)
	if err != nil {
		return errors.New("it is not a file that can be read")
	}
	if ledger.IsAck(b) {
		k.Ack = b
		return nil
	}
	k.Proof, err = ledger.ParseProof(b)
	return err
}

func publishCommand(a *cli.App) *cobra.Command {
	var f ledgers.ReadFlags
	cmd := &cobra.Command{
		Use:   "publish DIR",
		Short: "write the ledger as a static log that any auditor can read",
		Long: `Publish writes the ledger, up to its checkpoint, into the folder DIR in the form of C2SP
tlog-tiles. These are hash tiles, entry bundles and the checkpoint, which comes last. A
web server can serve the folder as it is. Publishing again writes what is new, and
refuses a ledger that lacks what is published. Give the log a folder of its own: other
files in it stay as they are.

Exit codes:
  0  done
  1  not done: the ledger does not verify, or lacks what is published
  2  not done: the ledger cannot be read, or a file could not be written`,
		Example: `  fiador ledger publish ./public --ledger ./ledger`,
		Args:    cli.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ledgers.Reading(cmd.Context(), a, f, func(r ledger.Source) error {
				return publishLedger(cmd.Context(), a, r, f.Name(a), filepath.Clean(args[0]))
			})
		},
	}
	f.Register(cmd)
	return cmd
}

// publishable refuses a folder that cannot hold the published log: a ledger, or a
// folder in this ledger. It also refuses a log with entries that this ledger lacks.
func publishable(ctx context.Context, r ledger.Source, source, dir string) error {
	in, err := cli.Beneath(source, dir)
	if err != nil {
		return runerr.Of(err)
	}
	if in {
		return cli.Unfit("name another folder", "%q lies in the ledger itself", screen.Path(dir))
	}
	for _, name := range []string{"ledger.jsonl", "origin.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return cli.Unfit("name another folder", "%q is a ledger", screen.Path(dir))
		}
	}
	name := filepath.Join(dir, "checkpoint")
	if _, err := os.Lstat(name); err != nil {
		return nil
	}
	old, err := checkpointFile(name)
	if err != nil {
		return err
	}
	if _, err = extends(ctx, r, name, old); errors.Is(err, ledger.ErrProof) {
		return fmt.Errorf("%w: it does not have the %s that are published", ledger.ErrForked, entryCount(old.Size))
	}
	return err
}

// publishLedger writes the static log of r into dir (specs/ledger.md, Tiles). source is
// the folder of the ledger. A tampered ledger keeps its own error; other failures name
// dir.
func publishLedger(ctx context.Context, a *cli.App, r ledger.Source, source, dir string) error {
	if err := publishable(ctx, r, source, dir); err != nil {
		return err
	}
	tell, clear := progressOf(a, r.Checkpoint().Size)
	err := disk.Publish(ctx, r, dir, tell)
	clear()
	switch {
	case errors.Is(err, ledger.ErrTampered), ctx.Err() != nil:
		return err
	case err != nil:
		return cli.NotWritten(dir, err)
	}
	return a.Say(fmt.Appendf(nil, "%s  %s\n", entryCount(r.Checkpoint().Size), r.Checkpoint().Root))
}
