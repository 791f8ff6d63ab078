// Package gitbranch puts files that were applied on a branch of a git work tree, and undoes
// that if they could not be applied. Its git is that of the user, and runs no program that
// the repository names.
package gitbranch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Branch is a branch of a work tree on which files are put. A nil Branch means: no
// branch.
//
// First git makes the ref, at the commit of HEAD. Then HEAD is set to the ref. Then the
// files are applied. The command touches no commit, index, configuration or hook. A
// command that is killed between two of these steps leaves one more branch, at an existing
// commit, and maybe HEAD on that branch. No file differs then, and the same command
// continues from that state when it runs again.
type Branch struct {
	git    repo
	ref    string // refs/heads/NAME
	Name   string
	here   os.FileInfo // the work tree
	commit string
	head   string // the ref that HEAD names, or empty where HEAD is detached
	there  bool   // the branch exists at that commit

	made bool // this command made the branch, and no earlier one
}

// Look examines whether files can be put on a branch of a work tree. Where they
// cannot, it returns the reason. Where git is not installed, the error is
// exec.ErrNotFound.
func Look(ctx context.Context, dir, name string, environ []string) (b *Branch, why string, err error) {
	g, err := newRepo(dir, environ)
	if err != nil {
		return nil, "", refusal(err)
	}
	b = &Branch{git: g, Name: name, ref: "refs/heads/" + name}
	why, err = b.look(ctx)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, "", err
	case ctx.Err() != nil:
		return nil, "", runerr.Unchanged()
	case err != nil:
		return nil, "", refusal(err)
	case why != "":
		return nil, why, nil
	}
	return b, "", nil
}

// Apply enters the branch and applies a plan. If nothing could be applied, it leaves the
// branch again. left names a step of this that could not be undone.
func (b *Branch) Apply(ctx context.Context, plan *patch.Plan, state string) (left string, err error) {
	if err := b.Enter(); err != nil {
		return "", err
	}
	if err = plan.Apply(ctx, state); err != nil && patch.NothingApplied(err) {
		left = b.leave()
	}
	return left, err
}

// MadeMessage is the first message in the reflog of a branch that this program makes.
const MadeMessage = "fiador apply: branch made"

// ChangedError says that a repository changed after the command examined it.
type ChangedError struct{ branch, why string }

func (e *ChangedError) Error() string { return fmt.Sprintf("branch %q: %s", e.branch, e.why) }

// lookAgain examines the repository again, because a person has read a diff meanwhile. A
// *ChangedError names the difference.
func (b *Branch) lookAgain(ctx context.Context) error {
	now := Branch{git: b.git, ref: b.ref, Name: b.Name}
	why, err := now.look(ctx)
	switch {
	case err != nil:
		return refusal(err)
	case why != "":
	case !os.SameFile(now.here, b.here):
		why = "the folder is another one"
	case now.commit != b.commit || now.head != b.head:
		why = "what is checked out has changed"
	case now.there != b.there:
		why = "it was made or removed"
	}
	if why != "" {
		return &ChangedError{canon.Clean(b.Name), why}
	}
	return nil
}

// Enter makes the branch and sets HEAD to it. After an error the repository is as before,
// unless the error says what differs.
func (b *Branch) Enter() error {
	if b == nil {
		return nil
	}
	ctx := context.Background() // a Ctrl-C does not stop it halfway
	if err := b.lookAgain(ctx); err != nil || b.head == b.ref {
		return err
	}
	if !b.there {
		none := strings.Repeat("0", len(b.commit))
		_, err := b.git.Run(ctx, "update-ref", "--create-reflog", "-m", MadeMessage, b.ref, b.commit, none)
		switch {
		case err == nil:
			b.made = true
		case !git.Failed(err): // git was killed, maybe after it made the branch
			b.made, _ = b.own(ctx)
		}
		if err != nil {
			return b.taken(err)
		}
	}
	from := cmp.Or(strings.TrimPrefix(b.head, "refs/heads/"), b.commit)
	if _, err := b.git.Run(ctx, "symbolic-ref", "-m", "checkout: moving from "+from+" to "+b.Name, "HEAD", b.ref); err != nil {
		return b.taken(err)
	}
	return nil
}

// taken undoes Enter as far as possible and returns the error for it.
func (b *Branch) taken(err error) error {
	left := b.leave()
	if left == "" {
		return refusal(err)
	}
	return runerr.New(result.CodeEvidence, "no file was changed, but "+left+": "+err.Error(),
		git.Remedy(err, "run the command again, which goes on from there"), runerr.Because(err))
}

// leave undoes the steps that Enter has taken. It describes a step that it cannot undo:
// the branch stays, at the commit that was checked out, and maybe HEAD names it. leave
// never removes a branch that HEAD names.
func (b *Branch) leave() (left string) {
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
		_, _ = b.git.Run(ctx, back...) // the next line asks for the outcome
		on, err = b.isOn(ctx)
	}
	switch {
	case err != nil:
		return "what HEAD names is not known"
	case on:
		return fmt.Sprintf("HEAD is on the branch %q, at the commit that it was at", canon.Clean(b.Name))
	case b.there:
		return ""
	case b.made:
		_, _ = b.git.Run(ctx, "update-ref", "-d", b.ref, b.commit) // show-ref below asks for the outcome
	}
	if _, err := b.git.Run(ctx, "show-ref", "--verify", "--quiet", b.ref); git.No(err) {
		return ""
	}
	return fmt.Sprintf("the branch %q is there", canon.Clean(b.Name))
}

// isOn reports whether HEAD names the branch.
func (b *Branch) isOn(ctx context.Context) (bool, error) {
	head, err := b.git.Run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if git.No(err) {
		return false, nil
	}
	return strings.TrimSuffix(head, "\n") == b.ref, err
}
