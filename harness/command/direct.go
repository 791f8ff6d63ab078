package command

import (
	"os"
	"slices"
	"strconv"
)

// Direct starts argv without confinement, with the environment exactly as given
// and in dir; an empty dir is the current one. No shell is involved.
//
// A name without a slash is looked up in the PATH of env; without one it is not
// found. An argv that cannot be started is a [StartError]; any other error means
// that the command was not tried.
//
// The command leads a process group of its own, and signals go to the group:
// what leaves it, by setsid for one, is out of reach. If standard input is the
// caller's controlling terminal it stays in the caller's group, because a terminal
// stops a background group that reads from it; signals then go to the command alone.
// Wait returns when the command itself has ended.
//
// Descriptors that this process was started with, and that are not closed on
// exec, are inherited: make hands its job server on that way. So is what this
// process ignores, as under nohup.
//
// Whoever uses the Process without [Run] closes it after Wait; it is an
// [io.Closer].
func Direct(argv, env []string, dir string) Start {
	argv, env = slices.Clone(argv), slices.Clone(env)
	return func(stdin, stdout, stderr *os.File) (Process, error) {
		return startDirect(argv, env, dir, [3]*os.File{stdin, stdout, stderr})
	}
}

// SharesGroup says whether a command of Direct with this standard input stays in
// the caller's process group, where the terminal's own signals reach it as well.
func SharesGroup(stdin *os.File) bool { return isTerminal(stdin.Fd()) }

// Foreground says whether this process, and a command that shares its group, is what
// the keyboard of its controlling terminal sends signals to now.
func Foreground(terminal *os.File) bool { return isForeground(terminal.Fd()) }

// StartError says that a command was not there or could not be executed.
type StartError struct {
	Name string // argv[0]
	Code int    // what a shell exits with: NotFound or NotExecutable
	Err  error
}

// The codes of a StartError.
const (
	NotExecutable = 126
	NotFound      = 127
)

func (e *StartError) Error() string {
	if e.Code == NotFound {
		return "command " + strconv.Quote(e.Name) + " not found: " + e.Err.Error()
	}
	return "command " + strconv.Quote(e.Name) + " cannot be executed: " + e.Err.Error()
}

// Unwrap is the system's reason.
func (e *StartError) Unwrap() error { return e.Err }
