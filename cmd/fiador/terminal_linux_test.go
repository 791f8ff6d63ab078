package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fiador/fiador/harness/rehearsal"
)

// seat is a terminal at which the program is started: both of its outputs are the terminal.
type seat struct {
	dir     string
	columns uint16
	env     []string
	stdout  io.Writer // nil: the terminal
	stderr  io.Writer // nil: the terminal
}

// shows returns what the terminal shows of a command, and the exit status.
func (s seat) shows(t *testing.T, args ...string) (screen string, code int) {
	t.Helper()
	program, far := rehearsal.Terminal(t)
	if s.columns > 0 {
		rehearsal.Resize(t, program, s.columns)
	}
	cmd := command(t, args...)
	cmd.Dir, cmd.Env = s.dir, append([]string{"PATH=" + os.Getenv("PATH"), "TERM=xterm"}, s.env...)
	cmd.Stdout, cmd.Stderr = program, program
	if s.stdout != nil {
		cmd.Stdout = s.stdout
	}
	if s.stderr != nil {
		cmd.Stderr = s.stderr
	}
	screen, err := shown(t, cmd, program, far)
	return screen, status(t, err)
}

// progress is the line that a program on a slow machine shows meanwhile, up to where the program
// clears the line. Its text has no control characters.
var progress = regexp.MustCompile("(\r\x1b\\[K(\\PC|\x1b\\[[0-9;]*m)*)*\r\x1b\\[K")

// lasting returns what stays on a screen.
func lasting(screen string) string { return progress.ReplaceAllString(screen, "") }

var style = regexp.MustCompile("\x1b\\[[0-9;]*m")

// unstyled returns the text that stays on a screen.
func unstyled(screen string) string { return style.ReplaceAllString(lasting(screen), "") }

// document is a RunError or a RunResult.
var document = regexp.MustCompile(`(?m)^\{"(code|bundle)":`)

// words are the words of a screen, without styles, without the bars of a quotation and without
// the ends of a command that goes on.
func words(screen string) []string {
	return slices.DeleteFunc(strings.Fields(unstyled(screen)), func(w string) bool { return w == "|" || w == `\` })
}

// fits fails if a line of more than one word is wider than the screen.
func fits(t *testing.T, screen string, columns int) {
	t.Helper()
	for line := range strings.SplitSeq(unstyled(screen), "\n") {
		if n := utf8.RuneCountInString(line); n > columns && len(words(line)) > 1 {
			t.Errorf("%d columns of %d: %q", n, columns, line)
		}
	}
}

// terminalCase is a command that writes words.
type terminalCase struct {
	name string
	args []string
	code int
	some bool // a narrow terminal shows fewer words
}

// desk makes a folder with what the commands of terminalCases read.
func desk(t *testing.T) (string, []terminalCase) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "bundle.json", allowed)
	put(t, dir, "refuse.json", refused)
	put(t, dir, "clarify.json", `{"goal":"Deploy the service to <environment> as the runbook of the team says","constraints":["by noon"]}`)
	put(t, dir, "error.json", `{"gaol":"x","actions":7,"inputs":"a"}`)
	put(t, dir, "twice.json", `{"goal":"Write","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":"x"},{"kind":"write","path":"out/a","content":"y"}]}`)
	record := newLedger(t, dir)
	for _, name := range []string{"bundle", "refuse", "clarify"} {
		if out, _ := command(t, append([]string{"run", filepath.Join(dir, name+".json"), "--pack", filepath.Join(dir, "pack."+name)}, record...)...).Output(); len(out) == 0 {
			t.Fatal(name)
		} else {
			put(t, dir, name+".result", string(out))
		}
	}
	ledger := []string{"--ledger", record[1]}
	return dir, []terminalCase{
		{"run bundle", []string{"run", "bundle.json"}, 0, false},
		{"run clarify", []string{"run", "clarify.json"}, 1, false},
		{"run refuse", []string{"run", "refuse.json"}, 1, false},
		{"run error", []string{"run", "error.json"}, 2, false},
		{"run without a file", []string{"run", "no-such-folder/no-such-intent-of-anybody-in-this-place-at-all.json"}, 2, false},
		{"check", []string{"check", "bundle.json", "clarify.json", "refuse.json", "error.json"}, 2, false},
		{"explain intent", []string{"explain", "--intent", "refuse.json"}, 0, false},
		{"answer", []string{"answer", "twice.json"}, 0, false},
		{"help", []string{"check", "--help"}, 0, false},
		{"explain code", []string{"explain", "RUN_E003"}, 0, false},
		{"explain", []string{"explain"}, 0, false},
		{"policy show", []string{"policy", "show", "default"}, 0, false},
		{"policy diff", []string{"policy", "diff", "strict", "dev", "--intents", "refuse.json"}, 1, false},
		{"ledger list", append([]string{"ledger", "list"}, ledger...), 0, true},
		{"ledger show", append([]string{"ledger", "show", "2"}, ledger...), 0, false},
		{"ledger verify", append([]string{"ledger", "verify"}, ledger...), 0, false},
		{"verify", []string{"verify", "refuse.result", "clarify.result"}, 0, false},
		{"compare", []string{"compare", "refuse.result", "clarify.result"}, 1, false},
		{"pack show", []string{"pack", "show", "pack.refuse"}, 0, false},
		{"pack verify", []string{"pack", "verify", "pack.refuse", "pack.bundle"}, 0, false},
		{"usage", []string{"run", "bundle.json", "--mode", "act-as-if-nobody-looked"}, 2, false},
		{"no such command", []string{"runn"}, 2, false},
		{"unknown flag", []string{"check", "--polcy", "x"}, 2, false},
	}
}

// TestTerminalWidths: 40, 80 and 200 columns show the same words, and break none of them, so
// no hash and no path either. A dumb terminal and NO_COLOR get no escape.
func TestTerminalWidths(t *testing.T) {
	t.Parallel()
	dir, cases := desk(t)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var wide []string
			for _, columns := range []int{200, 80, 40} {
				screen, code := seat{dir: dir, columns: uint16(columns)}.shows(t, tc.args...)
				if code != tc.code {
					t.Errorf("exit status %d: %s", code, screen)
				}
				fits(t, screen, columns)
				if document.MatchString(screen) {
					t.Errorf("JSON on a terminal: %s", screen)
				}
				got := words(screen)
				if wide == nil {
					wide = got
				}
				if len(got) == 0 || !tc.some && !slices.Equal(got, wide) {
					t.Errorf("%d columns show the words\n%q\nand 200\n%q", columns, got, wide)
				}
				for _, w := range got {
					if !slices.Contains(wide, w) {
						t.Errorf("%d columns break a word into %q", columns, w)
					}
				}
			}
			for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
				if screen, _ := (seat{dir: dir, columns: 40, env: []string{env}}).shows(t, tc.args...); strings.Contains(lasting(screen), "\x1b") {
					t.Errorf("%s: %q", env, screen)
				}
			}
		})
	}
}

// TestTerminalMachine: the words about this machine keep to the width too, and so do those of
// a rejected execution and of a command that was refused.
func TestTerminalMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	put(t, b.work, "failed.json", `{"goal":"Fail","constraints":["now"],"actions":[{"kind":"run","argv":["sh","-c","echo one two three four five six seven eight nine ten >&2; exit 3"]}]}`)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"doctor"}, "network levels:"},
		{[]string{"sandbox", "explain"}, "clauses"},
		{[]string{"run", "failed.json", "--policy", "dev", "--mode", "execute-sandbox"}, "| one two three four"},
		{[]string{"exec", "--work", b.work, "--", "sh"}, "CMD_NOT_ALLOWED"},
		{[]string{"exec", "--policy", "dev", "--work", b.work, "--", "no-such-command"}, "NOT_FOUND"},
	} {
		var wide []string
		for _, columns := range []int{200, 80, 40} {
			screen, _ := seat{dir: b.work, columns: uint16(columns), env: []string{"HOME=" + b.home, "TMPDIR=" + b.temp, "NO_COLOR=1"}}.shows(t, tc.args...)
			if !strings.Contains(screen, tc.want) || document.MatchString(screen) {
				t.Errorf("%q is not shown, or JSON is:\n%s", tc.want, screen)
			}
			fits(t, screen, columns)
			if wide == nil {
				wide = words(screen)
			}
			if got := words(screen); !slices.Equal(got, wide) {
				t.Errorf("%q: %d columns show the words\n%q\nand 200\n%q", tc.args, columns, got, wide)
			}
		}
	}
	stdout, _, code := b.run(t, "run", "failed.json", "--policy", "dev", "--mode", "execute-sandbox", "--format", "agent")
	for _, want := range []string{`"execution":{"accepted":false,"exit_code":3,"output_bytes":0,"outputs":0,"stderr":["one two three four five six seven eight nine ten"]}`,
		`"id":"EXIT","level":"execution","text":"The command ended with an exit code other than 0: 3"}`, `"fix":"look at what the command printed`, `"outcome":"FAILED"`} {
		if code != 1 || !strings.Contains(stdout, want) {
			t.Errorf("exit status %d, no %s in %s", code, want, stdout)
		}
	}
	// A line that is written again needs escapes, which a dumb terminal cannot show.
	put(t, b.work, "slow.json", `{"goal":"Wait","constraints":["now"],"actions":[{"kind":"run","argv":["sleep","1.4"]}]}`)
	for term, want := range map[string]bool{"TERM=dumb": false, "TERM=xterm": true} {
		env := []string{"HOME=" + b.home, "TMPDIR=" + b.temp, term}
		screen, code := (seat{dir: b.work, env: env}).shows(t, "run", "slow.json", "--policy", "dev", "--mode", "execute-sandbox")
		for tries := 0; tries < 2 && code == 0 && want && !strings.Contains(screen, "\x1b"); tries++ { // a program that stands still misses the moment to write the line
			screen, code = (seat{dir: b.work, env: env}).shows(t, "run", "slow.json", "--policy", "dev", "--mode", "execute-sandbox")
		}
		if code != 0 || strings.Contains(screen, "\x1b") != want {
			t.Errorf("%s: exit status %d, %q", term, code, screen)
		}
	}
}

// TestTerminalHashes: a terminal shows the first digits of a hash, and all of them with
// --full. A pipe always gets all.
func TestTerminalHashes(t *testing.T) {
	t.Parallel()
	dir, _ := desk(t)
	whole := regexp.MustCompile(`sha256:[0-9a-f]{64}(\s|$)`)
	short := regexp.MustCompile(`sha256:[0-9a-f]{12}…`)
	for _, args := range [][]string{
		{"ledger", "show", "1", "--ledger", "gate"}, {"pack", "show", "pack.bundle"}, {"compare", "bundle.result", "bundle.result"},
	} {
		screen, _ := seat{dir: dir, columns: 40, env: []string{"NO_COLOR=1"}}.shows(t, args...)
		if !short.MatchString(screen) || whole.MatchString(screen) {
			t.Errorf("%q: %s", args, screen)
		}
		full, _ := seat{dir: dir, columns: 40, env: []string{"NO_COLOR=1"}}.shows(t, append(args, "--full")...)
		cmd := command(t, args...)
		cmd.Dir = dir
		piped, err := cmd.Output()
		if err != nil || !whole.MatchString(full) || short.MatchString(full) || !slices.Equal(words(full), words(string(piped))) {
			t.Errorf("%q --full: %s\npiped: %s (%v)", args, full, piped, err)
		}
	}
	if screen, _ := (seat{dir: dir, columns: 40}).shows(t, "digest", "bundle.result"); !whole.MatchString(strings.TrimSpace(screen)) {
		t.Errorf("a digest is not whole: %q", screen)
	}
}

// TestTerminalStreams: each stream is looked at by itself. What is no terminal gets what it
// always got, and an error is said once to each reader.
func TestTerminalStreams(t *testing.T) {
	t.Parallel()
	dir, _ := desk(t)
	for _, name := range []string{"bundle", "clarify", "refuse", "error"} {
		for _, cmd := range []string{"run", "check"} {
			args := []string{cmd, name + ".json"}
			piped := command(t, args...)
			piped.Dir = dir
			var wantOut, wantErr bytes.Buffer
			piped.Stdout, piped.Stderr = &wantOut, &wantErr
			want := status(t, piped.Run())

			var out, errs bytes.Buffer
			screen, code := seat{dir: dir, stdout: &out, env: []string{"NO_COLOR=1"}}.shows(t, args...)
			if code != want || apartFromRun(out.String()) != apartFromRun(wantOut.String()) || strings.Contains(screen, "{\"") {
				t.Errorf("%q, standard error a terminal: exit status %d, stdout %s, screen %s", args, code, out.String(), screen)
			}
			screen, code = seat{dir: dir, stderr: &errs, env: []string{"NO_COLOR=1"}}.shows(t, args...)
			if code != want || errs.String() != wantErr.String() && cmd == "run" || strings.Contains(screen, "{\"") || !strings.Contains(screen, strings.ToUpper(name)+"  "+name+".json") {
				t.Errorf("%q, standard output a terminal: exit status %d, stderr %s, screen %s", args, code, errs.String(), screen)
			}
			screen, code = seat{dir: dir, env: []string{"NO_COLOR=1"}}.shows(t, args...)
			if code != want || strings.Count(screen, name+".json") != 1 {
				t.Errorf("%q, all a terminal: exit status %d, %s", args, code, screen)
			}
			screen, code = seat{dir: dir, env: []string{"NO_COLOR=1"}}.shows(t, append(args, "--format", "json")...)
			_, screen, _ = strings.Cut(screen, "{")
			line, rest, _ := strings.Cut(screen, "\n")
			if line = "{" + line + "\n"; code != want || apartFromRun(line) != apartFromRun(wantOut.String()) && line != wantErr.String() && cmd == "run" || strings.Contains(rest, "{") {
				t.Errorf("%q --format json: exit status %d, %s", args, code, screen)
			}
		}
	}
	for _, args := range [][]string{{"run", "bundle.json", "--format", "human", "--color", "always"}, {"explain", "RUN_E003", "--color", "always"}} {
		cmd := command(t, args...)
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("\x1b[")) {
			t.Errorf("%q: %q (%v)", args, out, err)
		}
	}
}

// apartFromRun takes the id and the times of a run out of a RunResult.
func apartFromRun(text string) string {
	return regexp.MustCompile(`run_[0-9TZ]+_[0-9a-f]{16}|[0-9-]+T[0-9:.]+Z`).ReplaceAllString(text, "")
}

// TestTerminalColumns: COLUMNS comes before the width of the terminal. A terminal that says
// neither has 80 columns, and none has fewer than 20.
func TestTerminalColumns(t *testing.T) {
	t.Parallel()
	dir, _ := desk(t)
	widest := func(s seat) (most int) {
		s.dir, s.env = dir, append(s.env, "NO_COLOR=1")
		screen, _ := s.shows(t, "explain", "RUN_E003")
		for line := range strings.SplitSeq(screen, "\n") {
			if n := len(line); n > most && strings.Contains(strings.TrimSpace(line), " ") {
				most = n
			}
		}
		return most
	}
	for _, tc := range []struct {
		seat     seat
		low, top int
	}{
		{seat{}, 70, 80}, {seat{columns: 60}, 50, 60}, {seat{columns: 60, env: []string{"COLUMNS=100"}}, 90, 100},
		{seat{columns: 60, env: []string{"COLUMNS=wide"}}, 50, 60}, {seat{columns: 5}, 15, 20}, {seat{env: []string{"COLUMNS=1"}}, 15, 20},
	} {
		if n := widest(tc.seat); n < tc.low || n > tc.top {
			t.Errorf("%+v: the widest line has %d columns, want %d to %d", tc.seat, n, tc.low, tc.top)
		}
	}
}
