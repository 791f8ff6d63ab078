package saferun

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const help = `Usage: safe-run [--log-names contract|rfc] [--] COMMAND [ARGUMENT...]

Runs COMMAND, passes its output on as it comes and exits as it does. When it
fails, or is interrupted, a log of its output is left and named on standard error.

  --log-names NAMES  names of logs: contract (safe-run-YYYYMMDD-HHMMSS-xxxxxxxx.log)
                     or rfc (YYYYMMDDTHHMMSSZ-pidN-FAIL.log)
  --version          print the versions of this program and of its contract
  --help             print this

Environment:
  SAFE_LOG_DIR        folder for logs (default: .agent/FAIL-LOGS)
  SAFE_RUN_VIEW       ledger: streams apart and numbered events (default);
                      merged: the lines as they came
  SAFE_SNIPPET_LINES  last lines of each stream to print after a failure,
                      0 to 10000 (default: 0)
  SAFE_RUN_LOG_NAMES  as --log-names

Exit codes:
  0 to 255  the command's own; 128+n when signal n ended it,
            126 not executable, 127 not found
  125       how the command ended is not known
  2         usage: nothing was started
`

// call is a parsed command line.
type call struct {
	help, version bool
	argv          []string
	settings      settings
}

// settings are the values that arguments and environment choose.
type settings struct {
	dir     string // folder of logs
	merged  bool   // the merged view
	snippet int    // last lines of each stream
	names   string // contract or rfc; empty: not chosen
}

const maxSnippet = 10000

// parse reads the arguments. The command begins with the first argument that is no option.
func parse(args []string) (c call, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, has := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--":
			args = args[1:]
			return c.command(args)
		case args[0] == "--help", args[0] == "-h":
			c.help = true
			return c, nil
		case args[0] == "--version":
			c.version = true
			return c, nil
		case name == "--log-names" && !has:
			if len(args) == 1 {
				return c, fmt.Errorf("--log-names has no value: contract or rfc\n%s", hint)
			}
			value, args = args[1], args[1:]
			fallthrough
		case name == "--log-names":
			if c.settings.names, err = oneOf("--log-names", value, "contract", "rfc"); err != nil {
				return c, err
			}
			args = args[1:]
		default:
			return c, fmt.Errorf("unknown option %q\n%s; a command that begins with - goes after --", args[0], hint)
		}
	}
	return c.command(args)
}

const hint = `  hint: "safe-run --help" lists what it takes`

func (c call) command(argv []string) (call, error) {
	if len(argv) == 0 {
		return c, fmt.Errorf("COMMAND is missing\nusage: safe-run [--log-names contract|rfc] [--] COMMAND [ARGUMENT...]\n%s", hint)
	}
	c.argv = argv
	return c, nil
}

// read takes the settings that are still open from the environment. An empty variable
// counts as unset.
func (s *settings) read(env []string) (err error) {
	s.dir = cmp.Or(environ(env, "SAFE_LOG_DIR"), ".agent/FAIL-LOGS")
	view, err := oneOf("SAFE_RUN_VIEW", environ(env, "SAFE_RUN_VIEW"), "ledger", "merged")
	if err != nil {
		return err
	}
	s.merged = view == "merged"
	names, err := oneOf("SAFE_RUN_LOG_NAMES", environ(env, "SAFE_RUN_LOG_NAMES"), "contract", "rfc")
	if err != nil {
		return err
	}
	s.names = cmp.Or(s.names, names)
	if n := environ(env, "SAFE_SNIPPET_LINES"); n != "" {
		s.snippet, err = strconv.Atoi(n)
		if err != nil || s.snippet < 0 || s.snippet > maxSnippet || n != strconv.Itoa(s.snippet) {
			return fmt.Errorf("SAFE_SNIPPET_LINES is %q: a number from 0 to %d", n, maxSnippet)
		}
	}
	return nil
}

// oneOf refuses a value that is not in the list. An empty environment variable means the
// first value of the list.
func oneOf(name, value string, list ...string) (string, error) {
	if value == "" && !strings.HasPrefix(name, "--") {
		return list[0], nil
	}
	if slices.Contains(list, value) {
		return value, nil
	}
	return "", fmt.Errorf("%s is %q: %s", name, value, strings.Join(list, " or "))
}
