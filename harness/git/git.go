// Package git runs the git of the user in a work tree, so that it runs no program that the
// repository names and asks nobody.
package git

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
)

// Git runs git in a folder. That git runs no program that the configuration of the
// repository names: no hook, monitor, filter or transport. A Ctrl-C on the terminal does
// not reach it. If this process is root and another user owns the folder, git runs as that
// owner. The owner then owns the new files, and a git of root reads no repository of
// others.
type Git struct {
	dir     string
	environ []string
	attr    *syscall.SysProcAttr
	owner   bool // git runs as the owner of the folder, who is another user

	Empty []string // names of configuration values that are set empty
}

// Failure is the error of a git that ended with a status other than 0. Text is the first line of
// what git says that is no warning.
type Failure struct {
	Code int
	Text string
}

func (e *Failure) Error() string { return "git: " + e.Text }

// OwnerError says that git could not be started as the owner of the folder.
type OwnerError struct{ err error }

func (e *OwnerError) Error() string {
	return "git cannot be run as the owner of the folder: " + runerr.Reason(e.err)
}

func (e *OwnerError) Unwrap() error { return e.err }

// New returns the git for a folder. environ is the environment of the caller.
func New(dir string, environ []string) (Git, error) {
	g := Git{dir: dir}
	var err error
	if g.attr, g.owner, err = attributes(dir); err != nil {
		return Git{}, err
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
	g.environ = append(g.environ, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1",
		"GIT_GRAFT_FILE=/dev/null") // the file .git/info/grafts gives commits other parents
	return g, nil
}

// Dir returns the folder.
func (g Git) Dir() string { return g.dir }

// Owner reports whether git runs as the owner of the folder, who is another user.
func (g Git) Owner() bool { return g.owner }

// AsCaller returns a Git that runs as this process.
func (g Git) AsCaller() Git {
	g.attr, g.owner = nil, false
	return g
}

// Run runs a command of git and returns its standard output.
func (g Git) Run(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "--no-pager", "--literal-pathspecs"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = g.dir, append(slices.Clone(g.environ), fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(g.Empty))), g.attr
	for i, name := range g.Empty {
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
		return stdout.String(), &Failure{ee.ExitCode(), canon.Clean(text)}
	case err != nil && g.owner && !errors.Is(err, exec.ErrNotFound):
		err = &OwnerError{err}
	}
	return stdout.String(), err
}

// Failed reports whether git ran and ended with a status other than 0.
func Failed(err error) bool { return errors.As(err, new(*Failure)) }

// No reports whether git answered "no", for commands that answer so with status 1.
func No(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Code == 1
}

// Remedy returns what to do about an error of git, or otherwise if git gives no clue.
func Remedy(err error, otherwise string) string {
	switch {
	case Foreign(err):
		return "run it as the owner of the folder and of its .git, or as a user whose git configuration has the folder in safe.directory"
	case errors.As(err, new(*OwnerError)):
		return "run it as the owner of the folder, or let the owner reach the folder"
	case Lock(err) != "":
		return fmt.Sprintf("if no git is at work in that repository remove %q, and run the command again", Lock(err))
	}
	return otherwise
}

// Message returns what git said when it ended with a status other than 0, or empty.
func Message(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Text
	}
	return ""
}

// Lock returns the lock file of another git that stopped this one, or empty.
func Lock(err error) string {
	_, rest, _ := strings.Cut(Message(err), "Unable to create '")
	if name, _, ok := strings.Cut(rest, "': File exists"); ok {
		return name
	}
	return ""
}

// Foreign reports whether git refuses a repository because of its owner.
func Foreign(err error) bool {
	return strings.Contains(Message(err), "dubious ownership") || strings.Contains(Message(err), "unsafe repository")
}
