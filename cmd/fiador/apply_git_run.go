package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
)

// git runs git in a work tree. Nothing that the configuration of the repository names
// is run by it: no hook, no monitor, no filter, no transport. A Ctrl-C on the terminal is
// not for it. Where we are root and the folder is another's, git runs as its owner: what
// it makes is then the owner's, and root's git reads no repository of others.
type git struct {
	dir     string
	environ []string
	attr    *syscall.SysProcAttr
	owner   bool     // it runs as the owner of the folder, who is another
	filters []string // configuration that turns filters off, as name=value
}

// gitFailure is a git that ended with a status.
type gitFailure struct {
	code int
	text string
}

func (e *gitFailure) Error() string { return "git: " + e.text }

// gitOwnerError is a git that could not be started as the owner of the folder.
type gitOwnerError struct{ err error }

func (e *gitOwnerError) Error() string {
	return "git cannot be run as the owner of the folder: " + reason(e.err)
}

func (e *gitOwnerError) Unwrap() error { return e.err }

func newGit(dir string, environ []string) (git, error) {
	g := git{dir: dir}
	var err error
	if g.attr, g.owner, err = gitProcess(dir); err != nil {
		return git{}, err
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "GIT_"), name == "LC_ALL", name == "LANGUAGE":
		case name == "SUDO_UID": // with it root's git reads what is that user's
		case g.owner && (name == "HOME" || name == "XDG_CONFIG_HOME"): // configuration of ours
		default:
			g.environ = append(g.environ, e)
		}
	}
	g.environ = append(g.environ, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1")
	return g, nil
}

func (g git) run(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "--no-pager", "--literal-pathspecs"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = g.dir, append(slices.Clone(g.environ), fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(g.filters))), g.attr
	for i, name := range g.filters {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=", i))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee) && !ee.Exited():
		return stdout.String(), fmt.Errorf("git was killed: %s", ee.ProcessState)
	case errors.As(err, &ee):
		text, rest, more := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		for more && strings.HasPrefix(text, "warning: ") {
			text, rest, more = strings.Cut(rest, "\n")
		}
		return stdout.String(), &gitFailure{ee.ExitCode(), clean(text)}
	case err != nil && g.owner && !errors.Is(err, exec.ErrNotFound):
		err = &gitOwnerError{err}
	}
	return stdout.String(), err
}

// no says whether git has answered "no" where that is its status 1.
func no(err error) bool {
	var f *gitFailure
	return errors.As(err, &f) && f.code == 1
}

// gitError is the RunError for an error of git, where everything is as before.
func gitError(err error) error {
	e := runerr.New(result.CodeEvidence, "nothing was changed: "+clean(err.Error()), "", runerr.Because(err))
	if foreign(err) {
		e.Message = "nothing was changed: git does not read a repository of another owner: " + clean(err.Error())
	}
	var f *gitFailure
	if errors.As(err, &f) && f.lock() != "" {
		e.Message += ": a git that was killed may have left that file"
	}
	e.Hint = gitHint(err, "see what git says in that folder")
	return e
}

// gitHint is what to do about an error of git, or otherwise what is given.
func gitHint(err error, otherwise string) string {
	var f *gitFailure
	switch {
	case foreign(err):
		return "run it as the owner of the folder and of its .git, or as a user whose git configuration has the folder in safe.directory"
	case errors.As(err, new(*gitOwnerError)):
		return "run it as the owner of the folder, or let the owner reach the folder"
	case errors.As(err, &f) && f.lock() != "":
		return fmt.Sprintf("if no git is at work in that repository remove %q, and run the command again", f.lock())
	}
	return otherwise
}

// lock is the file that another git has locked what this one wanted with, or empty.
func (e *gitFailure) lock() string {
	_, rest, _ := strings.Cut(e.text, "Unable to create '")
	if name, _, ok := strings.Cut(rest, "': File exists"); ok {
		return name
	}
	return ""
}

// foreign says whether git refuses a repository because of who owns it.
func foreign(err error) bool {
	var f *gitFailure
	return errors.As(err, &f) && (strings.Contains(f.text, "dubious ownership") || strings.Contains(f.text, "unsafe repository"))
}

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
