package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
)

// gitBranch is a branch of a work tree that files are put on. A nil one is none.
//
// Its ref is made first, at the commit of HEAD; then HEAD is made to name it; then files
// are applied. No commit, index, configuration or hook is touched. Whoever is killed
// between two of these leaves a branch more, of a commit that was there, and maybe HEAD
// on it: no file differs from before, and the same command again goes on from there.
type gitBranch struct {
	git    git
	ref    string // refs/heads/NAME
	name   string
	here   os.FileInfo // the work tree
	commit string
	head   string // what HEAD names, or empty where it is detached
	there  bool   // the branch is there, at that commit

	made bool // here, and not by an earlier command
}

// gitBranch looks whether files can be put on a branch. Where they cannot it has said
// why, and returns nil.
func (a *app) gitBranch(ctx context.Context, dir, name string) (*gitBranch, error) {
	g, err := newGit(dir, a.environ)
	if err != nil {
		return nil, gitError(err)
	}
	b := &gitBranch{git: g, name: name, ref: "refs/heads/" + name}
	why, err := b.look(ctx)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, usage("install git, or leave --git-branch out", "--git-branch needs git, which is not there")
	case ctx.Err() != nil:
		return nil, interrupted()
	case err != nil:
		return nil, gitError(err)
	case why != "":
		a.status = exitRejected
		a.term.message(fmt.Sprintf("--git-branch %q: %s", clean(name), why))
		a.term.message("nothing was changed")
		return nil, nil
	}
	return b, nil
}

// warnDirty tells of changes that come to those of the pack.
func (a *app) warnDirty(ctx context.Context, b *gitBranch) {
	if b == nil {
		return
	}
	dirty, err := b.git.dirty(ctx)
	switch {
	case err != nil:
		a.term.warning("whether the work tree has changes that are not committed is not known: " + err.Error())
	case dirty:
		a.term.warning("the work tree has changes that are not committed; they stay, beside those of the pack")
	}
}

// branchMade is what the log of a branch that was made here begins with.
const branchMade = "fiador apply: branch made"

// repositoryChangedError says that a repository is not what it was when it was looked at.
type repositoryChangedError struct{ branch, why string }

func (e *repositoryChangedError) Error() string { return fmt.Sprintf("branch %q: %s", e.branch, e.why) }

// lookAgain asks git again, for a person has read a diff since. A
// *repositoryChangedError says what is not as it was.
func (b *gitBranch) lookAgain(ctx context.Context) error {
	now := gitBranch{git: b.git, ref: b.ref, name: b.name}
	why, err := now.look(ctx)
	switch {
	case err != nil:
		return gitError(err)
	case why != "":
	case !os.SameFile(now.here, b.here):
		why = "the folder is another one"
	case now.commit != b.commit || now.head != b.head:
		why = "what is checked out has changed"
	case now.there != b.there:
		why = "it was made or removed"
	}
	if why != "" {
		return &repositoryChangedError{clean(b.name), why}
	}
	return nil
}

// enter makes the branch and puts HEAD on it. After an error everything is as before,
// unless the error says what is not.
func (b *gitBranch) enter() error {
	if b == nil {
		return nil
	}
	ctx := context.Background() // it is not stopped halfway
	if err := b.lookAgain(ctx); err != nil || b.head == b.ref {
		return err
	}
	if !b.there {
		none := strings.Repeat("0", len(b.commit))
		_, err := b.git.run(ctx, "update-ref", "--create-reflog", "-m", branchMade, b.ref, b.commit, none)
		var f *gitFailure
		switch {
		case err == nil:
			b.made = true
		case !errors.As(err, &f): // it was killed, maybe after it had done it
			b.made, _ = b.own(ctx)
		}
		if err != nil {
			return b.taken(err)
		}
	}
	from := strings.TrimPrefix(b.head, "refs/heads/")
	if from == "" {
		from = b.commit
	}
	if _, err := b.git.run(ctx, "symbolic-ref", "-m", "checkout: moving from "+from+" to "+b.name, "HEAD", b.ref); err != nil {
		return b.taken(err)
	}
	return nil
}

// taken is the error of an enter that was taken back as far as it can be.
func (b *gitBranch) taken(err error) error {
	left := b.leave()
	if left == "" {
		return gitError(err)
	}
	return runerr.New(result.CodeEvidence, "no file was changed, but "+left+": "+err.Error(),
		gitHint(err, "run the command again, which goes on from there"), runerr.Because(err))
}

// leave takes back what enter did, as far as it did it, and says what it could not: then
// the branch stays, at the commit that was checked out, and maybe HEAD on it. A branch
// that HEAD names is never removed.
func (b *gitBranch) leave() (left string) {
	if b == nil || b.head == b.ref {
		return ""
	}
	ctx := context.Background()
	on, err := b.isOn(ctx)
	if err == nil && on {
		back := []string{"symbolic-ref", "-m", "fiador apply: nothing was applied", "HEAD", b.head}
		if b.head == "" {
			back = []string{"update-ref", "--no-deref", "-m", "fiador apply: nothing was applied", "HEAD", b.commit}
		}
		_, _ = b.git.run(ctx, back...) // what came of it is asked for
		on, err = b.isOn(ctx)
	}
	switch {
	case err != nil:
		return "what HEAD names is not known"
	case on:
		return fmt.Sprintf("HEAD is on the branch %q, at the commit that it was at", clean(b.name))
	case b.there:
		return ""
	case b.made:
		_, _ = b.git.run(ctx, "update-ref", "-d", b.ref, b.commit) // as above
	}
	if _, err := b.git.run(ctx, "show-ref", "--verify", "--quiet", b.ref); no(err) {
		return ""
	}
	return fmt.Sprintf("the branch %q is there", clean(b.name))
}

// isOn says whether HEAD names the branch.
func (b *gitBranch) isOn(ctx context.Context) (bool, error) {
	head, err := b.git.run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if no(err) {
		return false, nil
	}
	return strings.TrimSuffix(head, "\n") == b.ref, err
}
