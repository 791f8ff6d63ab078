package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/harness"
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
	commit string
	head   string // what HEAD names, or empty where it is detached
	there  bool   // the branch is there, at that commit

	made, moved bool
}

// git runs git in a work tree. Nothing that the configuration of the repository names
// is run by it: no hook, no monitor, no filter, no transport.
type git struct {
	dir     string
	environ []string
	filters []string // configuration that turns filters off, as name=value
}

// gitFailure is a git that ended with a status.
type gitFailure struct {
	code int
	text string
}

func (e *gitFailure) Error() string { return "git: " + e.text }

func newGit(dir string, environ []string) git {
	g := git{dir: dir}
	for _, e := range environ {
		if !strings.HasPrefix(e, "GIT_") && !strings.HasPrefix(e, "LC_ALL=") && !strings.HasPrefix(e, "LANGUAGE=") {
			g.environ = append(g.environ, e)
		}
	}
	g.environ = append(g.environ, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1")
	return g
}

func (g git) run(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "--no-pager", "--literal-pathspecs"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = g.dir, append(slices.Clone(g.environ), fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(g.filters)))
	for i, name := range g.filters {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=", i))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return stdout.String(), &gitFailure{ee.ExitCode(), text}
	}
	return stdout.String(), err
}

// no says whether git has answered "no" where that is its status 1.
func no(err error) bool {
	var f *gitFailure
	return errors.As(err, &f) && f.code == 1
}

// gitBranch looks whether files can be put on a branch. Where they cannot it has said
// why, and returns nil.
func (a *app) gitBranch(ctx context.Context, dir, name string) (*gitBranch, error) {
	b := &gitBranch{git: newGit(dir, a.environ), name: name, ref: "refs/heads/" + name}
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

func gitError(err error) error {
	e := &result.RunError{Code: result.CodeEvidence, Message: "nothing was changed: " + err.Error(), Hint: "see what git says in that folder", Cause: err}
	if foreign(err) {
		e.Message = "nothing was changed: git does not read a repository of another owner: " + err.Error()
		e.Hint = "run it as the owner of the folder, or have the folder in safe.directory of your git configuration"
	}
	return e
}

// foreign says whether git refuses a repository because of who owns it.
func foreign(err error) bool {
	var f *gitFailure
	return errors.As(err, &f) && (strings.Contains(f.text, "dubious ownership") || strings.Contains(f.text, "unsafe repository"))
}

// look asks git. why is what a person has to change before.
func (b *gitBranch) look(ctx context.Context) (why string, err error) {
	for _, ask := range []func(context.Context) (string, error){b.lookAtName, b.lookAtTree, b.lookAtHead, b.lookAtRef} {
		if why, err = ask(ctx); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func (b *gitBranch) lookAtName(ctx context.Context) (string, error) {
	said, err := b.git.run(ctx, "check-ref-format", "--branch", b.name)
	var f *gitFailure
	switch {
	case errors.As(err, &f), err == nil && strings.TrimSuffix(said, "\n") != b.name, b.name == "HEAD":
		return "not a name that a branch can have", nil
	}
	return "", err
}

// lookAtTree asks whether the folder is the top of a work tree where nothing is under
// way.
func (b *gitBranch) lookAtTree(ctx context.Context) (string, error) {
	top, err := b.git.run(ctx, "rev-parse", "--show-toplevel")
	var f *gitFailure
	if errors.As(err, &f) && !foreign(err) {
		return "the folder is not in a git work tree (" + f.text + ")", nil
	}
	if err != nil {
		return "", err
	}
	here, err := os.Stat(b.git.dir)
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(strings.TrimSuffix(top, "\n")); err != nil || !os.SameFile(here, there) {
		return "the folder is not the top of its work tree", nil
	}
	return b.underWay(ctx)
}

// underWay names what git has begun in the work tree and not ended: HEAD is then its.
func (b *gitBranch) underWay(ctx context.Context) (string, error) {
	marks := [][2]string{
		{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"}, {"MERGE_HEAD", "a merge"},
		{"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"}, {"BISECT_LOG", "a bisection"},
	}
	ask := []string{"rev-parse"}
	for _, m := range marks {
		ask = append(ask, "--git-path", m[0])
	}
	said, err := b.git.run(ctx, ask...)
	if err != nil {
		return "", err
	}
	paths := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	for i, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.git.dir, path)
		}
		if _, err := os.Lstat(path); len(paths) != len(marks) || !errors.Is(err, fs.ErrNotExist) {
			return marks[min(i, len(marks)-1)][1] + " is under way", nil
		}
	}
	return "", nil
}

func (b *gitBranch) lookAtHead(ctx context.Context) (string, error) {
	commit, err := b.git.run(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if no(err) {
		return "there is no commit yet that a branch could begin at", nil
	}
	if err != nil {
		return "", err
	}
	b.commit = strings.TrimSpace(commit)
	head, err := b.git.run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && !no(err) {
		return "", err
	}
	b.head = strings.TrimSpace(head)
	return "", nil
}

// lookAtRef asks whether the branch is there. One that is at the commit of HEAD may be:
// nothing of it is changed, and an interrupted command may have left it.
func (b *gitBranch) lookAtRef(ctx context.Context) (string, error) {
	at, err := b.git.run(ctx, "show-ref", "--verify", "--hash", b.ref)
	var f *gitFailure
	switch {
	case errors.As(err, &f):
	case err != nil:
		return "", err
	case strings.TrimSpace(at) != b.commit:
		return "the branch is there already, at another commit", nil
	default:
		b.there = true
	}
	if b.head == b.ref {
		return b.lookAtOwn(ctx)
	}
	trees, err := b.git.run(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return "", err
	}
	if slices.Contains(strings.Split(trees, "\n"), "branch "+b.ref) {
		return "the branch is checked out in another work tree", nil
	}
	return "", nil
}

// lookAtOwn asks whether the branch that is checked out is one that an earlier command
// has made, and on which nothing was committed since: the same command then goes on.
func (b *gitBranch) lookAtOwn(ctx context.Context) (string, error) {
	// Looking at signatures would run a program.
	said, err := b.git.run(ctx, "log", "--no-show-signature", "--no-patch", "--walk-reflogs", "--max-count=1", "--format=%gs", b.ref, "--")
	var f *gitFailure
	if err != nil && !errors.As(err, &f) {
		return "", err
	}
	if strings.TrimSuffix(said, "\n") != branchMade {
		return "the branch is checked out already, so it is not a new one", nil
	}
	return "", nil
}

// branchMade is what the log of a branch that was made here begins with.
const branchMade = "fiador apply: branch made"

// dirty says whether files that git knows differ from the last commit. Filters are off,
// for they are programs: a file that needs one counts as changed where its times do not
// tell.
func (g git) dirty(ctx context.Context) (bool, error) {
	names, err := g.run(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	if err != nil && !no(err) {
		return false, err
	}
	for name := range strings.SplitSeq(names, "\x00") {
		if name != "" {
			g.filters = append(g.filters, name)
		}
	}
	changed, err := g.run(ctx, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames")
	return changed != "", err
}

// enter makes the branch and puts HEAD on it. After an error everything is as before.
func (b *gitBranch) enter() error {
	if b == nil || b.head == b.ref {
		return nil
	}
	ctx := context.Background() // it is not stopped halfway
	if !b.there {
		none := strings.Repeat("0", len(b.commit))
		if _, err := b.git.run(ctx, "update-ref", "--create-reflog", "-m", branchMade, b.ref, b.commit, none); err != nil {
			return gitError(err)
		}
		b.made = true
	}
	from := strings.TrimPrefix(b.head, "refs/heads/")
	if from == "" {
		from = b.commit
	}
	if _, err := b.git.run(ctx, "symbolic-ref", "-m", "checkout: moving from "+from+" to "+b.name, "HEAD", b.ref); err != nil {
		b.leave()
		return gitError(err)
	}
	b.moved = true
	return nil
}

// leave takes back what enter did, as far as it did it. What git refuses stays: HEAD on
// a branch of the commit that it was on.
func (b *gitBranch) leave() {
	if b == nil {
		return
	}
	ctx := context.Background()
	if b.moved {
		back := []string{"symbolic-ref", "-m", "fiador apply: nothing was applied", "HEAD", b.head}
		if b.head == "" {
			back = []string{"update-ref", "--no-deref", "-m", "fiador apply: nothing was applied", "HEAD", b.commit}
		}
		if _, err := b.git.run(ctx, back...); err != nil {
			return
		}
		b.moved = false
	}
	if b.made {
		if _, err := b.git.run(ctx, "update-ref", "-d", b.ref, b.commit); err == nil {
			b.made = false
		}
	}
}

// applied says that a plan was carried out in the folder that was named to, and on a
// branch what a person may do next.
func (b *gitBranch) applied(plan *harness.PatchPlan, to string) string {
	if b == nil {
		return "applied to " + plain(to) + "\n"
	}
	in := "git"
	if to != "." {
		in += " -C " + shellWord(plain(to))
	}
	return fmt.Sprintf("applied to %s, on branch %s; nothing is committed, which is yours to do:\n  %s add %s\n  %s commit\n",
		plain(to), b.name, in, b.toAdd(plan), in)
}

// maxNamed is how many files a command line for a person names.
const maxNamed = 20

// toAdd are the arguments of a git add of exactly the files of the plan, or, where they
// are many, of what they lie in.
func (b *gitBranch) toAdd(plan *harness.PatchPlan) string {
	many := len(plan.Steps) > maxNamed
	var names []string
	for _, s := range plan.Steps {
		name := s.Path
		if many {
			name, _, _ = strings.Cut(name, "/")
		}
		if word := shellWord(plain(name)); !slices.Contains(names, word) && (s.After != nil || !many && b.git.knows(s.Path)) {
			names = append(names, word)
		}
	}
	how := "-A -f -- " // also where .gitignore has them
	if many {
		how = "-A -- "
	}
	return how + strings.Join(names, " ")
}

// knows says whether the index has a path: git cannot remove what it does not know.
func (g git) knows(name string) bool {
	said, err := g.run(context.Background(), "ls-files", "-z", "--", name)
	return err == nil && said != ""
}

// shellWord is a word as a shell reads it.
func shellWord(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./-_", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
