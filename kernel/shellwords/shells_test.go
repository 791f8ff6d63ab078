package shellwords

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A real shell runs a line and records the argvs that it starts. No program runs: PATH is
// an empty folder, builtins are switched off, and bash and zsh are restricted shells, which
// start nothing by a path. Every name is a function that calls r; a name that cannot be one
// is not found, and the handler for that calls r. r records whether standard input is a pipe,
// the number of words, and the words, with \x01 for a newline, at which bash would write one
// record in two pieces. It returns $s.
//
// dash has no such switches and no such handler. So a line with a name that cannot be a
// function does not run there, and a line with exit neither.
var shells = []struct {
	name, path string
	args       []string
	prelude    string
	function   string         // makes the function %[1]s, which stands in single quotes as %[2]s
	functions  *regexp.Regexp // names that can be functions
	runs       *regexp.Regexp // names that can be recorded
}{
	{"bash", "bash", []string{"--norc", "--noprofile", "-r"}, bashPrelude, "function %[1]s { r %[2]s \"$@\"; }\n", plainName, regexp.MustCompile(plainName.String() + `|^[^/]*$`)},
	{"bash as sh", "bash", []string{"--posix", "--norc", "--noprofile", "-r"}, bashPrelude, "%[1]s() { r %[2]s \"$@\"; }\n", identifier, regexp.MustCompile(`^[^/]*$`)},
	{"zsh", "zsh", []string{"-f"}, `zmodload zsh/parameter
command_not_found_handler() { r "$@"; }
lf=$'\n' mark=$'\001'
r() { local p=0; [[ -p /dev/stdin ]] && p=1; printf '%s\0' $p $# "${@//$lf/$mark}" >&3; return $s; }
n=(${(k)builtins})
disable -- ${n:#(printf|eval|.|return|local|disable|setopt)}
setopt restricted
`, "k=%[2]s; functions[$k]='r \"$0\" \"$@\"'\n", anyName, anyName},
	{"dash", "dash", nil, `r() { p=0; [ -p /dev/stdin ] && p=1; printf '%s\0' $p $# "$@" >&3; return $s; }
`, "%[1]s() { r %[1]s \"$@\"; }\n", identifier, identifier},
}

var (
	anyName    = regexp.MustCompile(``)
	plainName  = regexp.MustCompile(`^[\w@%+:,./-]+$`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
)

const bashPrelude = `command_not_found_handle() { r "$@"; }
lf=$'\n' mark=$'\001'
r() { local p=0; [[ -p /dev/stdin ]] && p=1; printf '%s\0' $p $# "${@//$lf/$mark}" >&3; return $s; }
for n in $(compgen -b); do case $n in printf | eval | . | return | local | enable) ;; *) enable -n $n ;; esac; done
enable -n enable
`

// shell is a running shell.
type shell struct {
	kind  int
	stdin io.WriteCloser
	out   *os.File
	words *bufio.Reader
	dir   string
	ran   int
}

// startShells starts every shell that this machine has. They end with the test.
func startShells(t testing.TB) []*shell {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process inherits no third stream on Windows, and a shell writes its records there")
	}
	var list []*shell
	for i, kind := range shells {
		path, err := exec.LookPath(kind.path)
		if err != nil {
			t.Logf("there is no %s: no line runs in it", kind.name)
			continue
		}
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path, kind.args...)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"PATH=" + cmd.Dir, "LC_ALL=C.UTF-8"}
		cmd.ExtraFiles = []*os.File{in}
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.WriteString(stdin, kind.prelude)
		}
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		t.Cleanup(func() {
			stdin.Close()
			out.Close()
			cmd.Wait()
		})
		list = append(list, &shell{i, stdin, out, bufio.NewReader(out), cmd.Dir, 0})
	}
	if list == nil {
		t.Skip("there is neither bash nor zsh nor dash")
	}
	return list
}

// record is one argv that a shell has started.
type record Command

func (r record) String() string {
	if r.Piped {
		return "| " + fmt.Sprintf("%q", r.Argv)
	}
	return fmt.Sprintf("%q", r.Argv)
}

// run lets the shell read a line twice, with commands that all succeed and with commands
// that all fail, and returns what each time was started.
func (s *shell) run(line string, names []string) (ran [2][]record, err error) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	var functions strings.Builder
	for _, name := range names {
		if shells[s.kind].functions.MatchString(name) && name != "exit" {
			fmt.Fprintf(&functions, shells[s.kind].function, name, quote(name))
		}
	}
	var script strings.Builder
	for status := range ran {
		fmt.Fprintf(&script, "s=%d\n%s{ eval %s\n} </dev/null\nprintf 'end\\0' >&3\n", status, functions.String(), quote(line))
		functions.Reset()
	}
	// From a pipe a shell reads every byte by a call of the system, from a file it does not.
	// A shell can still read the end of one file when the other one is written.
	name := "xy"[s.ran%2 : s.ran%2+1]
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(script.String()), 0o600); err != nil {
		return ran, err
	}
	if _, err := io.WriteString(s.stdin, ". "+name+"\n"); err != nil {
		return ran, err
	}
	if err := s.out.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return ran, err
	}
	read := func() string {
		word, failed := s.words.ReadString(0)
		if failed != nil && err == nil {
			err = failed
		}
		return strings.ReplaceAll(strings.TrimSuffix(word, "\x00"), "\x01", "\n")
	}
	for status := range ran {
		for word := read(); word != "end" && err == nil; word = read() {
			r := record{Piped: word == "1"}
			n, bad := strconv.Atoi(read())
			if bad != nil {
				return ran, fmt.Errorf("not a record: %q", word)
			}
			for range n {
				r.Argv = append(r.Argv, read())
			}
			ran[status] = append(ran[status], r)
		}
	}
	s.ran++
	return ran, err
}

var (
	quotedPart = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	pieces     = regexp.MustCompile(`&&|\|\||[|;\n]|[^&|;\n]+`)
)

// pipelines returns the commands of an accepted line, by pipeline, and the operator before
// each pipeline. It finds the operators in another way than Split.
func pipelines(line string, l Line) (ops []string, list [][]record, err error) {
	commands := l.Commands
	if l.Dir != "" {
		commands = slices.Concat([]Command{{Argv: []string{"cd", l.Dir}}}, commands)
	}
	op, behind, n := ";", false, 0
	for _, piece := range pieces.FindAllString(quotedPart.ReplaceAllString(line, "Q"), -1) {
		switch {
		case strings.Contains("&& || ; \n", piece) && strings.TrimSpace(piece) != "" || piece == "\n" && behind:
			op, behind = piece, false
		case strings.TrimSpace(piece) != "" && n == len(commands):
			return nil, nil, fmt.Errorf("more than %d commands", n)
		case strings.TrimSpace(piece) != "":
			r := record{commands[n].Argv, op == "|"}
			if r.Piped != commands[n].Piped {
				return nil, nil, fmt.Errorf("command %d stands behind %q", n, op)
			}
			if r.Piped {
				list[len(list)-1] = append(list[len(list)-1], r)
			} else {
				ops, list = append(ops, op), append(list, []record{r})
			}
			behind = true
			n++
		}
	}
	if n != len(commands) {
		return nil, nil, fmt.Errorf("%d commands, and not %d", n, len(commands))
	}
	return ops, list, nil
}

// check compares what Split has found in a line with what the shell starts.
func (s *shell) check(t *testing.T, line string, l Line) {
	t.Helper()
	ops, list, err := pipelines(line, l)
	if err != nil {
		t.Fatalf("%q is split as %#v: %v", line, l, err)
	}
	kind := shells[s.kind]
	var names []string
	for _, r := range slices.Concat(list...) {
		name := r.Argv[0]
		if !kind.runs.MatchString(name) || kind.name == "dash" && name == "exit" {
			return
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(line) > 2000 {
		return // two commands of a pipeline write their records whole up to a bound
	}
	ran, err := s.run(line, names)
	if err != nil {
		t.Fatalf("%s ended or hung at %q: %v", kind.name, line, err)
	}
	for status, got := range ran {
		var want []record
		failed := 0
		for i, pipeline := range list {
			if ops[i] == "&&" && failed == 1 || ops[i] == "||" && failed == 0 {
				continue
			}
			failed = status
			want = append(want, pipeline...)
			from, to := len(want)-len(pipeline), min(len(want), len(got)) // they run side by side
			sortRecords(want[from:])
			sortRecords(got[min(from, to):to])
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s starts other commands for %q with status %d:\n%v\nSplit says:\n%v", kind.name, line, status, got, want)
		}
	}
}

func sortRecords(list []record) {
	slices.SortFunc(list, func(a, b record) int { return strings.Compare(a.String(), b.String()) })
}
