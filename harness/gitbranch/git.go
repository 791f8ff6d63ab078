package gitbranch

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
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// git runs git in a work tree. That git runs no program that the configuration of the
// repository names: no hook, monitor, filter or transport. A Ctrl-C on the terminal does
// not reach it. If this process is root and another user owns the folder, git runs as that
// owner. The owner then owns the new files, and a git of root reads no repository of
// others.
type git struct {
	dir     string
	environ []string
	attr    *syscall.SysProcAttr
	owner   bool     // git runs as the owner of the folder, who is another user
	filters []string // names of configuration values that are set empty, which turns filters off
}

// failure is the error of a git that ended with a status other than 0.
type failure struct {
	code int
	text string
}

func (e *failure) Error() string { return "git: " + e.text }

// ownerError says that git could not be started as the owner of the folder.
type ownerError struct{ err error }

func (e *ownerError) Error() string {
	return "git cannot be run as the owner of the folder: " + runerr.Reason(e.err)
}

func (e *ownerError) Unwrap() error { return e.err }

func newGit(dir string, environ []string) (git, error) {
	g := git{dir: dir}
	var err error
	if g.attr, g.owner, err = attributes(dir); err != nil {
		return git{}, err
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "GIT_"), name == "LC_ALL", name == "LANGUAGE":
		case name == "SUDO_UID": // with SUDO_UID, root's git trusts the repositories of that user
		case g.owner && (name == "HOME" || name == "XDG_CONFIG_HOME"): // they name this user's configuration
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
	ee, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ended && !ee.Exited():
		return stdout.String(), fmt.Errorf("git was killed: %s", ee.ProcessState)
	case ended:
		text, rest, more := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		for more && strings.HasPrefix(text, "warning: ") {
			text, rest, more = strings.Cut(rest, "\n")
		}
		return stdout.String(), &failure{ee.ExitCode(), canon.Clean(text)}
	case err != nil && g.owner && !errors.Is(err, exec.ErrNotFound):
		err = &ownerError{err}
	}
	return stdout.String(), err
}

// failed reports whether git ran and ended with a status other than 0.
func failed(err error) bool { return errors.As(err, new(*failure)) }

// no reports whether git answered "no", for commands that answer so with status 1.
func no(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.code == 1
}

// refusal returns the RunError for an error of git before any change.
func refusal(err error) error {
	e := runerr.New(result.CodeEvidence, "nothing was changed: "+canon.Clean(err.Error()), "", runerr.Because(err))
	if foreign(err) {
		e.Message = "nothing was changed: git does not read a repository of another owner: " + canon.Clean(err.Error())
	}
	if lock(err) != "" {
		e.Message += ": a git that was killed may have left that file"
	}
	e.Hint = remedy(err, "see what git says in that folder")
	return e
}

// remedy returns what to do about an error of git, or otherwise if git gives no clue.
func remedy(err error, otherwise string) string {
	switch {
	case foreign(err):
		return "run it as the owner of the folder and of its .git, or as a user whose git configuration has the folder in safe.directory"
	case errors.As(err, new(*ownerError)):
		return "run it as the owner of the folder, or let the owner reach the folder"
	case lock(err) != "":
		return fmt.Sprintf("if no git is at work in that repository remove %q, and run the command again", lock(err))
	}
	return otherwise
}

// message returns what git said when it ended with a status other than 0, or empty.
func message(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.text
	}
	return ""
}

// lock returns the lock file of another git that stopped this one, or empty.
func lock(err error) string {
	_, rest, _ := strings.Cut(message(err), "Unable to create '")
	if name, _, ok := strings.Cut(rest, "': File exists"); ok {
		return name
	}
	return ""
}

// foreign reports whether git refuses a repository because of its owner.
func foreign(err error) bool {
	return strings.Contains(message(err), "dubious ownership") || strings.Contains(message(err), "unsafe repository")
}

// Dirty reports whether tracked files differ from the last commit. Filters are off,
// because they are programs. A file that needs a filter counts as changed unless its times
// show that it is unchanged.
func (b *Branch) Dirty(ctx context.Context) (bool, error) {
	g := b.git
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
