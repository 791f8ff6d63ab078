package gitbranch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/harness/git"
	"github.com/fiador/fiador/kernel/canon"
)

// look examines the repository. why says what a person has to change first.
func (b *Branch) look(ctx context.Context) (why string, err error) {
	for _, ask := range []func(context.Context) (string, error){
		b.lookAtName, b.lookAtTree, b.underWay, b.lookAtHead, b.lookAround, b.lookElsewhere, b.lookAtRef,
	} {
		if why, err = ask(ctx); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func (b *Branch) lookAtName(ctx context.Context) (string, error) {
	said, err := b.git.Run(ctx, "check-ref-format", "--branch", b.Name)
	if git.Failed(err) || err == nil && strings.TrimSuffix(said, "\n") != b.Name || b.Name == "HEAD" {
		return "not a name that a branch can have", nil
	}
	return "", err
}

// lookAtTree examines whether the folder is the top of a work tree.
func (b *Branch) lookAtTree(ctx context.Context) (string, error) {
	top, err := b.git.Run(ctx, "rev-parse", "--show-toplevel")
	if f, ok := errors.AsType[*git.Failure](err); ok && !git.Foreign(err) {
		return "the folder is not in a git work tree (" + f.Text + ")", nil
	}
	if err != nil {
		return "", err
	}
	if b.here, err = os.Stat(b.git.Dir()); err != nil {
		return "", err
	}
	if there, err := os.Stat(strings.TrimSuffix(top, "\n")); err != nil || !os.SameFile(b.here, there) {
		return "the folder is not the top of its work tree", nil
	}
	return "", nil
}

// underWay names an unfinished operation of git in the work tree. HEAD belongs to that
// operation until it ends.
func (b *Branch) underWay(ctx context.Context) (string, error) {
	marks := [][2]string{
		{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"}, {"MERGE_HEAD", "a merge"},
		{"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"}, {"BISECT_LOG", "a bisection"},
		{"sequencer", "a cherry-pick or revert of several commits"},
	}
	ask := []string{"rev-parse"}
	for _, m := range marks {
		ask = append(ask, "--git-path", m[0])
	}
	said, err := b.git.Run(ctx, ask...)
	if err != nil {
		return "", err
	}
	paths := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	for i, path := range paths {
		if _, err := os.Lstat(b.git.path(path)); len(paths) != len(marks) || !errors.Is(err, fs.ErrNotExist) {
			return marks[min(i, len(marks)-1)][1] + " is under way", nil
		}
	}
	unmerged, err := b.git.Run(ctx, "ls-files", "--unmerged", "-z")
	if err == nil && unmerged != "" {
		return "the index has conflicts that are not resolved", nil
	}
	return "", err
}

// path returns the absolute form of a path that git prints.
func (g repo) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(g.Dir(), name)
}

func (b *Branch) lookAtHead(ctx context.Context) (string, error) {
	commit, err := b.git.Run(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if git.No(err) {
		return "there is no commit yet that a branch could begin at", nil
	}
	if err != nil {
		return "", err
	}
	b.commit = strings.TrimSpace(commit)
	head, err := b.git.Run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && !git.No(err) {
		return "", err
	}
	b.head = strings.TrimSpace(head)
	return "", nil
}

// lookAround examines whether git can make a branch of that name, as a ref of its own.
func (b *Branch) lookAround(ctx context.Context) (string, error) {
	if _, err := b.git.Run(ctx, "symbolic-ref", "--quiet", b.ref); err == nil {
		return "the branch is a symbolic ref, and stands for another", nil
	} else if !git.No(err) {
		return "", err
	}
	ask := []string{"for-each-ref", "--format=%(refname)", b.ref + "/"}
	var above []string
	for ref := path.Dir(b.ref); ref != "refs/heads"; ref = path.Dir(ref) {
		above = append(above, ref)
	}
	said, err := b.git.Run(ctx, append(ask, above...)...)
	if err != nil {
		return "", err
	}
	for ref := range strings.SplitSeq(said, "\n") {
		if strings.HasPrefix(ref, b.ref+"/") || slices.Contains(above, ref) {
			return fmt.Sprintf("the branch %q is there, and git does not have both", canon.Clean(strings.TrimPrefix(ref, "refs/heads/"))), nil
		}
	}
	return "", nil
}

// lookElsewhere examines whether another work tree uses the branch: the branch is checked
// out there, or a rebase or a bisection there returns to it.
func (b *Branch) lookElsewhere(ctx context.Context) (string, error) {
	if b.head != b.ref {
		trees, err := b.git.Run(ctx, "worktree", "list", "--porcelain")
		if err != nil {
			return "", err
		}
		if slices.Contains(strings.Split(trees, "\n"), "branch "+b.ref) {
			return "the branch is checked out in another work tree", nil
		}
	}
	common, err := b.git.Run(ctx, "rev-parse", "--git-common-dir")
	if err != nil {
		return "", err
	}
	dir := b.git.path(strings.TrimSuffix(common, "\n"))
	list, err := os.ReadDir(filepath.Join(dir, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	dirs := []string{dir}
	for _, d := range list {
		dirs = append(dirs, filepath.Join(dir, "worktrees", d.Name()))
	}
	for _, d := range dirs {
		for _, name := range []string{"rebase-merge/head-name", "rebase-merge/update-refs", "rebase-apply/head-name", "BISECT_START"} {
			if has, err := b.named(filepath.Join(d, name)); has || err != nil {
				return "a rebase or a bisection in another work tree comes back to the branch", err
			}
		}
	}
	return "", nil
}

// named reports whether a line of a file of git names the branch.
func (b *Branch) named(file string) (bool, error) {
	if info, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if line == b.ref || line == b.Name {
			return true, err
		}
	}
	return false, err
}

// lookAtRef examines whether the branch exists. A branch at the commit of HEAD is allowed:
// an interrupted command may have left it, and applying does not change it.
func (b *Branch) lookAtRef(ctx context.Context) (string, error) {
	at, err := b.git.Run(ctx, "show-ref", "--verify", "--hash", b.ref)
	switch {
	case git.Failed(err):
	case err != nil:
		return "", err
	case strings.TrimSpace(at) != b.commit:
		return "the branch is there already, at another commit", nil
	default:
		b.there = true
	}
	if b.head != b.ref {
		return "", nil
	}
	own, err := b.own(ctx)
	if err == nil && !own {
		return "the branch is checked out already, so it is not a new one", nil
	}
	return "", err
}

// own reports whether an earlier command made the branch and nothing was committed on it
// since. The same command may then continue.
func (b *Branch) own(ctx context.Context) (bool, error) {
	// The check of signatures would run a program.
	said, err := b.git.Run(ctx, "log", "--no-show-signature", "--encoding=UTF-8", "--no-patch", "--walk-reflogs", "--max-count=1", "--format=%gs", b.ref, "--")
	if git.Failed(err) {
		return false, nil
	}
	return strings.TrimSuffix(said, "\n") == MadeMessage, err
}
