package applycmd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/gitbranch"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/kernel/canon"
)

// branchFor examines whether files can be put on a branch. Where they cannot, it prints
// the reason, sets exit status 1 and returns nil. Without git it is a usage error.
func branchFor(ctx context.Context, a *cli.App, dir, name string) (*gitbranch.Branch, error) {
	b, why, err := gitbranch.Look(ctx, dir, name, a.Environ)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, cli.Usage("install git, or leave --git-branch out", "--git-branch needs git, which is not there")
	case why != "":
		a.Status = cli.ExitRejected
		a.Term.Message(fmt.Sprintf("--git-branch %q: %s", canon.Clean(name), why))
		a.Term.Message("nothing was changed")
	}
	return b, err
}

// warnDirty warns of uncommitted changes, which stay beside those of the pack.
func warnDirty(ctx context.Context, a *cli.App, b *gitbranch.Branch) {
	if b == nil {
		return
	}
	dirty, err := b.Dirty(ctx)
	switch {
	case err != nil:
		a.Term.Warning("whether the work tree has changes that are not committed is not known: " + err.Error())
	case dirty:
		a.Term.Warning("the work tree has changes that are not committed; they stay, beside those of the pack")
	}
}

// applied returns the message that a plan was applied to the folder that to names. For a
// branch the message says what a person may do next.
func applied(b *gitbranch.Branch, plan *patch.Plan, to string) string {
	if b == nil {
		return "applied to " + screen.Plain(to) + "\n"
	}
	said := fmt.Sprintf("applied to %s, on branch %s; ", screen.Plain(to), screen.Plain(b.Name))
	next, err := b.Next(context.Background(), plan.Steps)
	switch {
	case err != nil:
		return said + "nothing is committed, which is yours to do; no commands are printed: " + screen.Plain(canon.Clean(err.Error())) + "\n"
	case next.Many:
		said += fmt.Sprintf("nothing is committed, which is yours to do; for more than %d files no commands are printed\n", gitbranch.MaxNamed)
	case len(next.Add) == 0 && len(next.Others) > 0:
		said += "nothing is committed\n"
	case len(next.Add) == 0:
		said += "git knows nothing of what has changed, so there is nothing to commit\n"
	default:
		said += yoursToDo(next, to)
	}
	for _, name := range next.Others {
		said += fmt.Sprintf("%s is a repository of its own: what is in it is neither on that branch nor in the commands\n", screen.ShellWord(name))
	}
	return said
}

// yoursToDo returns the commands that commit what was applied.
func yoursToDo(next gitbranch.Next, to string) string {
	said := "nothing is committed, which is yours to do"
	if next.Owner {
		said += ", as the owner of the folder"
	}
	said += ":\n"
	for _, line := range next.Commands(to) {
		said += "  " + line + "\n"
	}
	return said
}

// stands returns what, with the name of the branch if there is one.
func stands(b *gitbranch.Branch, what string) string {
	if b == nil {
		return what
	}
	return what + ", on branch " + b.Name
}
