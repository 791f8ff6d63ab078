// Package applycmd has the command that puts the files of an accepted pack into a working
// tree. It owns the diff that a person sees first, and the words about branches.
package applycmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/gitbranch"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// applyFlags are the flags of apply. to is the folder to change. branch names a new
// branch of its git work tree. recover takes no pack. workflows and overwrite allow
// what is refused without them. policy is the profile of the pack, if that is not built
// in.
type applyFlags struct {
	packs.KeyFlags
	to        string
	dryRun    bool
	branch    string
	recover   bool
	workflows bool
	overwrite bool
	policy    string
}

const applyLong = `Apply makes the file changes of an accepted execution in the folder DIR: all of them,
or none. PACK is a folder or a .tar.gz archive. Apply verifies it first, at level strict.
--key also checks who signed it, and --ledger-key that a ledger has the run's record. A
warning says so if a server has only promised the record. The record proves run.json and
the content of outputs. Only --key proves which files are put in place, replaced or
deleted, and which are executable. Apply shows the changes as a diff on standard output
before it makes them.

Apply replaces or deletes a file only if it is as the run saw it. It creates a file only
where nothing exists. --overwrite replaces regular files whatever they hold. No symbolic
link is followed and none is replaced. Control paths, such as .git and .fiador, are
refused; --allow-workflows allows the pipelines of a forge, such as .github/workflows.

With --git-branch the files are put on a new branch. It begins at the commit that is
checked out, and is made even if no file has to change. DIR must then be the top of a git
work tree. Nothing is committed, no hook runs, and neither configuration nor index is
changed.

If a command on a tree is killed, the next one on that tree finishes or undoes its
change. So does fiador apply --recover --to DIR. The tree is then as before, or has every
file.

Exit codes:
  0  applied, or nothing to do
  1  refused because of the pack or the tree; nothing was changed
  2  no answer: a check could not be made, or the tree could not be changed`

// Apply returns the command that puts the files of an accepted pack into a folder.
func Apply(a *cli.App) *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply PACK --to DIR",
		Short: "put the files of an accepted, verified pack into a working tree",
		Long:  applyLong,
		Example: `  fiador run intent.json --mode execute-sandbox --pack ./pack && fiador apply ./pack --to .
  fiador apply pack.tar.gz --to . --dry-run
  fiador apply ./pack --to . --git-branch agent/page --key team.pub
  fiador apply --recover --to .`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.recover && len(args) > 0 {
				return cli.Unfit("leave the pack out, and apply it afterwards", "--recover takes no pack")
			}
			if f.recover {
				return nil
			}
			return cli.ExactArgs("PACK")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			ctx := folders.Waiting(cmd.Context(), a)
			dir, err := folders.Named("to", f.to)
			if err != nil {
				return err
			}
			if f.recover {
				return recoverTree(ctx, a, dir)
			}
			keys, err := f.Open(cmd)
			if err != nil {
				return err
			}
			return apply(ctx, a, args[0], dir, f, keys)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *applyFlags) register(cmd *cobra.Command) {
	f.KeyFlags.Register(cmd)
	flags := cmd.Flags()
	flags.Lookup("ledger-key").Usage += "; the record proves run.json, but not the patch"
	flags.StringVar(&f.to, "to", "", "folder to put the files into")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and show the diff, and change nothing")
	flags.StringVar(&f.branch, "git-branch", "", "new branch to put the files on")
	flags.BoolVar(&f.recover, "recover", false, "only finish or undo the change that an interrupted command began on the folder")
	flags.BoolVar(&f.workflows, "allow-workflows", false, "allow the pipelines of a forge, such as .github/workflows")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace regular files whatever they hold, and delete folders with what they hold")
	policies.ProfileFlag(cmd, &f.policy, "profile that the pack was made under (default: the built-in one that it names)")
}

// check refuses flags that need the folder and lack it, and flags without an effect.
func (f applyFlags) check(cmd *cobra.Command) error {
	if err := cli.NotEmpty(cmd, "to", "git-branch", "policy"); err != nil {
		return err
	}
	if f.to == "" {
		return cli.Usage("add --to DIR", "which folder shall the files be put into?")
	}
	if !f.recover {
		return nil
	}
	for _, name := range []string{"dry-run", "git-branch", "allow-workflows", "overwrite", "policy", "key", "ledger-key"} {
		if cmd.Flags().Changed(name) {
			return cli.Unfit("leave one of them out", "--%s is about a pack, and --recover takes none", name)
		}
	}
	return nil
}

// recoverTree finishes or undoes the change that an interrupted command began on a folder.
// It does nothing else.
func recoverTree(ctx context.Context, a *cli.App, dir string) error {
	state, err := folders.StateOutside(a, dir)
	if err != nil {
		return err
	}
	did, err := cli.Undisturbed(ctx, a, func() (tree.Recovery, error) { return tree.Recover(ctx, state, dir) })
	if err != nil {
		return folders.RecoverError(state, dir, did, err)
	}
	said := folders.Recovery(did)
	if did == tree.RecoveredNothing {
		said = "nothing was unfinished"
	}
	return cli.PrintStanding(a, []byte(screen.Plain(screen.Folder(dir))+": "+said+"\n"), said)
}

// apply applies the patch of a pack to dir: all changes or none (specs/sandbox.md,
// Applying). name is the pack, and dir the absolute path of --to. Refused paths,
// conflicts and a pack that is not valid or not accepted are exit status 1. The diff is
// printed before anything is changed; if it cannot be printed, nothing is.
func apply(ctx context.Context, a *cli.App, name, dir string, f applyFlags, keys packs.Keys) error {
	state, err := cli.Undisturbed(ctx, a, func() (string, error) { return folders.Recovered(ctx, a, dir) })
	if err != nil {
		return err
	}
	keep, err := packWithin(dir, name)
	if err != nil {
		return err
	}
	accepted, err := acceptedPatch(a, name, f.policy, keys)
	if err != nil || accepted == nil {
		return err
	}
	if len(accepted.Operations) == 0 && f.branch == "" {
		return a.Say([]byte(screen.Plain(screen.Path(name)) + ": nothing to apply, the execution changed no file\n"))
	}
	warnUnsigned(a, keys)
	if err := patch.Supported(); err != nil && !f.dryRun {
		return runerr.New(result.CodeSandbox, "files are put into a folder on Linux (amd64, arm64) alone",
			"--dry-run shows the diff on this system too", runerr.Because(err))
	}
	var branch *gitbranch.Branch
	if f.branch != "" {
		if branch, err = branchFor(ctx, a, dir, f.branch); err != nil || branch == nil {
			return err
		}
	}
	plan, err := patch.NewPlan(dir, accepted.Operations, patch.Options{Overwrite: f.overwrite, Workflows: f.workflows, Keep: keep})
	if err != nil {
		return changedMeanwhile(a, treeError(err))
	}
	defer plan.Close()
	if err := folders.RefuseHooks(ctx, a, dir, plan); err != nil {
		return err
	}
	if refusedPatch(a, plan, f) {
		return nil
	}
	if len(plan.Steps) == 0 {
		return nothingToDo(ctx, a, dir, branch, f.dryRun)
	}
	warnDirty(ctx, a, branch)
	if err := showPatch(a, plan); err != nil {
		return changedMeanwhile(a, treeError(err))
	}
	if f.dryRun {
		return a.Print([]byte("dry run: nothing was changed\n"))
	}
	return carryOut(ctx, a, plan, state, branch, f.to)
}

// warnUnsigned warns when only the ledger's key authenticates the pack: the ledger
// does not cover the patch.
func warnUnsigned(a *cli.App, keys packs.Keys) {
	if keys.LedgerKey == nil || len(keys.Keys) > 0 {
		return
	}
	a.Term.Warning("the ledger vouches for run.json and what outputs hold, and not for the patch: which files are put in place, replaced, deleted and executable")
	a.Term.Hint("have the pack signed, and give the key with --key")
}

// nothingToDo ends a command for which no file has to change. It still makes the branch.
func nothingToDo(ctx context.Context, a *cli.App, dir string, branch *gitbranch.Branch, dryRun bool) error {
	said := screen.Plain(screen.Folder(dir)) + ": nothing to do, every file is as the pack has it\n"
	switch {
	case branch == nil:
	case dryRun:
		said += "dry run: nothing was changed\n"
	default:
		on, err := cli.Undisturbed(ctx, a, func() (string, error) {
			if ctx.Err() != nil {
				return "", runerr.Unchanged()
			}
			return "on branch " + screen.Plain(branch.Name) + "\n", branch.Enter()
		})
		if err != nil {
			return changedMeanwhile(a, err)
		}
		said += on
		return cli.PrintStanding(a, []byte(said), stands(branch, "no file had to be changed"))
	}
	return a.Say([]byte(said))
}

// packWithin returns the path of the pack relative to dir, if the pack lies in dir.
func packWithin(dir, name string) ([]string, error) {
	abs, err := filepath.Abs(name)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, nil // the function that opens the pack reports the error
	}
	rel, err := filepath.Rel(dir, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, nil
	}
	if rel == "." {
		return nil, cli.Unfit("name the folder that the files belong into", "--to is the pack itself")
	}
	return []string{filepath.ToSlash(rel)}, nil
}

// acceptedPatch returns the patch of a pack whose run was accepted. The patch has no
// operations where the execution changed no file. When acceptedPatch returns nil
// without an error, it has printed the reason and set the exit status.
func acceptedPatch(a *cli.App, name, policy string, keys packs.Keys) (*pack.Patch, error) {
	p, given, err := packs.ReadUnder(a, policy, name)
	if err != nil {
		return nil, err
	}
	v := packs.Verified{Name: canon.Clean(name), Verdict: verify.Pack(p, packs.Options(a, given)), Vouched: keys.Vouch(p), Hint: packs.TopHint(p)}
	if a.Status = v.Status(); a.Status != cli.ExitAccepted {
		v.Human(a.Term)
		return nil, nil
	}
	if r := v.Vouched.Recorded; r != nil && r.Promised {
		a.Term.Warning(fmt.Sprintf("pack %q has the promise of a ledger's server, and no proof that the ledger has the record", screen.Path(name)))
	}
	accepted, err := patch.Accepted(p)
	var no *patch.NotAcceptedError
	switch {
	case errors.As(err, &no):
		a.Status = cli.ExitRejected
		a.Term.Message(fmt.Sprintf("pack %q: %s", screen.Path(name), no.Why))
		return nil, nil
	case err != nil:
		return nil, runerr.New(result.CodeEvidence, fmt.Sprintf("pack %q: %s", screen.Path(name), err), "", runerr.Because(err))
	case accepted == nil:
		return &pack.Patch{}, nil
	}
	return accepted, nil
}

// refusedPatch reports whether a plan has refused paths or conflicts. It prints each of
// them, and a hint for each flag that would allow some. The exit status is then 1.
func refusedPatch(a *cli.App, plan *patch.Plan, f applyFlags) bool {
	for _, r := range plan.Refused {
		a.Term.Message(fmt.Sprintf("refused: %s: %s", r.Path, r.Why))
	}
	for _, c := range plan.Conflicts {
		a.Term.Message(fmt.Sprintf("conflict: %s: %s", c.Path, c.Why))
	}
	if len(plan.Refused)+len(plan.Conflicts) == 0 {
		return false
	}
	a.Status = cli.ExitRejected
	a.Term.Message("nothing was changed")
	if len(plan.Conflicts) > 0 && !f.overwrite {
		a.Term.Hint("move what is in the way, or let --overwrite replace regular files")
	}
	if !f.workflows && slices.ContainsFunc(plan.Refused, func(r patch.Fault) bool { return r.Workflow() }) {
		a.Term.Hint("--allow-workflows allows the pipelines of a forge, and no other control path")
	}
	return true
}

// carryOut applies a plan that the user has seen, on the branch if there is one. A
// Ctrl-C before that leaves the folder unchanged, and a later one waits until it is
// done. to is the folder as the user gave it.
func carryOut(ctx context.Context, a *cli.App, plan *patch.Plan, state string, branch *gitbranch.Branch, to string) error {
	said, err := cli.Undisturbed(ctx, a, func() (string, error) {
		if ctx.Err() != nil {
			return "", runerr.Unchanged()
		}
		left, err := branch.Apply(ctx, plan, state)
		if left != "" {
			a.Term.Warning(left)
		}
		if err != nil {
			return "", err
		}
		return applied(branch, plan, filepath.ToSlash(filepath.Clean(to))), nil
	})
	if err != nil {
		return changedMeanwhile(a, err)
	}
	return cli.PrintStanding(a, []byte(said), stands(branch, "applied all the same: every file is in place"))
}

// changedMeanwhile prints a change by somebody else as an answer and returns nil. It
// returns every other error as it is.
func changedMeanwhile(a *cli.App, err error) error {
	var conflict *tree.ConflictError
	var repository *gitbranch.ChangedError
	what := ""
	switch {
	case errors.As(err, &repository):
		what = repository.Error()
	case errors.As(err, &conflict) && !errors.As(err, new(*result.RunError)):
		what = conflict.Path + ": it was changed in this moment"
	default:
		return err
	}
	a.Status = cli.ExitRejected
	a.Term.Message("conflict: " + what)
	a.Term.Message("nothing was changed")
	a.Term.Hint("run it again")
	return nil
}

// treeError returns the RunError for a tree that cannot be examined.
func treeError(err error) error {
	var pe *fs.PathError
	if errors.As(err, new(*result.RunError)) || !errors.As(err, &pe) {
		return err
	}
	return runerr.New(result.CodeEvidence, "nothing was changed: "+strconv.Quote(strings.ToValidUTF8(pe.Path, "\ufffd"))+" could not be read: "+runerr.Reason(err),
		"give permission to read what the pack changes", runerr.Because(err))
}
