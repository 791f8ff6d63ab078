package command

import (
	"os"
	"slices"
	"strconv"
)

// Direct returns a Start that starts argv without confinement, with exactly the environment
// env and in dir; an empty dir is the current one. No shell is involved.
//
// A name without a slash is looked up in the PATH of env; without a PATH it is not found. An
// argv that cannot be started is a [StartError]; any other error means that the command was
// not tried.
//
// The command leads a process group of its own, and signals go to the group. A process that
// leaves the group, for example by setsid, gets no signal. If standard input is the caller's
// controlling terminal, the command stays in the caller's group, because a terminal stops a
// background group that reads from it. Signals then go to the command alone. Wait returns
// when the command itself has ended.
//
// The command inherits descriptors that this process was started with and that are not
// closed on exec; make passes its job server this way. The command also inherits the signals
// that this process ignores, as under nohup.
//
// A caller that uses the Process without [Run] closes it after Wait; it is an [io.Closer].
func Direct(argv, env []string, dir string) Start {
	argv, env = slices.Clone(argv), slices.Clone(env)
	return func(stdin, stdout, stderr *os.File) (Process, error) {
		return startDirect(argv, env, dir, [3]*os.File{stdin, stdout, stderr})
	}
}

// StartError says that a command was not found or could not be executed.
type StartError struct {
	Name string // argv[0]
	Code int    // exit code of a shell: NotFound or NotExecutable
	Err  error
}

// The codes of a StartError.
const (
	NotExecutable = 126
	NotFound      = 127
)

// Error names the command and the reason.
func (e *StartError) Error() string {
	why := map[bool]string{true: " not found: ", false: " cannot be executed: "}[e.Code == NotFound]
	return "command " + strconv.Quote(e.Name) + why + e.Err.Error()
}

// Unwrap returns the system's error.
func (e *StartError) Unwrap() error { return e.Err }
