package workcmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// history opens the store and reads its history.
func (p *place) history(ctx context.Context, a *cli.App) (h history.History, list []history.Line, err error) {
	if h.Store, _, err = p.open(ctx, a); err != nil {
		return h, nil, err
	}
	h.Dir = p.store
	if list, err = h.Lines(); err != nil {
		err = errors.Join(err, h.Store.Close())
	}
	return h, list, err
}

// List returns the command that lists receipts.
func List(a *cli.App) *cobra.Command {
	var p place
	var item, format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the receipts of a folder's work items",
		Long: `List prints one line for each receipt in the store of a folder, the newest last. The
line has the item, how it ended, the receipt, and the state that it led to.

Exit codes:
  0  listed, even if there is no receipt
  2  the store cannot be read`,
		Example: `  fiador work list
  fiador work list --item work-item-1 --format jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, list, err := p.history(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer h.Store.Close()
			return cli.PrintText(a, func(t cli.Terminal) {
				for _, l := range list {
					switch {
					case item != "" && l.ItemID != item:
					case format == "jsonl":
						text, _, _ := canon.Artifact(l)
						fmt.Fprintf(t.W, "%s", text)
					default:
						status := string(l.Status)
						if l.Discarded {
							status = "discarded"
						}
						fmt.Fprintf(t.W, "%-9s  %s  %s  %s\n", status, l.ReceiptID, l.After, l.ItemID)
					}
				}
			})
		},
	}
	p.registerTree(cmd)
	cmd.Flags().StringVar(&item, "item", "", "receipts of one item alone")
	cli.FormatFlag(cmd, &format, "human", "jsonl")
	return cmd
}

// find returns the folder of a receipt.
func (p *place) find(ctx context.Context, a *cli.App, name string) (string, error) {
	if dir := history.Find("", nil, name); dir != "" {
		return dir, nil
	}
	h, list, err := p.history(ctx, a)
	if err != nil {
		return "", err
	}
	defer h.Store.Close()
	dir := history.Find(h.Dir, list, name)
	if dir == "" {
		return "", cli.Usage("fiador work list prints the receipts of a folder", "%q is neither the folder of a receipt nor the id of a receipt or an item in the store", canon.Clean(name))
	}
	return dir, nil
}

// Show returns the command that shows a receipt.
func Show(a *cli.App) *cobra.Command {
	var p place
	var format string
	cmd := &cobra.Command{
		Use:   "show ID|RECEIPT",
		Short: "show a receipt: what an item did, and why it ended so",
		Long: `Show prints what a receipt says. RECEIPT is its id or its folder; ID is an item, whose
newest receipt is shown. The receipt is not verified.

Exit codes:
  0  shown
  2  there is no such receipt, or it cannot be read`,
		Example: `  fiador work show work-item-1
  fiador work show work-item-1 --format json | jq .core.reasons`,
		Args: cli.ExactArgs("ID|RECEIPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := p.find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			r, s, err := readReceipt(dir)
			if err != nil {
				return err
			}
			return cli.PrintAs(a, format, r, func(t cli.Terminal) { showReceipt(t, r, s) })
		},
	}
	p.registerTree(cmd)
	cli.FormatFlag(cmd, &format, "human", "json")
	return cmd
}

// readReceipt reads the receipt in a folder, and what ran.
func readReceipt(dir string) (receipt.Receipt, receipt.Subject, error) {
	var s receipt.Subject
	bad := func(why string) error {
		return runerr.New(result.CodeUnreadable, "receipt "+screen.Folder(dir)+": "+why, "fiador work verify says what is wrong with it")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return receipt.Receipt{}, s, bad(runerr.Reason(err))
	}
	defer root.Close()
	r, faults, err := verify.Read(root)
	if err == nil && r == nil {
		return receipt.Receipt{}, s, bad(faults[0].String())
	}
	if err == nil {
		var text []byte
		if text, err = root.ReadFile(receipt.ItemFile); err == nil {
			s, err = receipt.ReadSubject(text)
		}
	}
	if err != nil {
		return receipt.Receipt{}, s, bad(runerr.Reason(err))
	}
	return *r, s, nil
}

// showReceipt writes a receipt for people.
func showReceipt(t cli.Terminal, r receipt.Receipt, s receipt.Subject) {
	c := r.Core
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t.W, "%-9s %s\n", name, screen.Plain(fmt.Sprintf(format, args...)))
	}
	line("item", "%s  %s", s.Item.ID, s.Item.Description)
	line("status", "%s", c.Status)
	line("receipt", "%s", r.ReceiptID)
	line("run", "%s  %s", r.Ephemeral.RunID, r.Ephemeral.StartedAt)
	for _, why := range c.Reasons {
		line("reason", "%s", why)
		if title := reason.Title(reason.ID(why)); title != "" {
			line("", "%s; fiador explain %s", title, reason.ID(why))
		}
	}
	line("before", "%s", c.Before)
	line("after", "%s", c.After)
	for _, a := range c.Artifacts {
		line(string(a.Op), "%s", screen.Path(a.Path))
	}
	limits := s.Item.Constraints
	line("files", "%d of %d", r.Ephemeral.Metrics.FilesTouched, limits.MaxFiles)
	line("tool ops", "%d of %d (%s)", c.Trace.Ops, limits.MaxToolOps, c.Trace.Coverage)
	line("delta", "%d of %d: %d declared, %d tests, %d control, %d other", c.Delta.Total, limits.MaxDeltaSize, c.Delta.Pi, c.Delta.Q, c.Delta.Lambda, c.Delta.O)
	if c.Tests != nil {
		line("test", "exit code %d: %q", c.Tests.ExitCode, c.Tests.Argv)
	}
	line("policy", "%s  %s", c.Policy, c.PolicySHA256)
}

// Verify returns the command that verifies receipts.
func Verify(a *cli.App) *cobra.Command {
	var p place
	var log ledgers.ReadFlags
	cmd := &cobra.Command{
		Use:   "verify [RECEIPT…]",
		Short: "verify receipts of work items",
		Long: `Verify makes everything in the folder of a receipt again and compares it: hashes, the
pack of the run, and the later state. It makes the later state from the earlier one and
the patch. RECEIPT is a folder, the id of a receipt or of an item. Without RECEIPT, all
receipts of the store and their chain are verified.

A receipt that holds is consistent. Its owner could have made it anew; with --ledger, the
recorded decision of the run proves that it is the one that was made.

Exit codes:
  0  everything holds
  1  something does not, or the ledger does not keep what it has promised
  2  no answer`,
		Example: `  fiador work verify
  fiador work verify ./receipt
  fiador work verify work-item-1 --ledger ./ledger --ledger-key "$verifier"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			named := log.Dir != "" || a.Env("FIADOR_LEDGER") != ""
			if log.Key != "" && !named {
				return cli.Unfit("name the ledger with --ledger", "--ledger-key is for a ledger, and there is none")
			}
			if named {
				return ledgers.Reading(ctx, a, log, func(src ledger.Source) error { return p.verify(ctx, a, src, args) })
			}
			return p.verify(ctx, a, nil, args)
		},
	}
	ledgers.Accuses(cmd)
	p.registerTree(cmd)
	cmd.Flags().StringVar(&log.Dir, "ledger", "", "folder of the ledger that has the decisions (default: FIADOR_LEDGER; none: the receipts are not authenticated)")
	cmd.Flags().StringVar(&log.Key, "ledger-key", "", "verifier key of the ledger, or a file with it (default: the key that the ledger begins with)")
	return cmd
}

// verify verifies the named receipts, or else all of the store. log may be nil.
func (p *place) verify(ctx context.Context, a *cli.App, log ledger.Source, names []string) error {
	if len(names) == 0 {
		return p.verifyChain(ctx, a, log)
	}
	for _, name := range names {
		dir, err := p.find(ctx, a, name)
		if err != nil {
			return err
		}
		r, faults, err := verify.Folder(dir)
		if err != nil {
			return runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name the folder of a receipt")
		}
		if err := verified(ctx, a, name, r, faults, log, "; its place in the chain was not looked at"); err != nil {
			return err
		}
	}
	return nil
}

// verifyChain verifies all receipts of the store.
func (p *place) verifyChain(ctx context.Context, a *cli.App, log ledger.Source) error {
	h, _, err := p.history(ctx, a)
	if err != nil {
		return err
	}
	defer h.Store.Close()
	list, err := h.Chain()
	if err != nil {
		return err
	}
	holds := true
	for _, v := range list {
		if err := verified(ctx, a, v.ItemID, v.Receipt, v.Faults, log, ""); err != nil {
			return err
		}
		holds = holds && len(v.Faults) == 0
	}
	if !holds {
		return nil
	}
	return a.Say(fmt.Appendf(nil, "chain: %d receipts, each names the one before it\n", len(list)))
}

// verified prints what does not hold of a receipt, or else what it is, and rest.
func verified(ctx context.Context, a *cli.App, name string, r receipt.Receipt, faults []verify.Fault, log ledger.Source, rest string) error {
	what := "consistent, not authenticated"
	if log != nil && r.ReceiptHash != "" {
		why, err := inLedger(ctx, log, r)
		if err != nil {
			return err
		}
		if what = "consistent, and the decision in the ledger names it"; why != "" {
			faults = append(faults, verify.Fault{Path: "ledger", Msg: why})
		}
	}
	a.RejectIf(len(faults) > 0)
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, f := range faults {
			fmt.Fprintln(t.W, screen.Plain(name+": "+f.String()))
		}
		if len(faults) == 0 {
			fmt.Fprintln(t.W, screen.Plain(name+": "+what+rest))
		}
	})
}
