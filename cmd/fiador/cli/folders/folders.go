// Package folders resolves the folders that a command changes. It owns where the journals of
// changes are kept, and ends what a killed command began on a folder.
package folders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/gitbranch"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Recovered finishes or undoes the change that a killed command began on a folder
// (specs/sandbox.md, Applying). It returns the folder of journals, which it makes. A
// warning says what it did. dir is an absolute path without links.
func Recovered(ctx context.Context, a *cli.App, dir string) (state string, err error) {
	if state, err = StateOutside(a, dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", cli.Usage(stateElsewhere, "the folder for journals cannot be made: %s", runerr.Reason(err))
	}
	did, err := tree.Recover(ctx, state, dir)
	if err != nil {
		return "", RecoverError(state, dir, did, err)
	}
	if did != tree.RecoveredNothing {
		a.Term.Warning(fmt.Sprintf("folder %q: %s", screen.Folder(dir), Recovery(did)))
	}
	return state, nil
}

// Waiting returns a context for work on a folder. While another command has the folder, a
// message says that this command waits.
func Waiting(ctx context.Context, a *cli.App) context.Context {
	return tree.WithWaiting(ctx, func() {
		a.Term.Message("another command is changing the folder: waiting until it has ended")
	})
}

// Finished refuses a folder to read that a killed command left half changed. Where no
// journal can be kept, no command can have left one, and finished returns nil.
func Finished(ctx context.Context, a *cli.App, dir string) error {
	state, err := StateOutside(a, dir)
	if err != nil {
		return nil
	}
	half, err := tree.Unfinished(ctx, state, dir)
	if err != nil {
		return RecoverError(state, dir, tree.RecoveredNothing, err)
	}
	if half {
		return runerr.New(result.CodeEvidence, fmt.Sprintf("folder %q: an interrupted command has begun to apply something to it", screen.Folder(dir)),
			"run fiador apply --recover --to DIR with that folder, and then this again")
	}
	return nil
}

// Named returns the absolute path, without links, of a folder that a flag names. It
// refuses everything that is no folder.
func Named(flag, name string) (string, error) {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	abs := ""
	if err == nil {
		abs, err = cli.RealPath(name)
	}
	if err != nil {
		return "", cli.Usage("name a folder that is there", "--%s %q: %s", flag, canon.Clean(name), runerr.Reason(err))
	}
	return abs, nil
}

// Recovery describes how the change of a killed command was finished or undone.
func Recovery(did tree.Recovery) string {
	if did == tree.RecoveredBack {
		return "what an interrupted command had begun to apply is undone"
	}
	return "what an interrupted command had begun to apply is complete now"
}

// StateOutside returns the folder of journals. It refuses a folder of journals that
// lies in dir: whoever can change dir could change the journal.
func StateOutside(a *cli.App, dir string) (string, error) {
	state, err := cli.StateFolder(a)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(dir, state); err == nil && filepath.IsLocal(rel) {
		return "", cli.Unfit(stateElsewhere, "the journals of folder %q would lie in it", screen.Folder(dir))
	}
	return state, nil
}

// stateElsewhere is the hint for a folder of journals that cannot be used.
const stateElsewhere = "set XDG_STATE_HOME to a folder of yours elsewhere"

// RecoverError returns the RunError for an error of tree.Recover.
func RecoverError(state, dir string, did tree.Recovery, err error) error {
	e := runerr.New(result.CodeEvidence, "", "give the folder room and permission and run the command again", runerr.Because(err))
	of := fmt.Sprintf("folder %q: ", screen.Folder(dir))
	switch {
	case errors.Is(err, tree.ErrBusy):
		e.Message, e.Hint = of+err.Error()+": nothing was changed", "run it again"
	case errors.Is(err, tree.ErrNotOwn):
		e.Message = fmt.Sprintf("%sits journal in the state folder %q cannot be used: %s", of, screen.Path(state), tree.ErrNotOwn)
		e.Hint = "set XDG_STATE_HOME to a folder of your own"
	case patch.JournalFault(state, err) != nil:
		e.Message = fmt.Sprintf("%sits journal in the state folder %q cannot be used: %s", of, screen.Path(state), err)
		e.Hint = "give the state folder room and permission and run the command again"
	case did != tree.RecoveredNothing && patch.NothingApplied(err):
		e.Message = of + "what an interrupted command had begun to apply could not be completed and was undone: " + err.Error()
	default:
		e.Message = of + "what an interrupted command had begun to apply could not be ended: " + err.Error()
	}
	return e
}

// RefuseHooks refuses the steps of a plan that change hooks of the work tree around the
// folder.
func RefuseHooks(ctx context.Context, a *cli.App, dir string, plan *patch.Plan) error {
	places, err := gitbranch.Hooks(ctx, dir, a.Environ)
	for _, p := range places {
		plan.RefuseBeneath(p.Name, fmt.Sprintf("git takes hooks from %q", screen.Path(p.Path)))
	}
	return err
}
