package saferun

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/kernel"
)

const (
	usageText = "usage: safe-run [--log-names contract|rfc] [--] COMMAND [ARGUMENT...]\n"
	hintText  = `  hint: "safe-run --help" lists what it takes`
)

// inProcess runs safe-run in this process, with an environment of env and PATH.
func inProcess(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	var out, errs bytes.Buffer
	code = Run(args, System{
		Stdin: stdin, Stdout: &out, Stderr: &errs,
		Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...),
		Now: time.Now, Rand: rand.Reader,
	})
	return code, out.String(), errs.String()
}

// refused checks that a call is refused with exit status 2 and a message. Its command,
// which would make a file, is not started, and no folder of logs is made.
func refused(t *testing.T, env, options []string, message string) {
	t.Helper()
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	env = append([]string{"SAFE_LOG_DIR=" + filepath.Join(dir, "logs")}, env...)
	code, stdout, stderr := inProcess(t, env, append(options, "sh", "-c", `echo >"$0"; exit 1`, made)...)
	if code != 2 || stdout != "" || stderr != "safe-run: "+message+"\n" {
		t.Errorf("%q %q: exit status %d, stdout %q, stderr %q, want %q", env[1:], options, code, stdout, stderr, message)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%q %q: %v was made (%v)", env[1:], options, list, err)
	}
}

// TestRefusedStarts shows that the command of refused makes its file and a log in a
// correct call.
func TestRefusedStarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("commands are run on Linux alone")
	}
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	code, stdout, stderr := inProcess(t, []string{"SAFE_LOG_DIR=" + filepath.Join(dir, "logs")}, "sh", "-c", `echo >"$0"; exit 1`, made)
	if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "safe-run: exit code 1, log ") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, name := range []string{"made", "logs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBadSettings: a bad value is refused before the command is started. The message has
// the value and the allowed values.
func TestBadSettings(t *testing.T) {
	for _, view := range []string{"Ledger", "MERGED", " merged", "merged ", "ledger,merged", "events", "0", "me\nrged", "\xff"} {
		refused(t, []string{"SAFE_RUN_VIEW=" + view}, nil, fmt.Sprintf("SAFE_RUN_VIEW is %q: ledger or merged", view))
	}
	for _, lines := range []string{
		"-1", "+1", "10001", "1e3", "0x10", "01", "00", "-0", " 1", "1 ", "1_000", "1.0", "ten", "all", "\n",
		"9223372036854775808", "18446744073709551616", "999999999999999999999999", "٣",
	} {
		refused(t, []string{"SAFE_SNIPPET_LINES=" + lines}, nil, fmt.Sprintf("SAFE_SNIPPET_LINES is %q: a number from 0 to 10000", lines))
	}
	for _, names := range []string{"RFC", "Contract", "rfc ", "both", "1"} {
		refused(t, []string{"SAFE_RUN_LOG_NAMES=" + names}, nil, fmt.Sprintf("SAFE_RUN_LOG_NAMES is %q: contract or rfc", names))
		refused(t, []string{"SAFE_RUN_LOG_NAMES=" + names}, []string{"--log-names=rfc"}, fmt.Sprintf("SAFE_RUN_LOG_NAMES is %q: contract or rfc", names))
		refused(t, nil, []string{"--log-names=" + names}, fmt.Sprintf("--log-names is %q: contract or rfc", names))
		refused(t, nil, []string{"--log-names", names}, fmt.Sprintf("--log-names is %q: contract or rfc", names))
		refused(t, nil, []string{"--log-names=rfc", "--log-names", names, "--"}, fmt.Sprintf("--log-names is %q: contract or rfc", names))
	}
	refused(t, nil, []string{"--log-names="}, `--log-names is "": contract or rfc`)
	refused(t, nil, []string{"--log-names", ""}, `--log-names is "": contract or rfc`)
	refused(t, nil, []string{"--log-names", "--"}, `--log-names is "--": contract or rfc`)
	// As for getenv, the first entry counts.
	refused(t, []string{"SAFE_RUN_VIEW=bad", "SAFE_RUN_VIEW=merged"}, nil, `SAFE_RUN_VIEW is "bad": ledger or merged`)
}

// TestUsage: arguments that are not understood are refused. The command begins with the
// first argument that is no option.
func TestUsage(t *testing.T) {
	for _, option := range []string{"-", "-x", "-hv", "-v", "---", "--log-name=rfc", "--log_names=rfc", "--log-namesrfc", "--help=1", "--version=", "--Version", "-\n"} {
		refused(t, nil, []string{option}, fmt.Sprintf("unknown option %q\n%s; a command that begins with - goes after --", option, hintText))
		refused(t, nil, []string{"--log-names=rfc", option}, fmt.Sprintf("unknown option %q\n%s; a command that begins with - goes after --", option, hintText))
	}
	missing := "safe-run: COMMAND is missing\n" + usageText + hintText + "\n"
	for _, tc := range []struct {
		args   []string
		stderr string
	}{
		{nil, missing},
		{[]string{"--"}, missing},
		{[]string{"--log-names=rfc"}, missing},
		{[]string{"--log-names", "contract", "--"}, missing},
		{[]string{"--log-names"}, "safe-run: --log-names has no value: contract or rfc\n" + hintText + "\n"},
		{[]string{"--log-names=rfc", "--log-names"}, "safe-run: --log-names has no value: contract or rfc\n" + hintText + "\n"},
	} {
		if code, stdout, stderr := inProcess(t, nil, tc.args...); code != 2 || stdout != "" || stderr != tc.stderr {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", tc.args, code, stdout, stderr)
		}
	}
}

// TestParse: the options, and where the command begins.
func TestParse(t *testing.T) {
	for _, tc := range []struct{ args, argv, names string }{
		{"make", "make", ""},
		{"make -j --help", "make -j --help", ""},
		{"make --version", "make --version", ""},
		{"make -- x", "make -- x", ""},
		{"make --log-names=rfc", "make --log-names=rfc", ""},
		{"-- make", "make", ""},
		{"-- -x", "-x", ""},
		{"-- --help", "--help", ""},
		{"-- -- make", "-- make", ""},
		{"--log-names=rfc make", "make", "rfc"},
		{"--log-names rfc make", "make", "rfc"},
		{"--log-names contract -- rfc", "rfc", "contract"},
		{"--log-names=rfc --log-names=contract make", "make", "contract"},
		{"--log-names contract --log-names rfc make --log-names contract", "make --log-names contract", "rfc"},
	} {
		c, err := parse(strings.Fields(tc.args))
		if err != nil || strings.Join(c.argv, " ") != tc.argv || c.settings.names != tc.names || c.help || c.version {
			t.Errorf("%q: %+v, %v", tc.args, c, err)
		}
	}
	if c, err := parse([]string{""}); err != nil || len(c.argv) != 1 || c.argv[0] != "" {
		t.Errorf("an empty command: %+v, %v", c, err)
	}
}

// TestSettings: the choices of the environment. An empty variable counts as unset, and the
// option overrides the variable.
func TestSettings(t *testing.T) {
	unset := settings{dir: ".agent/FAIL-LOGS", names: "contract"}
	for _, tc := range []struct {
		names string // of the option
		env   []string
		want  settings
	}{
		{"", nil, unset},
		{"", []string{"SAFE_LOG_DIR=", "SAFE_RUN_VIEW=", "SAFE_SNIPPET_LINES=", "SAFE_RUN_LOG_NAMES="}, unset},
		{"", []string{"XSAFE_LOG_DIR=x", "SAFE_LOG_DIRX=x", "safe_log_dir=x", "SAFE_LOG_DIR"}, unset},
		{"", []string{"SAFE_LOG_DIR=a=b", "SAFE_LOG_DIR=c"}, settings{dir: "a=b", names: "contract"}},
		{"", []string{"SAFE_RUN_VIEW=", "SAFE_RUN_VIEW=merged"}, unset},
		{"", []string{"SAFE_RUN_VIEW=ledger"}, unset},
		{"", []string{"SAFE_RUN_VIEW=merged"}, settings{dir: unset.dir, names: "contract", merged: true}},
		{"", []string{"SAFE_SNIPPET_LINES=0"}, unset},
		{"", []string{"SAFE_SNIPPET_LINES=1"}, settings{dir: unset.dir, names: "contract", snippet: 1}},
		{"", []string{"SAFE_SNIPPET_LINES=10000"}, settings{dir: unset.dir, names: "contract", snippet: 10000}},
		{"", []string{"SAFE_RUN_LOG_NAMES=contract"}, unset},
		{"", []string{"SAFE_RUN_LOG_NAMES=rfc"}, settings{dir: unset.dir, names: "rfc"}},
		{"rfc", nil, settings{dir: unset.dir, names: "rfc"}},
		{"rfc", []string{"SAFE_RUN_LOG_NAMES=contract"}, settings{dir: unset.dir, names: "rfc"}},
		{"contract", []string{"SAFE_RUN_LOG_NAMES=rfc"}, unset},
	} {
		got := settings{names: tc.names}
		if err := got.read(tc.env); err != nil || got != tc.want {
			t.Errorf("%q, %q: %+v, %v", tc.names, tc.env, got, err)
		}
	}
}

// TestVersion: the line is that of the contract, and the version is that of Fiador.
func TestVersion(t *testing.T) {
	if Version != kernel.Version {
		t.Errorf("version %q here and %q in the kernel", Version, kernel.Version)
	}
	for _, args := range [][]string{{"--version"}, {"--log-names=rfc", "--version"}, {"--version", "x", "--help"}} {
		code, stdout, stderr := inProcess(t, []string{"SAFE_RUN_VIEW=bad"}, args...)
		if want := "safe-run " + kernel.Version + " (contract: M0-v0.1.0)\n"; code != 0 || stdout != want || stderr != "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// TestHelp: the help names every option, variable, value and exit status.
func TestHelp(t *testing.T) {
	code, text, stderr := inProcess(t, nil, "--help")
	if code != 0 || stderr != "" {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
	bad := []string{"SAFE_RUN_VIEW=bad", "SAFE_SNIPPET_LINES=-1", "SAFE_RUN_LOG_NAMES=bad"} // these values do not matter here
	for _, args := range [][]string{{"-h"}, {"--log-names", "rfc", "--help"}, {"--help", "--unknown"}} {
		if code, again, stderr := inProcess(t, bad, args...); code != 0 || again != text || stderr != "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, code, again, stderr)
		}
	}
	for _, s := range []string{
		strings.TrimPrefix(usageText, "usage: "), "--log-names", "--version", "--help", "contract", "rfc",
		"safe-run-YYYYMMDD-HHMMSS-xxxxxxxx.log", "YYYYMMDDTHHMMSSZ-pidN-FAIL.log",
		"SAFE_LOG_DIR", "default: .agent/FAIL-LOGS", "SAFE_RUN_VIEW", "ledger", "merged",
		"SAFE_SNIPPET_LINES", "0 to 10000", "SAFE_RUN_LOG_NAMES",
		"  0 to 255 ", "128+n", "127 not found", "126 not executable", "  125 ", "  2 ",
	} {
		if !strings.Contains(text, s) {
			t.Errorf("the help does not have %q", s)
		}
	}
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") || strings.Contains(line, "\t") {
			t.Errorf("a line of the help ends in blanks or has a tab: %q", line)
		}
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestHelpNotRead: help or version that cannot be written is no success.
func TestHelpNotRead(t *testing.T) {
	for _, option := range []string{"--help", "--version"} {
		var errs bytes.Buffer
		code := Run([]string{option}, System{Stdout: failing{errors.New("no room")}, Stderr: &errs})
		if code != 2 || errs.String() != "safe-run: standard output: no room\n" {
			t.Errorf("%s: exit status %d, stderr %q", option, code, &errs)
		}
	}
	if code := Run([]string{"--unknown"}, System{Stdout: io.Discard, Stderr: failing{errors.New("no room")}}); code != 2 {
		t.Errorf("exit status %d where standard error cannot be written", code)
	}
}

// TestUnknownEnd: a command with an unknown end has not succeeded.
func TestUnknownEnd(t *testing.T) {
	unknown := errors.New("wait: no child processes")
	for _, c := range []struct {
		exit command.Exit
		want int
	}{
		{command.Exit{}, exitUnknown},
		{command.Exit{Code: 3}, 3},
		{command.Exit{Signal: syscall.SIGKILL}, 137},
	} {
		e := ended(command.Result{Exit: c.exit, Started: time.Unix(1, 0)}, unknown, 0)
		if e.code != c.want || len(e.notes) != 1 || len(e.complaints) != 1 {
			t.Errorf("%+v: %+v, want %d", c.exit, e, c.want)
		}
	}
	if e := ended(command.Result{Started: time.Unix(1, 0)}, nil, 0); e.code != 0 {
		t.Errorf("a known end: %+v", e)
	}
}
