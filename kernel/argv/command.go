// Package argv finds the faults of a command: shells, wrappers, inline code, and
// programs that need the network. It owns the tables of interpreters and of programs
// that start other programs.
package argv

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/text"
)

// The command detector reads an argv as the program that it names would. It reads as
// far as needed to tell whether the code that runs is a file or part of the argv. It
// reports its findings in this order:
//
//	command_path       argv[0] contains a slash or backslash, or is "." or ".."
//	command_character  argv[0] is empty or has a character outside 0x21 to 0x7e
//	command_shell      a shell runs
//	command_wrapper    a program runs whose purpose is to start another program
//	inline_code        an interpreter gets code from an argument or from stdin,
//	                   or loads, before the script, other code or a file that
//	                   sets the environment or the options
//	command_unread     the commands of the intent take too many steps to read
//	path_*             the path detector finds this fault in the script of node, or
//	                   in the value of an option that names a file; or an argument
//	                   names a program that calls functions of libraries (NamesShim)
//	network_needed     a package manager gets a task that needs a network
//
// Names are compared in lower case, without folder, Windows extension and version
// ("python3.12" is python). The text behind a wrapper (env, xargs) or a runner (npx,
// npm exec) is read as a command of its own, and its finding points to its own
// argument. Some runners open a shell where no command follows: such a runner gets code
// from stdin, even if the intent gives no stdin. A runner that stores a script or a
// shell in a setting also carries code.
//
// The detector reads an interpreter's options up to its first operand, the script; the
// arguments behind it belong to the script. An option that is in no table may take the
// next argument as its value or not. So the detector does not take that argument for
// the script, and reads on to the next one. Some tools read arguments in a language of
// their own but are no interpreters (sed, git, make, tar). They are in no table: a rule
// that allows such a tool allows everything that the tool can run.

// Fault is a finding about an argv: its code, the index of the argument that it is
// about, and the text. For stdin the index is that of the program's name.
type Fault struct {
	Code  string
	Arg   int
	Value string
}

const (
	shells text.Words = `ash bash busybox cmd csh dash elvish fish ion ksh ksh93 lksh mksh nu oksh osh pdksh posh
		powershell pwsh rbash rc rksh rzsh sash sh tcsh toybox xonsh yash ysh zsh`

	wrappers text.Words = `arch builtin bwrap capsh catchsegv chroot chrt chpst command concurrently cpulimit cross-env
		cross-env-shell daemonize dbus-run-session doas dotenv eatmydata entr env eval exec faketime fakeroot firejail
		flatpak-spawn flock gdb gtimeout ionice ld.so linux32 linux64 lldb ltrace nice nodemon nohup nsenter numactl
		nsjail parallel perf pkexec proot prlimit rlwrap run0 runcon runuser screen script setarch setpriv setsid softlimit ssh start-stop-daemon
		stdbuf strace su sudo systemd-run taskset time timeout tmux torsocks tsocks unbuffer unshare valgrind watch
		watchexec xargs xvfb-run`

	// findStarts are the options with which find starts programs.
	findStarts text.Words = "-exec -execdir -ok -okdir"
)

// isShell, isWrapper and findInterpreter look up a folded base name, with its version
// and without it.
func isShell(name string) (string, bool) {
	return lookUp(name, shells.Has)
}

func isWrapper(name string) (string, bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		return "ld.so", true
	}
	return lookUp(name, wrappers.Has)
}

func findInterpreter(name string) (interpreter, bool) {
	var found interpreter
	_, ok := lookUp(name, func(name string) bool {
		i := slices.IndexFunc(interpreters, func(p interpreter) bool { return p.names.Has(name) })
		if i >= 0 {
			found = interpreters[i]
		}
		return i >= 0
	})
	return found, ok
}

func findRunner(name string) (runner, bool) {
	i := slices.IndexFunc(runners, func(r runner) bool { return r.names.Has(name) })
	if i < 0 {
		return runner{}, false
	}
	return runners[i], true
}

func lookUp(name string, has func(string) bool) (string, bool) {
	if has(name) {
		return name, true
	}
	bare := trimVersion(name)
	return bare, bare != name && bare != "" && has(bare)
}

// trimVersion removes the version from a name such as "python3.12t", "node-20",
// "lua5.4" or "node@20".
func trimVersion(name string) string {
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	const digits = "0123456789.-_"
	if n := len(name); n > 1 && strings.IndexByte("dmtu", name[n-1]) >= 0 && strings.IndexByte(digits, name[n-2]) >= 0 {
		name = name[:n-1]
	}
	return strings.TrimRight(name, digits)
}

// baseName returns the folded name under which the tables list a program.
func baseName(arg string) string {
	if i := strings.LastIndexAny(arg, `/\`); i >= 0 {
		arg = arg[i+1:]
	}
	if len(arg) > 64 {
		return ""
	}
	name := pathname.FoldSegment(arg)
	for _, ext := range []string{".exe", ".cmd", ".bat", ".com", ".ps1"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// maxNesting bounds how many wrappers and runners may start each other. The program at
// the bound is reported as a wrapper, and the detector reads no further.
const maxNesting = 8

// MaxSteps is the greatest number of steps for reading all commands of an intent. Each
// time an argument is read, it costs one step, and one more for every stepBytes of it.
const (
	MaxSteps  = 20000
	stepBytes = 32
)

// Budget counts the steps that are left. It uses no clock, so that one intent has the
// same findings on every machine.
type Budget struct{ steps int }

// spend takes the steps of one argument. It returns false if too few are left.
func (b *Budget) spend(arg string) bool {
	b.steps -= 1 + len(arg)/stepBytes
	return !b.spent()
}

// NewBudget returns the steps for all commands of an intent.
func NewBudget() *Budget { return &Budget{MaxSteps} }

func (b *Budget) spent() bool { return b.steps < 0 }

// Faults returns the faults of an argv. hasStdin says whether the intent gives the
// command standard input. If the budget is spent, the last fault says that the rest is
// unread.
func Faults(argv []string, hasStdin bool, b *Budget) []Fault {
	if len(argv) == 0 {
		return nil
	}
	var list []Fault
	name := argv[0]
	if IsPath(name) {
		list = append(list, Fault{finding.CmdPath, 0, name})
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		list = append(list, Fault{finding.CmdCharacter, 0, escaped(name)})
	}
	list = append(list, startFaults(argv, 0, 0, hasStdin, b)...)
	for i, arg := range argv {
		if f := (Fault{finding.PathAbsolute, i, arg}); pathname.NamesShim(arg) && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	if b.spent() {
		list = append(list, Fault{finding.CmdUnread, 0, escaped(name)})
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return commandRank(a.Code) - commandRank(b.Code) })
	return slices.Compact(list)
}

// IsPath says whether a command is a path. A path is not the name of a command, and no list
// of commands allows it.
func IsPath(command string) bool {
	return strings.ContainsAny(command, `/\`) || command == "." || command == ".."
}

// escaped returns the name in printable ASCII, as between the quotes of a Go string.
func escaped(name string) string {
	quoted := strconv.QuoteToASCII(name[:min(len(name), 80)])
	return quoted[1 : len(quoted)-1]
}

func commandRank(code string) int {
	return slices.Index([]string{
		finding.CmdPath, finding.CmdCharacter, finding.CmdShell, finding.CmdWrapper, finding.InlineCode,
		finding.PathAbsolute, finding.PathTraversal, finding.PathBackslash, finding.PathCharacter, finding.PathControl, finding.NetworkNeeded, finding.CmdUnread,
	}, code)
}

// startFaults follows the chain of programs that an argv starts, from the program at
// index at.
func startFaults(argv []string, at, depth int, hasStdin bool, b *Budget) []Fault {
	var list []Fault
	for ; at >= 0 && at < len(argv) && b.spend(argv[at]); depth++ {
		name := baseName(argv[at])
		if shell, ok := isShell(name); ok {
			return append(list, Fault{finding.CmdShell, at, shell})
		}
		if depth == maxNesting {
			return append(list, Fault{finding.CmdWrapper, at, name})
		}
		next := -1
		var found *Fault
		var also []Fault
		if wrapper, from, ok := wrapperAt(argv, at, name); ok {
			list = append(list, Fault{finding.CmdWrapper, at, wrapper})
			next = nextProgram(argv, from, b)
		} else if r, ok := findRunner(name); ok {
			var perhaps int
			next, perhaps, found, also = r.read(argv, at, hasStdin, b)
			if found == nil && perhaps >= 0 {
				list = append(list, startFaults(argv, perhaps, depth+1, hasStdin, b)...)
			}
		} else if p, ok := findInterpreter(name); ok {
			next, found, also = p.read(argv, at, hasStdin, b)
		}
		list = append(list, also...)
		if found != nil {
			return append(list, *found)
		}
		at = next
	}
	return list
}

// wrapperAt says whether the program at index at is a wrapper. It returns the wrapper's
// name and the index from which to look for the program that it starts.
func wrapperAt(argv []string, at int, name string) (string, int, bool) {
	if wrapper, ok := isWrapper(name); ok {
		return wrapper, at + 1, true
	}
	if name == "find" {
		if i := slices.IndexFunc(argv[at:], findStarts.Has); i >= 0 {
			return "find " + argv[at+i], at + i + 1, true
		}
	}
	return "", 0, false
}

// nextProgram returns the index of the first argument that names a shell, wrapper,
// runner or interpreter, or -1.
func nextProgram(argv []string, from int, b *Budget) int {
	for i := from; i < len(argv) && b.spend(argv[i]); i++ {
		if isProgram(argv[i]) {
			return i
		}
	}
	return -1
}

func isProgram(arg string) bool {
	if strings.HasPrefix(arg, "-") {
		return false
	}
	name := baseName(arg)
	if _, ok := isShell(name); ok {
		return true
	}
	if _, ok := isWrapper(name); ok {
		return true
	}
	if _, ok := findRunner(name); ok {
		return true
	}
	_, ok := findInterpreter(name)
	return ok || name == "find"
}
