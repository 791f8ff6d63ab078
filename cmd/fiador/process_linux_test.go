package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

const (
	allowed = `{"goal":"Write","constraints":["short"],"actions":[{"kind":"write","path":"out/a","content":"x"}]}`
	refused = `{"goal":"Fetch","constraints":["fast"],"actions":[{"kind":"write","path":"out/a","content":""},{"kind":"run","argv":["curl","example.com"]}]}`
)

// command is the program as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("fiador")
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, args...)
}

func status(t *testing.T, err error) int {
	t.Helper()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		return ee.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// executable writes a program or a script that is started afterwards. Another process writes it:
// what this one has open for writing, a fork for another test has open too, and until that one
// starts its program the file cannot be started (ETXTBSY).
func executable(t *testing.T, path string, content io.Reader) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `cat >"$0" && chmod 755 "$0"`, path)
	cmd.Stdin = content
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

// installed writes a copy of the program, which a user may not find by its path.
func installed(t *testing.T, path string) string {
	t.Helper()
	self, err := os.Open(command(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	return executable(t, path, self)
}

// TestStdoutThatCannotBeWritten: an answer that cannot be written is exit status 2,
// whatever the decision is.
func TestStdoutThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	intent := put(t, t.TempDir(), "intent.json", allowed)
	stdouts := map[string]func(t *testing.T) *os.File{
		"full disk": func(t *testing.T) *os.File {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skipf("no full device here: %v", err)
			}
			return f
		},
		"closed pipe": func(t *testing.T) *os.File {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			return w
		},
		"read only": func(t *testing.T) *os.File {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	}
	for name, open := range stdouts {
		for _, args := range [][]string{{"run", intent}, {"version"}, {"schema", "intent"}, {"demo"}, {"help"}, {"check", intent}, {"check", intent, "--format", "sarif"}, {"explain"}, {"policy", "show"}, {"run", "--help"}, {"completion", "bash"}} {
			t.Run(name+"/"+strings.Join(args, " "), func(t *testing.T) {
				f := open(t)
				defer f.Close()
				cmd := command(t, args...)
				var stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = f, &stderr
				cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
				if got := status(t, cmd.Run()); got != cli.ExitError {
					t.Errorf("exit status %d, want %d", got, cli.ExitError)
				}
				if !strings.Contains(stderr.String(), `"code":"RUN_E007"`) {
					t.Errorf("stderr %q", stderr.String())
				}
			})
		}
	}
}

// TestSilentPipe: a FIFO without a writer and a silent pipe end in RUN_E001 after five
// seconds.
func TestSilentPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	silent, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for name, args := range map[string][]string{"fifo": {"run", fifo}, "stdin": {"run", "-"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = silent, &stdout, &stderr
			started := make(chan error, 1)
			go func() { started <- cmd.Run() }()
			select {
			case err := <-started:
				if got := status(t, err); got != cli.ExitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no data for 5 seconds") {
					t.Errorf("exit status %d, stdout %q, stderr %q", got, stdout.String(), stderr.String())
				}
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				t.Fatal("still waiting after a minute")
			}
		})
	}
}

// TestUnreadable: a file without permission, and one of 50 MB, end in RUN_E001.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := put(t, dir, "secret.json", allowed)
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	large := put(t, dir, "large.json", "")
	if err := os.Truncate(large, 50<<20); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ file, want string }{
		{secret, `{"code":"RUN_E001","details":{"file":"secret.json","hint":"name a file that exists, may be read and is within the limit that the message gives"},"message":"secret.json: permission denied"}`},
		{large, `"message":"large.json: larger than the limit of 1048576 bytes"`},
	} {
		// Without its capabilities root is denied too.
		cmd := exec.Command("/bin/sh", "-c", `if [ "$(id -u)" = 0 ]; then exec setpriv --bounding-set -all --inh-caps -all "$0" run "$1"; fi; exec "$0" run "$1"`,
			command(t).Path, tc.file)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if got := status(t, cmd.Run()); got != cli.ExitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", filepath.Base(tc.file), got, stdout.String(), stderr.String())
		}
	}
}

// TestInterrupt: Ctrl-C while reading leaves nothing on stdout. The policy compiles while
// the intent is read. A Ctrl-C during the compilation ends it too, and the answer names
// the compilation. So the test sends Ctrl-C later and later, until it ends only the
// reading.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	compiling := regexp.MustCompile(`"code":"RUN_E007",.*"message":"policy: compiling the policy was cancelled by the caller"`)
	reading := regexp.MustCompile(`"code":"RUN_E001",.*"message":"-: interrupted"`)
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		got, stdout, stderr := interruptedRun(t, wait)
		for tries := 0; tries < 5 && strings.Contains(stderr, "no data for 5 seconds"); tries++ { // this process stood still, not the run
			got, stdout, stderr = interruptedRun(t, wait)
		}
		if got != cli.ExitError || stdout != "" || !reading.MatchString(stderr) && !compiling.MatchString(stderr) {
			t.Fatalf("Ctrl-C after %v: exit status %d, stdout %q, stderr %q", wait, got, stdout, stderr)
		}
		if reading.MatchString(stderr) {
			return
		}
		if wait > 20*time.Second {
			t.Fatalf("the policy compiles for more than %v", wait)
		}
	}
}

// interruptedRun starts a run with an endless intent. It interrupts the run some time
// after the run has read the first byte.
func interruptedRun(t *testing.T, wait time.Duration) (code int, stdout, stderr string) {
	t.Helper()
	stdin, intent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer intent.Close()
	cmd := command(t, "run", "-")
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	late := time.Now().Add(time.Minute)
	for unread := 1; unread > 0; {
		if time.Now().After(late) {
			t.Fatal("nothing of the intent is read")
		}
		if _, err := intent.WriteString(" "); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if unread, err = unix.IoctlGetInt(int(stdin.Fd()), unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
	}
	go func() { // a run ends by itself after five seconds without a byte
		for err := error(nil); err == nil; time.Sleep(time.Second) {
			_, err = intent.WriteString(" ")
		}
	}()
	time.Sleep(wait)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return status(t, cmd.Wait()), out.String(), said.String()
}

// TestSameEverywhere: the canonical subset of a result is the same bytes in
// another folder, locale, time zone, home, umask and for another user.
func TestSameEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := installed(t, filepath.Join(dir, "fiador"))
	intents := []string{put(t, dir, "allowed.json", allowed), put(t, dir, "refused.json", refused), put(t, dir, "asked.json", `{"goal":"Deploy to <environment>"}`)}
	base := []string{"PATH=" + os.Getenv("PATH")}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for _, intent := range intents {
		var want []byte
		for _, tc := range []struct {
			name  string
			dir   string
			env   []string
			umask string
			attr  *syscall.SysProcAttr
		}{
			{name: "here", dir: dir},
			{name: "again", dir: dir},
			{name: "another folder", dir: "/"},
			{name: "another locale", dir: dir, env: []string{"LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8"}},
			{name: "another time zone", dir: dir, env: []string{"TZ=Pacific/Chatham"}},
			{name: "another home", dir: dir, env: []string{"HOME=/nonexistent", "USER=x", "HOSTNAME=y"}},
			{name: "another umask", dir: dir, umask: "0777"},
			{name: "another user", dir: "/", attr: nobody},
			{name: "settings of the tool", dir: dir, env: []string{"FIADOR_COLOR=always", "FIADOR_POLICY=dev", "GOMAXPROCS=1", "GOGC=1"}},
		} {
			if tc.attr != nil && os.Getuid() != 0 {
				t.Logf("%s: skipped, only root can become another user", tc.name)
				continue
			}
			cmd := exec.Command("/bin/sh", "-c", "umask "+orDefault(tc.umask, "022")+"; exec \"$0\" run \"$1\"", binary, intent)
			cmd.Dir, cmd.Env, cmd.SysProcAttr = tc.dir, append(base, tc.env...), tc.attr
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			if got := status(t, cmd.Run()); got == cli.ExitError {
				t.Fatalf("%s: exit status %d", tc.name, got)
			}
			got := subset(t, stdout.Bytes())
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", filepath.Base(intent), tc.name, got, want)
			}
		}
	}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func subset(t *testing.T, stdout []byte) []byte {
	t.Helper()
	doc, err := canon.Parse(stdout, result.MaxBytes)
	if err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	b, err := canon.Canonical(result.Subset(doc.Value().(map[string]any)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNoSocket: no command opens a socket or resolves a name.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed here, so system calls cannot be watched")
	}
	if err := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "/bin/true").Run(); err != nil {
		t.Skipf("strace cannot trace here: %v", err)
	}
	dir := t.TempDir()
	intent := put(t, dir, "intent.json", allowed)
	cmd := command(t, "run", intent)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	res := put(t, dir, "result.json", string(out))
	for _, args := range [][]string{
		{"run", intent, "--policy", "strict"}, {"run", intent, "--policy", "dev", "--bundle", filepath.Join(dir, "b.json")},
		{"verify", res}, {"digest", res}, {"compare", res, res}, {"demo"}, {"schema", "intent"}, {"version"},
		{"completion", "bash"}, {"help", "environment"},
	} {
		t.Run(args[0], func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			full := append([]string{"-f", "-qq", "-o", log, "-e", "trace=%network,execve", command(t).Path}, args...)
			cmd := exec.Command(strace, full...)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(b, []byte("execve(")) {
				t.Fatalf("the trace has no execve, so it shows nothing: %q", b)
			}
			for _, call := range []string{"socket(", "socketpair(", "connect(", "bind(", "sendto(", "getsockopt("} {
				if bytes.Contains(b, []byte(call)) {
					t.Errorf("%s\n%s", call, b)
				}
			}
		})
	}
}

// onTerminal runs the program with stderr on a terminal and returns the text that a person
// sees there.
func onTerminal(t *testing.T, env []string, args ...string) (stdout, screen string, code int) {
	t.Helper()
	var out bytes.Buffer
	screen, code = seat{stdout: &out, env: append([]string{"COLUMNS=500"}, env...)}.shows(t, args...)
	return out.String(), screen, code
}

func TestSummaryOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tc := range []struct {
		name, intent, want string
		code               int
	}{
		{"refuse", refused, "REFUSE  intent.json  1 finding\n" +
			`CMD_NOT_ALLOWED  /actions/1/argv/0  "curl" is not in allowed_commands (node, npm, npx)` + "\n" +
			"hint: ", 1},
		{"clarify", `{"goal":"Deploy to <environment>","constraints":["c"]}`, "CLARIFY  intent.json  1 question\n" +
			`PLACEHOLDER  /goal  What does "<environment>" in the goal stand for?` + "\n", 1},
		{"bundle", allowed, "BUNDLE  intent.json  bundle_", 0},
		{"error", `{"goal":" "}`, "fiador: RUN_E003: intent.json: line 1, column 9, /goal: the goal is blank\nhint: say in a sentence what the agent wants\n", 2},
		{"hostile error", `{"goal":"g","x\u009b31m\u202e\u3164":1}`, "fiador: RUN_E003: intent.json: line 1, column 38, /x\\u009b31m\\u202e\\u3164: ", 2},
		{"hostile", `{"goal":"g","constraints":["c"],"actions":[{"kind":"run","argv":["\u001b[2Jnode\u202e"]}]}`, "REFUSE  intent.json  ", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			intent := put(t, dir, "intent.json", tc.intent)
			stdout, screen, code := onTerminal(t, []string{"NO_COLOR=1"}, "run", intent)
			if !strings.HasPrefix(screen, tc.want) || strings.HasSuffix(screen, "fiador: not recorded: there is no --ledger\n") != (code != cli.ExitError) || code != tc.code {
				t.Errorf("exit status %d, screen\n%s\nwant prefix\n%s", code, screen, tc.want)
			}
			if strings.ContainsAny(screen, "\x1b\u009b\u202e\u3164") {
				t.Errorf("control characters reach the terminal: %q", screen)
			}
			if strings.Contains(screen, "\n{") {
				t.Errorf("the terminal gets JSON: %q", screen)
			}
			if (code == cli.ExitError) != (stdout == "") {
				t.Errorf("stdout %q", stdout)
			}
		})
	}
}

// TestUsageOnATerminal: a terminal gets the error of a wrong call once, in words.
func TestUsageOnATerminal(t *testing.T) {
	t.Parallel()
	const want = "fiador: unknown mode \"act\"\nhint: one of: plan-only, execute-sandbox\n"
	stdout, screen, code := onTerminal(t, []string{"NO_COLOR=1"}, "run", "intent.json", "--mode", "act")
	if stdout != "" || screen != want || code != cli.ExitError {
		t.Errorf("exit status %d, stdout %q, screen\n%s\nwant\n%s", code, stdout, screen, want)
	}
}

func TestColour(t *testing.T) {
	t.Parallel()
	intent := put(t, t.TempDir(), "intent.json", refused)
	for _, tc := range []struct {
		env   string
		args  []string
		color bool
	}{
		{"", nil, true},
		{"NO_COLOR=1", nil, false},
		{"TERM=dumb", nil, false},
		{"NO_COLOR=1", []string{"--color", "always"}, true},
		{"", []string{"--color", "never"}, false},
		{"CLICOLOR_FORCE=1", []string{"--color", "never"}, false},
		{"FIADOR_COLOR=never", nil, false},
		{"FIADOR_COLOR=never", []string{"--color", "always"}, true},
	} {
		t.Run(strconv.Quote(tc.env)+fmt.Sprint(tc.args), func(t *testing.T) {
			_, screen, _ := onTerminal(t, []string{tc.env}, append([]string{"run", intent}, tc.args...)...)
			if got := strings.Contains(screen, "\x1b[31mREFUSE\x1b[0m"); got != tc.color {
				t.Errorf("colour %v, want %v: %q", got, tc.color, screen)
			}
		})
	}
}

// TestBundleFileIsOldOrNew: a bundle that cannot be written whole leaves the old file, and
// no other file beside it.
func TestBundleFileIsOldOrNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	intent := put(t, dir, "intent.json", allowed)
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	old := put(t, out, "bundle.json", "old")
	// A file size limit of zero makes every write fail like a full disk does.
	cmd := exec.Command("/bin/sh", "-c", `trap "" XFSZ; ulimit -f 0; exec "$0" run "$1" --bundle "$2"`, command(t).Path, intent, old)
	stdout, err := cmd.Output()
	if got := status(t, err); got != cli.ExitError || len(stdout) > 0 {
		t.Errorf("exit status %d, stdout %q", got, stdout)
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "old" {
		t.Errorf("the old file is now %q (%v)", b, err)
	}
	if list, err := os.ReadDir(out); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v (%v)", list, err)
	}
	if got := status(t, command(t, "run", intent, "--bundle", "/dev/null").Run()); got != cli.ExitAccepted {
		t.Errorf("a device as bundle file: exit status %d", got)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is no device any more: %v", err)
	}
}

// TestBundleTargets: the files that --bundle may name, and their state afterwards.
func TestBundleTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	intent := put(t, dir, "intent.json", allowed)
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, dir, "target", "old")
	for _, err := range []error{
		os.Symlink("target", at("link")), os.Symlink("nowhere", at("dangling")), os.Symlink("loop", at("loop")),
		os.Link(intent, at("hard")), syscall.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("folder"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 250)
	for _, tc := range []struct {
		target string
		code   int
	}{
		{"new", 0}, {"link", 0}, {long, 0},
		{"dangling", 2}, {"loop", 2}, {"hard", 2}, {"fifo", 2}, {"folder", 2}, {"missing/b", 2},
	} {
		var stderr bytes.Buffer
		cmd := command(t, "run", intent, "--bundle", at(tc.target))
		cmd.Stderr = &stderr
		stdout, err := cmd.Output()
		if got := status(t, err); got != tc.code || (got == cli.ExitError) != (len(stdout) == 0) {
			t.Errorf("%s: exit status %d, want %d; stdout %q, stderr %q", tc.target, got, tc.code, stdout, stderr.String())
		}
	}
	if b, err := os.ReadFile(at("target")); err != nil || !strings.HasPrefix(string(b), `{"id":"bundle_`) {
		t.Errorf("through the link came %q (%v)", b, err)
	}
	if info, err := os.Lstat(at("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is a link no more (%v)", err)
	}
	if b, err := os.ReadFile(intent); err != nil || string(b) != allowed {
		t.Errorf("the intent is now %q (%v)", b, err)
	}

	for _, target := range []string{"/dev/stdout", at("out")} {
		out, err := os.Create(at("out"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, "run", intent, "--bundle", target)
		cmd.Stdout = out
		if got := status(t, cmd.Run()); got != cli.ExitError {
			t.Errorf("%s as bundle and standard output: exit status %d", filepath.Base(target), got)
		}
		out.Close()
	}
	in, err := os.Open(intent)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := command(t, "run", "-", "--bundle", intent)
	cmd.Stdin = in
	if got := status(t, cmd.Run()); got != cli.ExitError {
		t.Errorf("the intent as bundle by way of standard input: exit status %d", got)
	}
}

// TestInterruptedWrite: Ctrl-C ends the program even if its reader takes nothing.
func TestInterruptedWrite(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for { // pages fill it to the last byte
		ready := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
		if _, err := unix.Poll(ready, 0); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		} else if err == nil && ready[0].Revents&unix.POLLOUT == 0 {
			break
		}
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command(t, "version")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	awaits(t, "the program writes into the full pipe", func() bool { return waitsForPipe(t, cmd.Process.Pid) })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if got := status(t, err); got != cli.ExitError {
			t.Errorf("exit status %d", got)
		}
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("still there a minute after the interrupt")
	}
}

// TestCompletionWritesNoLog: shell completion writes only to stdout.
func TestCompletionWritesNoLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	cmd := command(t, "__complete", "run", "--bogus", "x")
	cmd.Env = append(os.Environ(), "BASH_COMP_DEBUG_FILE="+log)
	if err := cmd.Run(); err != nil {
		t.Log(err)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("completion wrote the file that BASH_COMP_DEBUG_FILE names")
	}
}

// TestLongLine: check reports a line that is too long after one byte too many, and goes on
// with the next line. A file of one line, however long, takes little memory.
func TestLongLine(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := command(t, "check", "-")
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = in, &stdout
	told, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const want = "larger than the limit of 1048576 bytes\"}\n"
	if _, err := out.WriteString(strings.Repeat("x", 1<<20+1)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(told)
	if got, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(got, `{"code":"RUN_E001","details":{"file":"-:1"`) || !strings.HasSuffix(got, want) {
		t.Errorf("%q, %v", got, err) // before the end of the line
	}
	if _, err := out.WriteString(strings.Repeat("x", 1<<20) + "\n" + allowed + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	if got := status(t, cmd.Wait()); got != cli.ExitError || strings.Count(stdout.String(), `"kernel_result_kind":"BUNDLE"`) != 1 {
		t.Errorf("exit status %d, stdout %q", got, stdout.String())
	}

	large := put(t, t.TempDir(), "large.jsonl", "")
	if err := os.Truncate(large, 600<<20); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{large, "-"} {
		most := peakOf(t, cli.ExitError, func() *exec.Cmd {
			cmd := command(t, "check", name)
			f, err := os.Open(large)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			cmd.Stdin = f
			return cmd
		})
		if most > 150<<20 {
			t.Errorf("%s: %d MiB of memory", name, most>>20)
		}
	}
}

// waitsForPipe says whether a thread of a process waits in the kernel for a pipe.
func waitsForPipe(t *testing.T, pid int) bool {
	t.Helper()
	places, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(places, func(name string) bool {
		function, _ := os.ReadFile(name) // a thread may have ended
		return bytes.Contains(function, []byte("pipe_w"))
	})
}

// processorTime returns how long a process and its threads have been on a processor.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the third of the file is the first here
	ticks := 0
	for _, field := range fields[11:13] { // in user mode and in the kernel
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ, proc(5)
}
