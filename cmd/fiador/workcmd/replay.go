package workcmd

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	place
	policies.GateFlags
	to    string
	reads []string
}

// Replay returns the command that runs the item of a receipt again.
func Replay(a *cli.App) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay RECEIPT",
		Short: "run the item of a receipt again, and compare what it changes",
		Long: `Replay runs the item of a successful receipt again in a new folder, with its agent and
its test. It begins with the state on which the item ran, and compares the change with
the recorded one. The content of that state comes from the store, or from the folder
--tree. Files that were scratch are not there. Your folder is not touched.

Exit codes:
  0  MATCH, and the hash of the state that the change led to
  1  the item did not succeed, or left another file: the first path is printed
  2  no answer: another policy, or the state cannot be had`,
		Example: `  fiador work replay work-item-1
  fiador work replay ./receipt --tree ./clone --policy ./profile --to ./again`,
		Args: cli.ExactArgs("RECEIPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(folders.Waiting(cmd.Context(), a), a, args[0], cmd.Flags().Changed("policy"))
		},
	}
	f.GateFlags.Register(cmd)
	f.place.register(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "new folder that keeps what the replay makes (default: it is removed)")
	cmd.Flags().StringArrayVar(&f.reads, "read", nil, "further file or folder that commands may read; may be repeated")
	return cmd
}

func (f *replayFlags) run(ctx context.Context, a *cli.App, name string, chosen bool) error {
	f.dir = f.Tree
	dir, err := f.find(ctx, a, name)
	if err != nil {
		return err
	}
	r, faults, err := verify.Folder(dir)
	switch {
	case err != nil:
		return runerr.Unreadable(screen.Folder(dir), runerr.Reason(err), "name the folder of a receipt")
	case len(faults) > 0:
		return runerr.New(result.CodeEvidence, "the receipt does not hold: "+faults[0].String(), "fiador work verify prints everything")
	case r.Core.Status != receipt.Success:
		return runerr.New(result.CodeEvidence, "the item has ended in "+string(r.Core.Status)+", so there is no change to make again", "fiador work show says why")
	}
	_, s, err := readReceipt(dir)
	if err != nil {
		return err
	}
	if !chosen {
		f.Policy = r.Core.Policy
	}
	w, err := f.workflow(ctx, a, r)
	if err != nil {
		return err
	}
	from, _, err := f.place.open(ctx, a)
	if err != nil {
		return err
	}
	defer from.Close()
	to, remove, err := toFolder(f.to)
	defer remove()
	if err != nil {
		return err
	}
	return f.replay(ctx, a, w, r, s, from, to)
}

// workflow opens the policy, which has to be the one of the receipt.
func (f *replayFlags) workflow(ctx context.Context, a *cli.App, r receipt.Receipt) (*workflow.Workflow, error) {
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return nil, err
	}
	w := &workflow.Workflow{Deps: harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}, Env: a.Env, Jobs: 1}
	if w.Gate, err = policies.OpenGateAhead(ctx, a, sources)(); err != nil {
		return nil, err
	}
	_, sum, err := canon.Artifact(w.Gate.Provenance)
	if err != nil {
		return nil, err
	}
	if sum != r.Core.PolicySHA256 {
		return nil, runerr.New(result.CodeProfile, "the policy is not the one under which the item ran: profile "+canon.Quote(r.Core.Policy)+", "+string(r.Core.PolicySHA256),
			"name that profile with --policy, and the layers of the organisation with --org-policy")
	}
	w.Read, err = sandboxes.ReadPaths("--read", f.reads)
	return w, err
}

// replay runs the item in the new folder.
func (f *replayFlags) replay(ctx context.Context, a *cli.App, w *workflow.Workflow, r receipt.Receipt, s receipt.Subject, from *workspace.Store, to string) error {
	temp, err := os.MkdirTemp("", "fiador-replay-store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	fresh := place{dir: to, store: temp}
	release, err := fresh.lock(ctx, a, w, false)
	if err != nil {
		return err
	}
	defer release()
	host := sandboxes.Open(a)
	defer sandboxes.Close(ctx, a, host)
	w.Deps.Runner = host
	got, err := w.Replay(ctx, r, s, from, f.dir)
	if err != nil {
		return sandboxes.Named(ctx, a, err)
	}
	a.RejectIf(!got.Match())
	switch {
	case got.Match():
		return a.Say([]byte("MATCH " + r.Core.After + "\n"))
	case got.Status != receipt.Success:
		return a.Say([]byte("DIFFERS: the item ended in " + string(got.Status) + ": " + screen.Plain(got.Why) + "\n"))
	}
	return a.Say([]byte("DIFFERS at " + screen.Path(got.Difference) + "\n"))
}

// toFolder makes the folder for a replay; remove is called when it is not needed.
func toFolder(to string) (dir string, remove func(), err error) {
	remove = func() {}
	if to == "" {
		if dir, err = os.MkdirTemp("", "fiador-replay-"); err == nil {
			top := dir
			remove = func() { _ = os.RemoveAll(top) }
			dir = filepath.Join(dir, "tree")
			err = os.Mkdir(dir, 0o755)
		}
	} else {
		dir, err = filepath.Abs(to)
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	if err != nil {
		return "", remove, cli.Usage("name a new folder", "--to %q: %s", canon.Clean(to), runerr.Reason(err))
	}
	return dir, remove, nil
}
