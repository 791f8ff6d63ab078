package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
)

var updateDocs = flag.Bool("update-pages", false, "write what the commands of the pages print into the pages")

// TestPagesRun runs every command of these pages, in order, with one sh in an empty
// folder. Each prints the output that the page shows. The page on comparison needs
// programs that the benchmark installs.
func TestPagesRun(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, name := range []string{
		"docs/writing-a-policy.md", "docs/gating.md", "docs/comparison.md", "docs/executing.md", "docs/auditing.md", "docs/packs.md", "docs/logging.md", "docs/tools.md", "docs/agents.md", "docs/work-items.md", "docs/suites.md", "docs/comparing.md", "specs/safe-run.md",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			var path []string
			switch name {
			case "docs/gating.md":
				needPrograms(t, "git")
			case "docs/comparison.md":
				needTools(t, "opa", "conftest")
			case "docs/executing.md":
				needSandbox(t, "node")
			case "docs/packs.md":
				needSandbox(t, "node")
				needPrograms(t, "jq", "sha256sum", "base64", "openssl", "cmp")
			case "docs/tools.md":
				needSandbox(t, "wc", "python3")
				needPrograms(t, "jq", "sed")
			case "docs/agents.md":
				needSandbox(t, "ls", "cat")
				needPrograms(t, "jq", "base64", "python3", "node")
			case "docs/work-items.md":
				needSandbox(t, "sh", "grep", "sort")
				needPrograms(t, "jq")
			case "docs/suites.md":
				needSandbox(t, "python3")
				needPrograms(t, "jq", "node", "curl")
			case "docs/comparing.md":
				needSandbox(t, "python3")
				needPrograms(t, "jq", "sed")
			case "docs/auditing.md":
				needPrograms(t, "jq", "sha256sum", "base64", "sed")
			case "docs/logging.md", "specs/safe-run.md":
				path = needSafeRun(t)
			}
			file := filepath.Join(root, name)
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := runPage(t, string(src), path...)
			if *updateDocs {
				if err := os.WriteFile(file, []byte(p.updated()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, fault := range p.faults() {
				t.Errorf("%s:%s", name, fault)
			}
			if len(p.steps) < 10 {
				t.Errorf("%s: only %d commands found", name, len(p.steps))
			}
		})
	}
}

// tools is the folder in which the benchmark installs the compared programs.
var tools = filepath.Join(root, "bench", "bin")

func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(tools, name)); err != nil {
			t.Skipf("%s is not in bench/bin; the benchmark installs it", name)
		}
	}
}

func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// needSandbox skips the test where the full or the confined sandbox is missing, or where a
// command is in no folder that a sandbox shows.
func needSandbox(t *testing.T, commands ...string) {
	t.Helper()
	temp := t.TempDir()
	// Root's confined commands run as another user, and their copies lie here.
	if err := os.Chmod(filepath.Dir(temp), 0o755); err != nil {
		t.Fatal(err)
	}
	host := sandbox.NewHost(temp)
	defer host.Close()
	probes := host.Probe(t.Context())
	if len(probes) == 0 {
		t.Skip("nothing is executed on this system")
	}
	for _, p := range probes {
		if p.Err != nil {
			t.Skip(p.Err)
		}
	}
	for _, name := range commands {
		there := func(dir string) bool {
			info, err := os.Stat(filepath.Join(dir, name))
			return err == nil && info.Mode().IsRegular()
		}
		if !slices.ContainsFunc([]string{"/usr/local/bin", "/usr/bin", "/bin"}, there) {
			t.Skipf("%s is not installed where a sandbox finds it", name)
		}
	}
}

// TestSuitesPageShowsExamples: the page on suites shows the files of examples/suite.
func TestSuitesPageShowsExamples(t *testing.T) {
	t.Parallel()
	text := pages(t, "docs/suites.md")["docs/suites.md"]
	examples := filepath.Join(root, "examples", "suite")
	files, err := os.ReadDir(examples)
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(examples, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "\ncat >shop/"+f.Name()+" <<'END'\n"+string(b)+"END\n") {
			t.Errorf("docs/suites.md does not show examples/suite/%s as it is", f.Name())
		}
	}
}

// TestStalePage: a page whose output differs from that of its commands is found, with the
// line of the command.
func TestStalePage(t *testing.T) {
	t.Parallel()
	block := func(lang, text string) string { return "# Page\n\n```" + lang + "\n" + text + "```\n" }
	for _, c := range []struct{ page, fault string }{
		{block("console", "$ echo a\na\n$ echo b\nb\n"), ""},
		{block("console", "$ echo a\nb\n"), "4: "},
		{block("console", "$ echo a\n"), "4: "},
		{block("console", "$ echo a\na\n\n"), "4: "},
		{block("console", "$ printf a\na\n"), "4: "},
		{block("console", "$ true\na\n"), "4: "},
		{block("console", "$ echo a >&2\na\n"), ""},
		{block("console", "$ echo a \\\n    b\na b\n"), ""},
		{block("console", "$ echo bundle_0123456789abcdef\nbundle_<id>\n"), ""},
		{block("console", "$ echo bundle_0123456789abcde\nbundle_<id>\n"), "4: "},
		{block("console", "$ false\n"), "4: "},
		{block("console", "$ false\n$ echo $?\n1\n"), ""},
		{block("console", "$ false\n$ echo $?\n0\n"), "5: "},
		{block("console", "$ fiador nothing 2>/dev/null\n$ echo $?\n2\n"), ""},
		{block("console", "$ fi\n"), "4: "},
		{block("console", "$ exit\n$ echo a\na\n"), "4: "},
		{block("sh", "cat >f <<'END'\n$HOME\nEND\n") + block("console", "$ cat f\n$HOME\n"), ""},
		{block("sh", "echo a\n"), "4: "},
		{block("sh", "false\n"), "4: "},
		{block("yaml", "a: b\n"), ""},
	} {
		p := runPage(t, c.page)
		faults := strings.Join(p.faults(), "\n")
		if c.fault == "" && faults != "" || !strings.HasPrefix(faults, c.fault) {
			t.Errorf("page %q: %q instead of %q", c.page, faults, c.fault)
		}
		if p = runPage(t, p.updated()); len(p.faults()) > 0 && strings.Contains(c.page, "echo a\nb") {
			t.Errorf("updated page %q: %q", c.page, p.faults())
		}
	}
}

// step is one command of a page, or a block of commands without shown output.
type step struct {
	line   int // line of the command, from 1 on
	code   string
	from   int // the lines of the page with the shown output are from..to-1, from 0 on
	to     int
	ran    bool
	output string
	status string
}

// page is a page with the results of its commands.
type page struct {
	lines []string
	steps []step
}

// parsePage finds the commands of a page. A block marked sh is run unchanged, ends with
// status 0 and prints nothing. In a block marked console, a line that begins with "$ " is
// a command. It continues while lines end with a backslash. The lines after it are its
// output on both streams. A following echo $? shows a status other than 0.
func parsePage(src string) page {
	p := page{lines: strings.Split(src, "\n")}
	for i := 0; i < len(p.lines); i++ {
		lang, ok := strings.CutPrefix(p.lines[i], "```")
		if !ok {
			continue
		}
		end := i + 1
		for end < len(p.lines) && p.lines[end] != "```" {
			end++
		}
		switch lang {
		case "sh":
			p.steps = append(p.steps, step{line: i + 2, code: strings.Join(p.lines[i+1:end], "\n"), from: end, to: end})
		case "console":
			p.console(i+1, end)
		}
		i = end
	}
	return p
}

func (p *page) console(from, end int) {
	for i := from; i < end; i++ {
		code, ok := strings.CutPrefix(p.lines[i], "$ ")
		if !ok {
			p.steps[len(p.steps)-1].to = i + 1
			continue
		}
		s := step{line: i + 1, code: code}
		for ; strings.HasSuffix(p.lines[i], `\`) && i+1 < end; i++ {
			s.code += "\n" + p.lines[i+1]
		}
		s.from, s.to = i+1, i+1
		p.steps = append(p.steps, s)
	}
}

// pageRun is how the commands of a page run. The streams are pipes, or both the terminal that
// terminal opens: it returns the program's side and the far side.
type pageRun struct {
	path     []string         // more folders of PATH
	prepare  func(dir string) // fills the folder; nil: it is empty
	terminal func(t testing.TB) (program, far *os.File)
}

// runPage runs the commands of a page in an empty folder, with more folders in PATH.
func runPage(t *testing.T, src string, more ...string) page {
	t.Helper()
	return runSteps(t, src, pageRun{path: more})
}

// runSteps runs the commands of a page with one sh.
func runSteps(t *testing.T, src string, how pageRun) page {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	p := parsePage(src)
	var script strings.Builder
	for _, s := range p.steps {
		// The end of a step keeps $? for an echo that follows.
		script.WriteString(s.code + "\n" + `status=$?; printf '\036%s\036' "$status"; (exit "$status")` + "\n")
	}
	dir := t.TempDir()
	// Root's confined commands run as another user, and their copy lies below.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	file := filepath.Join(dir, "script")
	if err := errors.Join(os.Mkdir(work, 0o755), os.WriteFile(file, []byte(script.String()), 0o644)); err != nil {
		t.Fatal(err)
	}
	if how.prepare != nil {
		how.prepare(work)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, sh, file)
	cmd.Dir = work
	path, err := filepath.Abs(tools)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(src, notesPort) {
		defer takeTurn(t)()
	}
	path = strings.Join(append(how.path, os.Getenv("PATH"), path), string(filepath.ListSeparator))
	cmd.Env = rehearsal.Env("PATH="+path, "HOME="+dir, "TMPDIR="+dir, "LC_ALL=C", "TERM=dumb", "NO_COLOR=1")
	parts := strings.Split(how.output(t, cmd), "\036")
	for i := range p.steps {
		s := &p.steps[i]
		if s.ran = len(parts) > 2; s.ran {
			s.output, s.status, parts = parts[0], parts[1], parts[2:]
		} else {
			s.output, parts = strings.Join(parts, ""), nil
		}
	}
	return p
}

// notesPort is the port of the service in docs/tools.md.
const notesPort = "18765"

// takeTurn waits until no other process runs the page with that service: the witness runs the
// same pages beside the tests. The process that listens on the port below has the turn, until it
// calls the returned function.
func takeTurn(t *testing.T) (end func()) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		l, err := net.Listen("tcp", "127.0.0.1:18764")
		if err == nil {
			return func() { _ = l.Close() }
		}
		if time.Since(began) > 10*time.Minute {
			t.Fatal(err)
		}
	}
}

// output runs a command and returns both streams, joined.
func (how pageRun) output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var failed *exec.ExitError
	if how.terminal == nil {
		out, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return string(out)
	}
	program, far := how.terminal(t)
	cmd.Stdout, cmd.Stderr = program, program
	screen, err := shown(t, cmd, program, far)
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return screen
}

// shown runs a command with a stream on the terminal that has these two sides. It returns what
// the terminal shows, and how the command ended.
func shown(t *testing.T, cmd *exec.Cmd, program, far *os.File) (screen string, err error) {
	t.Helper()
	return watched(t, cmd, program, far, func(*rehearsal.Buffer) {})
}

// watched is shown, and meanwhile may look at what the terminal shows so far.
func watched(t *testing.T, cmd *exec.Cmd, program, far *os.File, meanwhile func(screen *rehearsal.Buffer)) (screen string, err error) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	seen, done := new(rehearsal.Buffer), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(seen, far) // ends in EIO when the program is gone
	}()
	meanwhile(seen)
	err = cmd.Wait()
	<-done
	return strings.ReplaceAll(seen.String(), "\r\n", "\n"), err
}

// faults lists where the page differs from the output of its commands.
func (p page) faults() []string {
	var list []string
	for i, s := range p.steps {
		fail := func(format string, args ...any) {
			list = append(list, fmt.Sprintf("%d: %s: ", s.line, strings.SplitN(s.code, "\n", 2)[0])+fmt.Sprintf(format, args...))
		}
		shown := strings.Join(p.lines[s.from:s.to], "\n")
		if s.to > s.from {
			shown += "\n"
		}
		switch {
		case !s.ran:
			fail("the shell ended here: %s", s.output)
			return list
		case !pattern(shown).MatchString(s.output):
			fail("the page shows\n%s\nand the command prints\n%s", shown, s.output)
		case s.status != "0" && (i+1 == len(p.steps) || p.steps[i+1].code != "echo $?"):
			fail("status %s, and no echo $? follows that shows it", s.status)
		}
	}
	return list
}

// placeholders are the texts that a page shows for output that differs between versions or
// runs.
var placeholders = []struct{ name, text string }{
	{"safe-run-<date>-<id>.log", `safe-run-\d{8}-\d{6}-[0-9a-f]{8}\.log`},
	{"sha256:<hash>", `sha256:[0-9a-f]{64}\b`},
	{"_<id>", `_[0-9a-f]{16}\b`},
	{"<root>", `[A-Za-z0-9+/]{43}=`},
	{"<time>", `\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`},
}

// pattern returns a pattern that matches exactly the shown text.
func pattern(shown string) *regexp.Regexp {
	expr := regexp.QuoteMeta(shown)
	for _, p := range placeholders {
		expr = strings.ReplaceAll(expr, regexp.QuoteMeta(p.name), p.text)
	}
	return regexp.MustCompile("^" + expr + "$")
}

// updated returns the page with the output of its commands.
func (p page) updated() string {
	lines := slices.Clone(p.lines)
	for _, s := range slices.Backward(p.steps) {
		if !s.ran || pattern(strings.Join(append(p.lines[s.from:s.to:s.to], ""), "\n")).MatchString(s.output) {
			continue
		}
		text := s.output
		for _, h := range placeholders {
			text = regexp.MustCompile(h.text).ReplaceAllString(text, h.name)
		}
		var printed []string
		if text != "" {
			printed = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
		lines = slices.Replace(lines, s.from, s.to, printed...)
	}
	return strings.Join(lines, "\n")
}

// pages reads the Markdown files that match the patterns, by name.
func pages(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, p := range patterns {
		names, err := filepath.Glob(filepath.Join(root, p))
		if err != nil || len(names) == 0 {
			t.Fatalf("no page matches %s: %v", p, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			got[filepath.ToSlash(rel)] = string(b)
		}
	}
	return got
}

// TestPagesLinkToSomething: a relative link of a page leads to a file or folder of the
// repository. If the link names a heading, the file has that heading.
func TestPagesLinkToSomething(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	seen := 0
	for name, src := range pages(t, "README.md", "docs/*.md", "specs/*.md") {
		_, prose := split(src)
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1]
			if regexp.MustCompile(`^[a-z]+:`).MatchString(target) {
				continue
			}
			seen++
			file, anchor, _ := strings.Cut(target, "#")
			file = filepath.Join(root, filepath.Dir(name), filepath.FromSlash(file))
			if target[0] == '#' {
				file = filepath.Join(root, name)
			}
			info, err := os.Stat(file)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(anchors(string(b)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d links found", seen)
	}
}

// anchors returns the link names of the headings of a page.
func anchors(src string) []string {
	var list []string
	_, prose := split(src)
	for line := range strings.Lines(prose) {
		text := strings.TrimLeft(line, "#")
		if text == line || !strings.HasPrefix(text, " ") {
			continue
		}
		text = strings.ToLower(strings.TrimSpace(text))
		text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, "")
		list = append(list, strings.ReplaceAll(text, " ", "-"))
	}
	return list
}

// split divides a page into the text of fenced blocks and the other text.
func split(src string) (blocks, prose string) {
	var in, out strings.Builder
	fenced := false
	for line := range strings.Lines(src) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced:
			in.WriteString(line)
		default:
			out.WriteString(line)
		}
	}
	return in.String(), out.String()
}

// TestPagesNameWhatExists: every fiador command and flag in the code of a page exists.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	top := cli.Root(&cli.App{}, commands(&cli.App{})...)
	top.InitDefaultHelpCmd()
	all := map[string]bool{}
	everyFlag(top, all)
	span := regexp.MustCompile("`[^`]+`")
	seen := 0
	server, err := os.ReadFile("../fiador-ledgerd/main.go") // its usage names its flags
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range pages(t, "README.md", "docs/*.md") {
		blocks, prose := split(src)
		code := strings.ReplaceAll(blocks, "\\\n", " ")
		prose = strings.ReplaceAll(prose, `\|`, "|") // in a table
		for _, s := range span.FindAllString(prose, -1) {
			s = strings.Trim(s, "`")
			code += s + "\n"
			// The comparison names flags of other programs too.
			if words := strings.Fields(s); strings.HasPrefix(s, "--") && s != "--" && name != "docs/comparison.md" && !all[flagName(words[0])] &&
				(name != "docs/shared-ledger.md" || !bytes.Contains(server, []byte(words[0]+" ")) && !bytes.Contains(server, []byte(words[0]+"]"))) {
				t.Errorf("%s: no command has the flag %s", name, words[0])
			}
		}
		for line := range strings.Lines(code) {
			for _, words := range calls(line) {
				seen++
				if err := checkCall(top, words); err != nil {
					t.Errorf("%s: fiador %s: %v", name, strings.Join(words, " "), err)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d calls found", seen)
	}
}

func everyFlag(cmd *cobra.Command, all map[string]bool) {
	cmd.InitDefaultHelpFlag()
	for usage := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
		for _, m := range regexp.MustCompile(`^ +(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(usage, -1) {
			all[m[1]] = true
		}
	}
	for _, sub := range cmd.Commands() {
		everyFlag(sub, all)
	}
}

func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	return name
}

// calls returns the words after each "fiador" of a line of code, up to the end of that
// shell command.
func calls(line string) [][]string {
	var list [][]string
	for _, at := range regexp.MustCompile(`(?:^|[\s("'/])fiador `).FindAllStringIndex(line, -1) {
		rest := line[at[1]:]
		if end := strings.IndexAny(rest, "|;&<>#()`\n"); end >= 0 {
			rest = rest[:end]
		}
		list = append(list, strings.Fields(rest))
	}
	return list
}

// checkCall returns what is wrong with a call of fiador.
func checkCall(cmd *cobra.Command, words []string) error {
	named := false // the command is complete, and the next words are its arguments
	for _, word := range words {
		if word == "--" {
			return nil // the next words belong to another program
		}
		if strings.HasPrefix(word, "-") && len(word) > 1 {
			cmd.InitDefaultHelpFlag()
			name, short := flagName(word), strings.TrimPrefix(word, "-")
			known := cmd.Flag(name) != nil
			if !strings.HasPrefix(word, "--") {
				known = len(short) == 1 && cmd.Flags().ShorthandLookup(short) != nil
			}
			if !known {
				return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), word)
			}
			continue
		}
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
		switch {
		case named:
		case i >= 0:
			cmd = cmd.Commands()[i]
		case cmd.HasAvailableSubCommands() && word != strings.ToUpper(word) && !slices.Contains(cmd.ValidArgs, word):
			return fmt.Errorf("%s has no command %s", cmd.CommandPath(), word)
		default:
			named = true
		}
	}
	return nil
}

// TestPagesAreChecked: the tests of pages find the faults that they look for.
func TestPagesAreChecked(t *testing.T) {
	t.Parallel()
	top := cli.Root(&cli.App{}, commands(&cli.App{})...)
	top.InitDefaultHelpCmd()
	for line, good := range map[string]bool{
		"fiador run intent.json --policy strict --bundle b.json >r.json":   true,
		"$ fiador policy test acme --coverage && fiador chek x":            false,
		"go run ./cmd/fiador demo   # three intents":                       true,
		"fiador policy test acme -v --run friday":                          true,
		"fiador policy test acme -x":                                       false,
		"fiador check intents --bundle b":                                  false,
		"fiador check intents --report=junit=j.xml | fiador verify -":      true,
		"fiador policy chek acme":                                          false,
		"fiador help run":                                                  true,
		"fiador hook codex --reads":                                        true,
		"fiador hook codx --reads":                                         false,
		"fiador exec --policy dev -- sh -c --no-flag":                      true,
		"fiador exec --polcy dev -- sh":                                    false,
		"fiador COMMAND --color never":                                     true,
		"status=0; fiador check - --formt json":                            false,
		"fiador: 1 intent: 1 BUNDLE; and fiador-check, github.com/fiador/": true,
	} {
		err := error(nil)
		for _, words := range calls(line) {
			err = errors.Join(err, checkCall(top, words))
		}
		if (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
	if got := anchors("# One, two\n\n```\n# no\n```\n\n### A `b` c_d\n"); !slices.Equal(got, []string{"one-two", "a-b-c_d"}) {
		t.Errorf("anchors %q", got)
	}
	blocks, prose := split("a\n```sh\nb\n```\nc\n")
	if blocks != "b\n" || prose != "a\nc\n" || bytes.ContainsRune([]byte(prose), '`') {
		t.Errorf("blocks %q, prose %q", blocks, prose)
	}
}
