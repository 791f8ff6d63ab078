package gitbranch

import (
	"context"
	"strings"

	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// repo is the git of a work tree.
type repo struct{ git.Git }

func newRepo(dir string, environ []string) (repo, error) {
	g, err := git.New(dir, environ)
	return repo{g}, err
}

// refusal returns the RunError for an error of git before any change.
func refusal(err error) error {
	e := runerr.New(result.CodeEvidence, "nothing was changed: "+canon.Clean(err.Error()), "", runerr.Because(err))
	if git.Foreign(err) {
		e.Message = "nothing was changed: git does not read a repository of another owner: " + canon.Clean(err.Error())
	}
	if git.Lock(err) != "" {
		e.Message += ": a git that was killed may have left that file"
	}
	e.Hint = git.Remedy(err, "see what git says in that folder")
	return e
}

// Dirty reports whether tracked files differ from the last commit. Filters are off,
// because they are programs. A file that needs a filter counts as changed unless its times
// show that it is unchanged.
func (b *Branch) Dirty(ctx context.Context) (bool, error) {
	g := b.git
	names, err := g.Run(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	if err != nil && !git.No(err) {
		return false, err
	}
	for name := range strings.SplitSeq(names, "\x00") {
		if name != "" {
			g.Empty = append(g.Empty, name)
		}
	}
	changed, err := g.Run(ctx, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames")
	return changed != "", err
}
