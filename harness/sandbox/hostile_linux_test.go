//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree"
)

// The hostile list of the sandbox's design. Each attack is a small program that prints
// whether it succeeded. It runs in a full and in a confined sandbox. It also runs once
// without a sandbox, where it must succeed: an attack that never succeeds proves nothing.
// All attacks run as root and as an ordinary user (TestHostileAsUser).

// who is the kind of attacker.
type who int

const (
	byNobody who = 0
	byRoot   who = 1 << iota
	byUser
	byAnyone = byRoot | byUser
)

func me() who {
	if os.Geteuid() == 0 {
		return byRoot
	}
	return byUser
}

// hostile is one attack.
type hostile struct {
	name    string
	program string                      // program of attacks, if it is not the name
	args    func(sc *scene) []string    // arguments of the program
	script  func(sc *scene) string      // script for sh instead of the program
	request func(sc *scene, r *Request) // changes the request of the sandbox
	after   func(sc *scene) string      // what was done to the host, or empty
	extra   extra

	clause string // the clause that promises protection
	partly bool   // a confined sandbox may fail: its clause is partial
	but    string // a mechanism that works although the attack succeeds
	bare   who    // attackers that succeed without a sandbox
	unless string // why it may fail without a sandbox
}

// extra is what an attack needs in its surroundings.
type extra int

const (
	extraNone  extra = iota
	supervised       // a supervisor with secrets of its own
	onTerminal       // a terminal as standard input
)

// where is the place in which an attack runs.
type where string

const (
	inFull     where = "full"
	inConfined where = "confined"
	inNone     where = "without"
)

// scene is the host of one attack: a folder that everybody may write, with a secret, and a
// work folder.
type scene struct {
	*testing.T
	where where
	self  string // a copy of this program that everybody can execute
	dir   string
	work  string
	seen  []func() string // what was done to the host, or empty
}

// hostileBase returns a folder that everybody can reach, and a copy of this program in it.
func hostileBase(t *testing.T) (dir, self string) {
	t.Helper()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self = filepath.Join(dir, "program")
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	syscall.ForkLock.RLock() // a process that starts meanwhile would have the file open, and it would be busy
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(self, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, self
}

func newScene(t *testing.T, base, self string, at where) *scene {
	t.Helper()
	sc := &scene{T: t, where: at, self: self}
	var err error
	if sc.dir, err = os.MkdirTemp(base, "scene-"); err != nil {
		t.Fatal(err)
	}
	sc.work = filepath.Join(sc.dir, "work")
	for _, d := range []string{"", "home", "work", "work/hidden", "outside", "outside/folder"} {
		sc.mkdir(d)
	}
	for name, text := range map[string]string{
		"home/canary": secretText, "outside/file": "file", "outside/doomed": "doomed", "work/hidden/key": secretText, "work/kept": "kept",
	} {
		sc.write(name, text, 0o666)
	}
	sc.write("home/run", "#!/bin/sh\nexit 0\n", 0o777)
	return sc
}

func (sc *scene) in(name string) string { return filepath.Join(sc.dir, name) }

func (sc *scene) mkdir(name string) {
	sc.Helper()
	if err := os.MkdirAll(sc.in(name), 0o777); err != nil {
		sc.Fatal(err)
	}
	if err := os.Chmod(sc.in(name), 0o777); err != nil {
		sc.Fatal(err)
	}
}

func (sc *scene) write(name, text string, mode os.FileMode) {
	sc.Helper()
	if err := rehearsal.WriteFile(sc.in(name), []byte(text), mode); err != nil {
		sc.Fatal(err)
	}
	if err := os.Chmod(sc.in(name), mode); err != nil {
		sc.Fatal(err)
	}
}

// state returns the content of the outside folder, for comparison.
func (sc *scene) state() string {
	var b strings.Builder
	_ = filepath.Walk(sc.in("outside"), func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, p, info.Mode(), info.Size())
		return nil
	})
	return b.String()
}

// untouched records the outside folder and compares it after the attack.
func (sc *scene) untouched() {
	before := sc.state()
	sc.seen = append(sc.seen, func() string {
		if now := sc.state(); now != before {
			return "the folder outside was " + before + "and is " + now
		}
		return ""
	})
}

// victim starts a process of the same user that waits. If the signal sig arrives there, that
// is a breach.
func (sc *scene) victim(sig syscall.Signal, mark string) int {
	sc.Helper()
	said := sc.in("said")
	cmd := exec.Command(sc.self, hostileArg, "victim", said, strconv.Itoa(int(sig)), mark)
	cmd.Env = rehearsal.Env("SECRET=" + secretText)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		sc.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		sc.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		sc.Fatal(err)
	}
	sc.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		sc.Fatal(err)
	}
	sc.seen = append(sc.seen, func() string {
		time.Sleep(20 * time.Millisecond)
		if b, _ := os.ReadFile(said); len(b) > 0 {
			return "a process of the host was signalled"
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil || !bytes.Contains(b, []byte(") S ")) && !bytes.Contains(b, []byte(") R ")) {
			return fmt.Sprintf("a process of the host is not as it was: %q %v", b, err)
		}
		return ""
	})
	return cmd.Process.Pid
}

// serve greets every client until the test ends.
func (sc *scene) serve(l net.Listener) {
	sc.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 10))
			_, _ = c.Write([]byte(secretText))
			_ = c.Close()
		}
	}()
}

func (sc *scene) listen(network, address string) net.Addr {
	sc.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		sc.Fatal(err)
	}
	sc.serve(l)
	if network == "unix" && address[0] == '/' {
		if err := os.Chmod(address, 0o777); err != nil {
			sc.Fatal(err)
		}
	}
	return l.Addr()
}

// request returns the request that an attack runs in.
func (sc *scene) request(a hostile, argv []string) Request {
	r := Request{
		Work: sc.work, Write: Staged, Read: []string{sc.self}, Limits: limits(),
		Least: Isolation(sc.where), Most: Isolation(sc.where),
		Actions: []Action{{Argv: argv}}, Grace: 100 * time.Millisecond,
	}
	if a.request != nil {
		a.request(sc, &r)
	}
	return r
}

// job is the input of a separate supervisor process.
type job struct {
	Temp    string
	Request Request
	Bare    bool
	Leak    []string // opened so that children inherit them
	Key     string   // added to the session keyring
	Timeout time.Duration
	Files   uint64 // descriptors that the supervisor may have, or 0
}

// supervisor is the role that runs one request from standard input and forwards its output.
func supervisor([]string) int {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		fmt.Println(err)
		return 1
	}
	for i, p := range j.Leak {
		fd, err := unix.Open(p, unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Dup3(fd, 100*(i+1), 0)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if j.Files > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: j.Files, Max: j.Files}); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if j.Key != "" {
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if err == nil {
			_, err = unix.AddKey("user", j.Key, []byte(secretText), unix.KEY_SPEC_SESSION_KEYRING)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	spec := command.Spec{Stdout: command.Stream{Tee: os.Stdout}, Stderr: command.Stream{Tee: os.Stderr}, Timeout: actionTime}
	if j.Bare {
		a := j.Request.Actions[0]
		res, err := command.Run(context.Background(), command.Direct(a.Argv, os.Environ(), j.Request.Work), spec)
		return exitCode(res, err)
	}
	h := NewHost(j.Temp)
	defer h.Close()
	s, err := h.Start(context.Background(), j.Request)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	res, err := command.Run(context.Background(), s.Command(0, cmp.Or(j.Timeout, actionTime), nil), spec)
	return exitCode(res, err)
}

func exitCode(res command.Result, err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return res.ExitCode()
}

// supervise starts a supervisor with an environment full of traps.
func (sc *scene) supervise(j job) *exec.Cmd {
	sc.Helper()
	sc.mkdir("evil")
	sc.mkdir("temp")
	sc.write("evil/true", "#!/bin/sh\necho '"+breach+"a program of the supervisor'\"'\"'s PATH'\n", 0o755)
	sc.write("evil/env", "echo '"+breach+"a file that a shell was told to read'\n", 0o755)
	j.Temp = sc.in("temp")
	b, err := json.Marshal(j)
	if err != nil {
		sc.Fatal(err)
	}
	cmd := exec.Command(sc.self, hostileArg, "supervisor")
	cmd.Stdin = bytes.NewReader(b)
	cmd.Env = rehearsal.Env(
		"SECRET_TOKEN="+secretText, "PATH="+sc.in("evil")+":/usr/bin:/bin", "BASH_ENV="+sc.in("evil/env"), "ENV="+sc.in("evil/env"),
		"LD_LIBRARY_PATH="+sc.in("evil"), "LD_AUDIT=", "PYTHONPATH="+sc.in("evil"), "NODE_OPTIONS=--require="+sc.in("evil/x.js"),
		"GIT_DIR="+sc.in("evil"), "HOME="+sc.in("home"), "TMPDIR="+sc.in("temp"), "GODEBUG=x=1",
	)
	return cmd
}

// outcome is the result of an attack.
type outcome struct {
	verdict string
	clauses []Clause
	rest    string // all other facts, for people
}

func (o outcome) breached() bool { return strings.HasPrefix(o.verdict, breach) }

// verdictOf returns the last printed verdict; a breach anywhere in the output takes
// precedence.
func verdictOf(out []byte) string {
	last := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, breach) {
			return line
		}
		if strings.HasPrefix(line, held) {
			last = line
		}
	}
	return last
}

// attack runs one attack.
func (sc *scene) attack(a hostile) outcome {
	sc.Helper()
	var args []string
	if a.args != nil {
		args = a.args(sc)
	}
	program := a.program
	if program == "" {
		program = a.name
	}
	argv := append([]string{sc.self, hostileArg, program}, args...)
	if a.script != nil {
		argv = []string{"sh", "-c", a.script(sc)}
	}
	var o outcome
	if a.extra == supervised {
		o = sc.attackSupervised(a, argv)
	} else {
		o = sc.attackHere(a, argv)
	}
	seen := sc.seen
	if a.after != nil {
		seen = append(seen, func() string { return a.after(sc) })
	}
	for _, f := range seen {
		if what := f(); what != "" {
			o.verdict = breach + what
		}
	}
	return o
}

func (sc *scene) attackHere(a hostile, argv []string) outcome {
	sc.Helper()
	spec := command.Spec{Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 18}, Timeout: actionTime}
	start := func(s command.Start) command.Start { return s }
	if a.extra == onTerminal {
		start = sc.onTerminal
	}
	if sc.where == inNone {
		if !slices.Contains([]string{"sh"}, argv[0]) {
			// A parent process that may be attacked instead of the test.
			argv = append([]string{sc.self, hostileArg, "nest"}, argv[2:]...)
		}
		if a.extra == onTerminal {
			argv = append([]string{sc.self, hostileArg}, argv[3:]...)
		}
		res, err := command.Run(sc.Context(), start(command.Direct(argv, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + sc.dir}, sc.work)), spec)
		return sc.outcome(res, err)
	}
	h := NewHost(sc.dir)
	defer h.Close()
	s, err := h.Start(sc.Context(), sc.request(a, argv))
	if err != nil {
		return outcome{verdict: held + "it was refused: " + err.Error(), rest: "refused"}
	}
	defer func() {
		if err := s.Close(); err != nil {
			sc.Error(err)
		}
	}()
	res, err := command.Run(sc.Context(), start(s.Command(0, actionTime, nil)), spec)
	o := sc.outcome(res, err)
	o.clauses = s.Clauses
	return o
}

func (sc *scene) outcome(res command.Result, err error) outcome {
	o := outcome{verdict: verdictOf(res.Stdout.Bytes)}
	o.rest = fmt.Sprintf("exit %d, error %v, output %q, standard error %q", res.ExitCode(), err, res.Stdout.Bytes, res.Stderr.Bytes)
	if o.verdict == "" && res.Signal == unix.SIGSYS {
		o.verdict = held + "killed by the filter"
	}
	return o
}

func (sc *scene) attackSupervised(a hostile, argv []string) outcome {
	sc.Helper()
	j := job{
		Bare: sc.where == inNone, Leak: []string{"/", sc.in("home/canary"), sc.in("home")}, Key: "fiador-hostile-key",
		Request: sc.request(a, argv),
	}
	if j.Bare {
		j.Request.Least, j.Request.Most = None, None
	}
	cmd := sc.supervise(j)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return outcome{verdict: verdictOf(out), rest: fmt.Sprintf("error %v, output %q, standard error %q", err, out, stderr.String())}
}

// onTerminal starts a command with a terminal of the supervisor as standard input.
func (sc *scene) onTerminal(start command.Start) command.Start {
	sc.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		sc.Skip(err)
	}
	sc.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		sc.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		sc.Fatal(err)
	}
	sc.Cleanup(func() { _ = slave.Close() })
	return func(_, stdout, stderr *os.File) (command.Process, error) { return start(slave, stdout, stderr) }
}

// clauseOf returns the clause with an id.
func clauseOf(clauses []Clause, clause string) Clause {
	for _, c := range clauses {
		if c.Clause == clause {
			return c
		}
	}
	return Clause{}
}

// TestHostile tries every attack of the list.
func TestHostile(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, a := range hostileList() {
		for _, at := range []where{inFull, inConfined} {
			t.Run(string(at)+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, base, self, at)
				o := sc.attack(a)
				switch {
				case o.verdict == "":
					t.Errorf("no verdict: %s", o.rest)
				case !o.breached():
					t.Log(o.verdict)
				case a.but != "" && strings.Contains(clauseOf(o.clauses, a.clause).Mechanism, a.but):
					t.Logf("%s, and there is the %s", o.verdict, a.but)
				case !(a.partly && at == inConfined):
					t.Errorf("%s\n%s", o.verdict, o.rest)
				case clauseOf(o.clauses, a.clause).Status == Enforced:
					t.Errorf("%s, and the clause %q is said to be enforced", o.verdict, a.clause)
				default:
					t.Logf("%s, as the clause %q says: %s", o.verdict, a.clause, clauseOf(o.clauses, a.clause).Status)
				}
			})
		}
		t.Run("without/"+a.name, func(t *testing.T) {
			t.Parallel()
			if a.bare&me() == 0 {
				t.Skip(cannot(a))
			}
			sc := newScene(t, base, self, inNone)
			switch o := sc.attack(a); {
			case o.breached():
				t.Log(o.verdict)
			case a.unless != "":
				t.Logf("%s: %s", o.verdict, a.unless)
			default:
				t.Errorf("the attack does not even succeed without a sandbox: %s\n%s", o.verdict, o.rest)
			}
		})
	}
}

// cannot says why an attack is not shown to succeed without a sandbox.
func cannot(a hostile) string {
	if a.bare == byNobody {
		return a.unless
	}
	if a.bare == byRoot {
		return "only root can do that without a sandbox"
	}
	return "it makes no difference to root"
}

// roleHalf is set in the process that tests as an ordinary user.
const roleHalf = "FIADOR_HOSTILE_HALF"

// TestHostileAsUser runs the other tests of this list once more, as an ordinary user. The
// short form leaves the floods to root, whose confined commands are an ordinary user's too.
func TestHostileAsUser(t *testing.T) {
	if os.Getenv(roleHalf) != "" {
		t.Skip("this is the user")
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: the tests beside this one are those of an ordinary user, and nobody tests as root")
	}
	t.Parallel()
	// The kernel counts the processes of a user on the whole machine, and this list takes all
	// that it can get. So this list has a user that no other test has.
	user := 61184 + os.Getpid()%4096
	base, self := hostileBase(t)
	temp := filepath.Join(base, "temp")
	setuid := filepath.Join(base, "setuid")
	for _, err := range []error{
		os.Mkdir(temp, 0o700), os.Chown(temp, user, user),
		exec.Command("cp", self, setuid).Run(), os.Chmod(setuid, 0o755|os.ModeSetuid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(self, "-test.run=^TestHostile", "-test.v", "-test.timeout=10m")
	if !rehearsal.Full() {
		cmd.Args = append(cmd.Args, "-test.skip=^TestHostileFloods")
	}
	cmd.Dir = temp
	cmd.Env = rehearsal.Env(roleHalf+"=user", "HOME=/tmp", "TMPDIR="+temp, "PATH="+os.Getenv("PATH"), setuidVar+"="+setuid, killRounds+"="+os.Getenv(killRounds), rehearsal.Form())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, failures(out))
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// setuidVar names a copy of this program that belongs to root and is setuid.
const setuidVar = "FIADOR_HOSTILE_SETUID"

// failures removes passed and skipped tests from a test's output, but for what they logged: a
// verbose test prints its messages before its result.
func failures(out []byte) string {
	var b strings.Builder
	keep := false
	for line := range strings.Lines(string(out)) {
		switch s := strings.TrimSpace(line); {
		case strings.HasPrefix(s, "--- FAIL"), strings.HasPrefix(s, "panic"):
			keep = true
		case strings.HasPrefix(s, "--- "), strings.HasPrefix(s, "=== "):
			keep = false
		}
		if keep || strings.Contains(line, "_test.go:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func statOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// actionTime is a guard: no attack takes that long, on a machine that has much else to do either.
const actionTime = 2 * time.Minute
