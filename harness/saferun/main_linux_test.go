package saferun_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/saferun"
)

const (
	roleName = "SAFERUN_TEST_ROLE"
	race     = "GORACE=atexit_sleep_ms=0" // otherwise a role under the race detector ends a second later
	hang     = 2 * time.Minute            // no step of a test takes that long
	path     = "PATH=/usr/local/bin:/usr/bin:/bin"
)

// TestMain lets the test binary stand in for safe-run, or for a command, when it is
// started with a role. The programs that it starts do not see the role.
func TestMain(m *testing.M) {
	role := os.Getenv(roleName)
	os.Unsetenv(roleName)
	if role != "" {
		os.Unsetenv("GORACE")
	}
	switch role {
	case "":
		prepare()
		os.Exit(rehearsal.Tests{M: m}.Run())
	case "safe-run": // as cmd/safe-run does it
		exit(saferun.Run(os.Args[1:], saferun.System{
			Stdin:   os.Stdin,
			Stdout:  os.Stdout,
			Stderr:  os.Stderr,
			Env:     os.Environ(),
			Signals: saferun.Notify(),
			Now:     time.Now,
			Rand:    rand.Reader,
		}))
	default:
		exit(play(role, os.Args[1:]))
	}
}

// exit ends the process. It prevents the message on standard error about coverage that the
// role did not collect.
func exit(code int) {
	if testing.CoverMode() != "" {
		syscall.Exit(code)
	}
	os.Exit(code)
}

// prepare undoes inherited settings of the test process that a command would inherit too.
func prepare() {
	for fd := 3; fd < 1024; fd++ {
		syscall.CloseOnExec(fd)
	}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} { // the others are never ignored here
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // no core files among the logs
}

// play performs a role of the test binary as a command. It returns the exit status.
func play(role string, args []string) int {
	switch role {
	case "leave": // leaves a process that holds both outputs, in this session or in another
		return leave("linger", args[0] == "other session")
	case "linger": // the process that leave starts; it has written when descriptor 3 is closed
		fmt.Println(os.Getpid())
		fmt.Fprintln(os.Stderr, "lingers")
		os.NewFile(3, "").Close()
		time.Sleep(hang)
	case "in the background": // runs safe-run with these arguments in the background of this terminal
		return inBackground(args)
	case "hand over": // ends at SIGINT, and leaves a process that ends at SIGINT later
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		if code := leave("last words", false); code != 0 {
			return code
		}
		fmt.Println("ready")
		<-interrupted
		return 3
	case "last words": // the process that hand over leaves
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		os.NewFile(3, "").Close()
		<-interrupted
		time.Sleep(200 * time.Millisecond)
		fmt.Println("last words")
	case "busy": // writes so many lines to each stream, both at once
		return busy(args[0])
	case "nonblocking": // makes its input non-blocking, and writes so many bytes
		return nonblocking(args[0])
	default:
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		return 1
	}
	return 0
}

// options are the settings of a run of safe-run. The zero value is a new current folder,
// an empty standard input, and an environment with PATH alone.
type options struct {
	dir            string     // the current folder; "": a new one
	env            []string   // besides PATH
	under          []string   // the words before safe-run, such as "nohup"
	stdin          io.Reader  // nil: /dev/null; an *os.File is handed on as it is
	stdout, stderr *os.File   // nil: the result has them
	extra          []*os.File // descriptors 3 and up
	attr           *syscall.SysProcAttr
}

// tool is a running safe-run.
type tool struct {
	t              *testing.T
	cmd            *exec.Cmd
	o              options
	stdout, stderr rehearsal.Buffer
}

// result is how a run of safe-run ended.
type result struct {
	options               // with dir filled in
	code           int    // the exit status; -1: a signal has ended safe-run itself
	stdout, stderr string // its own messages included; empty when options have them
}

// start starts safe-run with these arguments.
func start(t *testing.T, o options, args ...string) *tool {
	t.Helper()
	return prepared(t, o, append([]string{self(t)}, args...), roleName+"=safe-run", race).start()
}

// prepared is a command, safe-run or another, with options.
func prepared(t *testing.T, o options, argv []string, env ...string) *tool {
	t.Helper()
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	words := append(slices.Clone(o.under), argv...)
	p := &tool{t: t, o: o, cmd: exec.Command(words[0], words[1:]...)}
	p.cmd.Dir, p.cmd.Stdin, p.cmd.ExtraFiles, p.cmd.SysProcAttr = o.dir, o.stdin, o.extra, o.attr
	if p.cmd.Env = append(env, o.env...); !hasPath(o.env) {
		p.cmd.Env = append(p.cmd.Env, path)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if o.stdout != nil {
		p.cmd.Stdout = o.stdout
	}
	if o.stderr != nil {
		p.cmd.Stderr = o.stderr
	}
	return p
}

func hasPath(env []string) bool {
	return slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "PATH=") })
}

func (p *tool) start() *tool {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// run is start and wait.
func run(t *testing.T, o options, args ...string) result {
	t.Helper()
	return start(t, o, args...).wait()
}

// wait waits for the end. It fails the test when safe-run hangs, and shows where.
func (p *tool) wait() result {
	p.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(hang):
		p.cmd.Process.Signal(syscall.SIGABRT)
		time.Sleep(time.Second)
		p.cmd.Process.Kill()
		p.t.Fatalf("safe-run hangs\n%s", p.stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Errorf("waiting for safe-run: %v", err)
	}
	return result{options: p.o, code: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String()}
}

// signal sends a signal to safe-run alone.
func (p *tool) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Error(err)
	}
}

// await waits until standard output has a text, and returns the output so far.
func (p *tool) await(text string) string {
	p.t.Helper()
	return p.awaitIn(&p.stdout, text)
}

func (p *tool) awaitIn(o *rehearsal.Buffer, text string) string {
	p.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if s := o.String(); strings.Contains(s, text) {
			return s
		}
	}
	p.cmd.Process.Kill()
	p.t.Fatalf("there is no %q: %q, %q", text, p.stdout.String(), p.stderr.String())
	panic("not reached")
}

// The words that begin the notes of a log which a slow machine can bring about: safe-run gives a
// command five seconds after a signal, and closes streams that are held for two seconds.
const (
	overstayed = "safe-run killed: after=5s"
	held       = "safe-run output held: "
)

// patience repeats runs of one test. All its rounds together repeat few: a fault that a slow
// machine brings about can be the one that the rounds look for.
type patience struct{ repeats int }

// again runs a case until it returns no fault.
func (p *patience) again(t *testing.T, run func() (fault string)) {
	t.Helper()
	for {
		fault := run()
		if fault == "" {
			return
		}
		if p.repeats++; p.repeats > 3 {
			t.Fatalf("%d runs of this test have failed, at last: %s", p.repeats, fault)
		}
		t.Logf("a run failed, and a slow machine may be why; it is repeated: %s", fault)
	}
}

// prompt runs a case again if its log has a note that begins so.
func (p *patience) prompt(t *testing.T, note string, run func() result) (r result) {
	t.Helper()
	p.again(t, func() string {
		r = run()
		if notes := r.log(t).Notes(); slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, note) }) {
			return fmt.Sprintf("%q", notes)
		}
		return ""
	})
	return r
}

// prompt is that of a test which has one case.
func prompt(t *testing.T, note string, run func() result) result {
	t.Helper()
	return new(patience).prompt(t, note, run)
}

// succeeded fails the test unless the exit status is 0, no file was left in the current
// folder, and standard error is empty.
func (r result) succeeded(t *testing.T) {
	t.Helper()
	if r.code != 0 || strings.Contains(r.stderr, "safe-run:") {
		t.Errorf("exit status %d, want 0; standard error %q", r.code, shortened(r.stderr))
	}
	list, err := os.ReadDir(r.dir)
	if err != nil || len(list) > 0 {
		t.Errorf("%v was left, %v", list, err)
	}
}

// failed fails the test unless the exit status is code and there is one log. That log must
// have the code, these notes, and the caller's copy of both streams. The one line of
// safe-run on standard error must name the log, and must begin a new line.
func (r result) failed(t *testing.T, code int, notes ...string) *logFile {
	t.Helper()
	l := r.log(t)
	if r.code != code || l.Code() != code {
		t.Errorf("exit status %d and %d in the log, want %d", r.code, l.Code(), code)
	}
	if !slices.Equal(l.Notes(), notes) {
		t.Errorf("notes %q, want %q", l.Notes(), notes)
	}
	if r.options.stdout == nil && r.stdout != l.stdout {
		t.Errorf("standard output %q, in the log %q", shortened(r.stdout), shortened(l.stdout))
	}
	interrupted := ""
	for _, n := range notes {
		if s, ok := strings.CutPrefix(n, "safe-run interrupted: signal="); ok {
			interrupted = "interrupted by " + s + ", "
		}
	}
	name, err := filepath.Rel(r.dir, l.path)
	if err != nil {
		t.Error(err)
	}
	fresh := ""
	if l.stderr != "" && !strings.HasSuffix(l.stderr, "\n") {
		fresh = "\n"
	}
	want := l.stderr + fresh + r.notStarted(notes) + fmt.Sprintf("safe-run: %sexit code %d, log %q\n", interrupted, code, name)
	if r.options.stderr == nil && r.stderr != want {
		t.Errorf("standard error %q, want %q", shortened(r.stderr), shortened(want))
	}
	return l
}

// notStarted is the line on standard error that says why the command was not started.
func (r result) notStarted(notes []string) string {
	said := map[string]string{"safe-run not found: ": " not found: ", "safe-run not executable: ": " cannot be executed: "}
	for note, words := range said {
		if len(notes) == 0 || !strings.HasPrefix(notes[0], note) {
			continue
		}
		line, _, _ := strings.Cut(r.stderr, "\n")
		if strings.HasPrefix(line, `safe-run: command "`) && strings.HasSuffix(line, words+strings.TrimPrefix(notes[0], note)) {
			return line + "\n"
		}
		return "why"
	}
	return ""
}

// log is the one log that a run has left in the default folder.
func (r result) log(t *testing.T) *logFile {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(r.dir, ".agent/FAIL-LOGS/*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d logs %q, %v; exit status %d, standard error %q", len(list), list, err, r.code, shortened(r.stderr))
	}
	return openLog(t, list[0])
}

// logFile is a log in the ledger view, with both sections.
type logFile struct {
	*transcript.Log
	path           string
	stdout, stderr string
}

// openLog reads a log strictly: numbers, order and sections agree.
func openLog(t *testing.T, path string) *logFile {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &logFile{path: path}
	if l.Log, err = transcript.Open(bytes.NewReader(text), int64(len(text))); err != nil {
		t.Fatalf("%v in\n%s", err, shortened(string(text)))
	}
	for _, s := range []struct {
		to   *string
		from io.Reader
	}{{&l.stdout, l.Stdout()}, {&l.stderr, l.Stderr()}} {
		b, err := io.ReadAll(s.from)
		if err != nil {
			t.Fatal(err)
		}
		*s.to = string(b)
	}
	return l
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// as returns the argv that starts the test binary in a role of play.
func as(t *testing.T, role string, args ...string) []string {
	t.Helper()
	return append([]string{"env", roleName + "=" + role, race, self(t)}, args...)
}

func sh(script string, args ...string) []string {
	return append([]string{"sh", "-c", script, "sh"}, args...)
}

// signalled sends a signal to the process whose id a command has printed.
func signalled(t *testing.T, pid string, sig syscall.Signal) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err == nil {
		err = syscall.Kill(n, sig)
	}
	if err != nil {
		t.Errorf("process %q: %v", pid, err)
	}
}

func killed(t *testing.T, pid string) {
	t.Helper()
	signalled(t, pid, syscall.SIGKILL)
}

// gone reports whether a process has ended, reaped or not.
func gone(pid string) bool {
	for end := time.Now().Add(hang / 4); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		if err != nil || strings.HasPrefix(string(b[bytes.LastIndexByte(b, ')')+1:]), " Z") {
			return true
		}
	}
	return false
}

func shortened(s string) string {
	if len(s) <= 2000 {
		return s
	}
	return s[:1000] + fmt.Sprintf("... %d bytes ...", len(s)-2000) + s[len(s)-1000:]
}
