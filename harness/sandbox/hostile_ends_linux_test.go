//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox/cgroup"
)

// killRounds names the number of rounds in which a supervisor is killed.
const killRounds = "FIADOR_KILL_ROUNDS"

// hang is a guard: no test here takes that long.
const hang = 3 * time.Minute

// newMark returns a mark for the arguments of one sandbox's processes.
func newMark() string { return strconv.FormatUint(1e18+rand.Uint64N(1e18), 10) }

// goneSoon waits until no process has the mark, and returns the processes that remain.
func goneSoon(mark string, patience time.Duration) []int {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		pids := withMark(mark)
		if len(pids) == 0 || time.Now().After(end) {
			return pids
		}
	}
}

// endAll kills the processes that a failed test leaves.
func endAll(mark string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		pids := withMark(mark)
		if len(pids) == 0 {
			return
		}
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, pid := range pids {
				_ = unix.Kill(pid, sig)
			}
		}
	}
}

// flood is a command that takes all resources that it can get, or does not end.
type flood struct {
	name    string
	args    func(mark string, tier Isolation) []string // of this program
	script  func(mark string) string
	limits  func(l *Limits)
	timeout time.Duration
	clause  string
	partly  bool // it passes a clause that is not enforced
	check   func(t *testing.T, res command.Result, end End)

	uncounted bool                                             // no cgroup counts memory
	again     func(res command.Result, end End) (fault string) // says why a slow machine may have ended the flood so; nil: nothing can
}

// manyInodes is a number of files far above what limits allows. A file system without a
// journal makes each of many thousands slower than the one before.
func manyInodes() string { return strconv.Itoa(rehearsal.Count(600, 6000)) }

func floods() []flood {
	small := func(l *Limits) { l.MemoryMB = 256 }
	timed := func(t *testing.T, res command.Result, end End) {
		if !end.TimedOut || res.Code == 0 && res.Signal == 0 {
			t.Errorf("not ended by the timeout: %+v %+v", res.Exit, end)
		}
	}
	program := func(args ...string) func(string, Isolation) []string {
		return func(string, Isolation) []string { return args }
	}
	marked := func(args ...string) func(string, Isolation) []string {
		return func(mark string, _ Isolation) []string { return slices.Insert(slices.Clone(args), 1, mark) }
	}
	// folders are all folders that a command may write.
	folders := func(tier Isolation) []string {
		if tier == Full {
			return []string{".", "/tmp", "/dev/shm"}
		}
		return []string{".", "../tmp"}
	}
	fits := func(t *testing.T, res command.Result, end End) {
		if res.Code != 0 || res.Signal != 0 || end.OutOfMemory {
			t.Errorf("%+v %+v, %q", res.Exit, end, res.Stderr.Bytes)
		}
	}
	list := []flood{
		{name: "fork bomb", args: marked("fork-bomb"), timeout: 700 * time.Millisecond, clause: ClauseProcesses},
		{name: "fork bomb of a shell", script: func(mark string) string {
			return `b() { b | b & b; }; : ` + mark + `; sh -c 'b() { b | b & b; }; b' ` + mark + ` 2>/dev/null; sleep 60.` + mark
		}, timeout: 700 * time.Millisecond, clause: ClauseProcesses},
		{name: "processes", args: program("tasks", "200"), clause: ClauseProcesses, partly: true},
		{name: "memory", args: program("memory", "1024"), limits: small, clause: ClauseMemory},
		{name: "shared memory", args: program("shared-memory", "512"), limits: small, clause: ClauseMemory},
		{name: "memory that grows downwards", args: program("grown-memory", "512"), limits: small, clause: ClauseMemory},
		{name: "shared memory of a device", args: program("zero-memory", "512"), limits: small, clause: ClauseMemory},
		{name: "memory of many processes", args: program("together", "4", "memory", "100"), limits: small, clause: ClauseMemory},
		{name: "sockets", args: program("together", "3", "sockets", "90"), limits: small, clause: ClauseMemory},
		{name: "page tables", args: program("together", "1", "page-tables", "300"), limits: small, clause: ClauseMemory},
		{name: "copies of a process", script: func(string) string {
			// Processes that are measured while they fork are counted too high for a moment.
			return `perl -e 'vec($b, 50 << 20, 8) = 1; fork; fork; fork; sleep 1'`
		}, limits: small, clause: ClauseMemory, check: fits},
		{name: "sleeping processes", script: func(string) string { return `for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait` }, limits: small, clause: ClauseMemory, check: fits},
		{name: "disk", args: func(_ string, tier Isolation) []string { return append([]string{"disk", "300"}, folders(tier)...) }, limits: small, clause: ClauseDisk, partly: true},
		{name: "one file", script: func(string) string {
			return `if head -c 100000000 /dev/zero >big 2>/dev/null; then echo "BREACH: 100 MB"; else echo "HELD: $?"; fi`
		}, clause: ClauseDisk},
		{name: "inodes", args: func(_ string, tier Isolation) []string {
			if tier == Full {
				return append([]string{"inodes", "70000"}, folders(tier)...)
			}
			return append([]string{"inodes", manyInodes()}, folders(tier)...)
		}, clause: ClauseDisk, partly: true},
		{name: "descriptors", args: program("open-descriptors"), clause: ClauseKernel},
		{name: "endless output", args: program("endless"), timeout: 300 * time.Millisecond, clause: ClauseStreams, again: func(res command.Result, _ End) string {
			if res.Stdout.Truncated {
				return ""
			}
			return "its time ended before the output had begun"
		}, check: func(t *testing.T, res command.Result, end End) {
			timed(t, res, end)
			if !res.Stdout.Truncated || len(res.Stdout.Bytes) != 1000 || res.Held {
				t.Errorf("kept %d of %d bytes, truncated %t, held %t", len(res.Stdout.Bytes), res.Stdout.Size, res.Stdout.Truncated, res.Held)
			}
		}},
		{name: "sleep", script: func(mark string) string { return "exec sleep 60." + mark }, timeout: 200 * time.Millisecond, clause: ClauseTimeout, check: timed},
		{name: "ignoring TERM", script: func(mark string) string { return `trap "" TERM INT HUP; sleep 60.` + mark + ` & sleep 60.` + mark },
			timeout: 200 * time.Millisecond, clause: ClauseTimeout, check: timed},
		{name: "deaf", args: marked("deaf"), timeout: 200 * time.Millisecond, clause: ClauseTimeout, check: timed},
		{name: "stopped", args: marked("deaf", "stopped"), timeout: 200 * time.Millisecond, clause: ClauseTimeout, check: timed},
		{name: "left behind", args: marked("linger"), clause: ClauseTimeout, check: func(t *testing.T, res command.Result, _ End) {
			if res.Held || res.Code != 0 {
				t.Errorf("%+v, held %t", res.Exit, res.Held)
			}
		}},
		{name: "left behind, waiting", args: marked("linger", "wait"), timeout: 300 * time.Millisecond, clause: ClauseTimeout, check: timed},
		{name: "left behind, by a blind init", args: marked("linger", "blind"), clause: ClauseTimeout},
		{name: "exit 0 on TERM", script: func(mark string) string { return `trap "exit 0" TERM; sleep 60.` + mark + ` & wait` }, timeout: 200 * time.Millisecond, clause: ClauseTimeout,
			check: func(t *testing.T, res command.Result, end End) {
				if !end.TimedOut {
					t.Errorf("that is no end by itself: %+v", end)
				}
			}},
	}
	for _, f := range list {
		if f.clause == ClauseMemory && os.Geteuid() == 0 { // an ordinary user has no cgroup here
			f.name, f.uncounted = f.name+", uncounted", true
			if f.check != nil {
				f.again = slowFork
			}
			list = append(list, f)
		}
	}
	return list
}

// slowFork says that processes which fit were measured while they forked: two looks in a row
// can meet the same fork on a slow machine.
func slowFork(_ command.Result, end End) string {
	if end.OutOfMemory {
		return "two looks may have met the same fork"
	}
	return ""
}

// TestHostileFloods: whatever a command takes and however it tries to stay, it ends in time.
// Nothing of it is left, and the next action has all resources that it needs.
func TestHostileFloods(t *testing.T) {
	base, self := hostileBase(t)
	for _, f := range floods() {
		for _, tier := range []Isolation{Full, Confined} {
			t.Run(string(tier)+"/"+f.name, func(t *testing.T) {
				if f.clause != ClauseProcesses { // the others would miss the processes
					t.Parallel()
				}
				rehearsal.Again(t, 3, func(scale int) string { return newScene(t, base, self, where(tier)).flood(f, tier, scale) })
			})
		}
	}
}

// flood returns what f.again says of the end of the flood. It judges an end of which nothing is
// said. The time of the flood is multiplied by scale.
func (sc *scene) flood(f flood, tier Isolation, scale int) (fault string) {
	sc.Helper()
	mark := newMark()
	sc.Cleanup(func() { endAll(mark) })
	var argv []string
	if f.script != nil {
		argv = []string{"sh", "-c", f.script(mark)}
	} else {
		argv = append([]string{sc.self, hostileArg}, f.args(mark, tier)...)
	}
	r := Request{Write: Staged, Read: []string{sc.self}, Limits: limits(), Least: tier, Most: tier, Grace: 100 * time.Millisecond,
		Actions: []Action{{Argv: argv}, {Argv: []string{"sh", "-c", "echo alive"}}}}
	if f.limits != nil {
		f.limits(&r.Limits)
	}
	h := NewHost(sc.dir)
	h.ungrouped.Store(f.uncounted)
	defer h.Close()
	s, err := h.Start(sc.Context(), r)
	if err != nil {
		sc.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			sc.Error(err)
		}
	}()
	timeout := f.timeout * time.Duration(scale)
	if timeout == 0 {
		timeout = actionTime
	}
	spec := command.Spec{Stdout: command.Stream{Keep: 1000}, Stderr: command.Stream{Keep: 1000}}
	began := time.Now()
	var end End
	res, err := command.Run(sc.Context(), s.Command(0, timeout, &end), spec)
	if err != nil {
		sc.Errorf("%v, %q", err, res.Stderr.Bytes)
	}
	if took := time.Since(began); took > hang {
		sc.Errorf("it took %v", took)
	}
	if pids := withMark(mark); len(pids) > 0 {
		sc.Errorf("left when the action is over: %v", pids)
	}
	if f.again != nil {
		fault = f.again(res, end)
	}
	switch {
	case fault != "":
	case f.check != nil:
		f.check(sc.T, res, end)
	default:
		sc.judgeFlood(f, s, res, end)
	}
	alive, err := command.Run(sc.Context(), s.Command(1, actionTime, nil), spec)
	if !end.OutOfMemory && (err != nil || string(alive.Stdout.Bytes) != "alive\n") {
		sc.Errorf("the next action: %v, %+v, %q %q", err, alive.Exit, alive.Stdout.Bytes, alive.Stderr.Bytes)
	}
	if err := s.Finish(); err != nil {
		sc.Error(err)
	}
	if pids := withMark(mark); len(pids) > 0 {
		sc.Errorf("left in the end: %v", pids)
	}
	return fault
}

// judgeFlood compares the result of a flood with the clause.
func (sc *scene) judgeFlood(f flood, s *Sandbox, res command.Result, end End) {
	sc.Helper()
	verdict, c := verdictOf(res.Stdout.Bytes), clauseOf(s.Clauses, f.clause)
	open := c.Status != Enforced
	if f.clause == ClauseProcesses { // the number of processes and threads is enforced, except for those of other programs
		open = strings.Contains(c.Mechanism, "above what the user ran")
	}
	switch {
	case strings.HasPrefix(verdict, held):
		sc.Log(verdict)
	case !strings.HasPrefix(verdict, breach):
		sc.Logf("it ended with %+v, timed out %t, out of memory %t, %.100q", res.Exit, end.TimedOut, end.OutOfMemory, res.Stderr.Bytes)
	case f.partly && open:
		sc.Logf("%s, as the clause %q says: %s", verdict, f.clause, c.Mechanism)
	default:
		sc.Errorf("%s, the clause %q is said to be %s by %s", verdict, f.clause, c.Status, c.Mechanism)
	}
}

// TestHostileFloodsWithout: without a sandbox, the floods get the resources that they try to
// take.
func TestHostileFloodsWithout(t *testing.T) {
	base, self := hostileBase(t)
	for _, args := range [][]string{{"tasks", "100", "end"}, {"memory", "128"}, {"shared-memory", "128"}, {"grown-memory", "128"}, {"zero-memory", "128"}, {"together", "2", "memory", "64", "1"}, {"together", "2", "sockets", "64", "1"}, {"together", "1", "page-tables", "64", "1"}, {"disk", "64", "."}, {"inodes", manyInodes(), "."}, {"open-descriptors"}} {
		t.Run(args[0], func(t *testing.T) {
			if args[0] != "tasks" { // a confined sandbox of the same user would miss the processes
				t.Parallel()
			}
			sc := newScene(t, base, self, inNone)
			argv := append([]string{self, hostileArg}, args...)
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil && l.Max < 8192 && args[0] == "open-descriptors" {
				t.Skip("the machine has a limit of its own")
			}
			res, err := command.Run(t.Context(), command.Direct(argv, []string{"PATH=/usr/bin:/bin"}, sc.work), command.Spec{Stdout: command.Stream{Keep: 1000}})
			if v := verdictOf(res.Stdout.Bytes); err != nil || !strings.HasPrefix(v, breach) {
				t.Errorf("%v %s", err, v)
			}
		})
	}
	for _, args := range [][]string{{"linger", "", "wait"}, {"deaf", ""}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			mark := newMark()
			args[1] = mark
			cmd := exec.Command(self, append([]string{hostileArg}, args...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ready := func() bool {
				return len(withMark(mark)) >= len(args)-1 && (args[0] != "deaf" || ignoresTerm(t, cmd.Process.Pid))
			}
			for end := time.Now().Add(hang); !ready() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			_ = cmd.Process.Signal(unix.SIGTERM)
			time.Sleep(100 * time.Millisecond)
			left := withMark(mark)
			if len(left) == 0 {
				t.Error("nothing stays, though nothing stops it")
			}
			for _, pid := range left {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// ignoresTerm says whether a process ignores SIGTERM.
func ignoresTerm(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ := strings.Cut(rest, "\n")
	signals, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && signals>>(unix.SIGTERM-1)&1 == 1
}

// TestHostileNoFork: where forks are not allowed, a command can make threads and no process.
func TestHostileNoFork(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		for _, c := range []struct {
			name   string
			noFork bool
			argv   []string
			breach bool
		}{
			{"fork", true, []string{self, hostileArg, "fork"}, false},
			{"fork, allowed", false, []string{self, hostileArg, "fork"}, true},
			{"fork, no children", true, []string{self, hostileArg, "fork"}, false},
			{"threads, no children", true, []string{self, hostileArg, "threads"}, false},
			{"threads", true, []string{self, hostileArg, "threads"}, false},
			{"threads, forks allowed", false, []string{self, hostileArg, "threads"}, false},
			{"shell", true, []string{"sh", "-c", `if (true) 2>/dev/null; then echo "BREACH: a subshell"; else echo "HELD: $?"; fi`}, false},
			{"shell, allowed", false, []string{"sh", "-c", `if (true) 2>/dev/null; then echo "BREACH: a subshell"; else echo "HELD: $?"; fi`}, true},
			{"python", true, []string{"python3", "-c", "import subprocess\nsubprocess.run(['true'])\nprint('BREACH: vfork')"}, false},
		} {
			t.Run(string(tier)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, base, self, where(tier))
				l := limits()
				if l.NoFork = c.noFork; strings.HasSuffix(c.name, "no children") {
					l.NoFork, l.MaxChildren = false, 0
				}
				res, _, _ := do(t, NewHost(sc.dir), Request{Write: Staged, Read: []string{self}, Limits: l, Least: tier, Most: tier, Actions: []Action{{Argv: c.argv}}})
				switch v := verdictOf(res.Stdout.Bytes); {
				case strings.HasPrefix(v, breach) != c.breach:
					t.Errorf("%q, %+v, %q", v, res.Exit, res.Stderr.Bytes)
				case v == "" && res.Code == 0:
					t.Errorf("no verdict: %q %q", res.Stdout.Bytes, res.Stderr.Bytes)
				}
			})
		}
	}
}

// TestHostileImitation: a forged report that does not come from the init is only output, and
// the command's real end is reported.
func TestHostileImitation(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		for _, noFork := range []bool{false, true} {
			t.Run(fmt.Sprint(tier, "/no fork ", noFork), func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, base, self, where(tier))
				l := limits()
				l.NoFork = noFork
				res, end, _ := do(t, NewHost(sc.dir), Request{Write: Staged, Read: []string{self}, Limits: l, Least: tier, Most: tier,
					Actions: []Action{{Argv: []string{self, hostileArg, "imitate", "7"}}}})
				if v := verdictOf(res.Stdout.Bytes); !strings.HasPrefix(v, held) || res.Code != 7 || res.Signal != 0 || end.TimedOut {
					t.Errorf("%q, %+v, %+v", v, res.Exit, end)
				}
				if !bytes.Contains(res.Stdout.Bytes, []byte("fdr\x01d")) {
					t.Error("the output is not as it was written")
				}
			})
		}
	}
}

// started is a supervisor whose command has reported that it runs.
type started struct {
	cmd  *exec.Cmd
	mark string
	out  *bufio.Reader
}

// lingering starts a supervisor with a command that leaves processes behind.
func (sc *scene) lingering(tier Isolation, timeout time.Duration) started {
	sc.Helper()
	mark := newMark()
	sc.Cleanup(func() { endAll(mark) })
	sc.mkdir("temp")
	b, err := json.Marshal(job{Temp: sc.in("temp"), Timeout: timeout, Request: Request{
		Work: sc.work, Write: Staged, Read: []string{sc.self}, Limits: limits(), Least: tier, Most: tier, Grace: 100 * time.Millisecond,
		Actions: []Action{{Argv: []string{sc.self, hostileArg, "linger", mark, "wait"}}},
	}})
	if err != nil {
		sc.Fatal(err)
	}
	cmd := exec.Command(sc.self, hostileArg, "supervisor")
	cmd.Stdin = bytes.NewReader(b)
	r, w, err := os.Pipe()
	if err != nil {
		sc.Fatal(err)
	}
	sc.Cleanup(func() { _ = r.Close() })
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		sc.Fatal(err)
	}
	_ = w.Close()
	return started{cmd, mark, bufio.NewReader(r)}
}

// kill ends the supervisor and nothing else.
func (s started) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// TestHostileSupervisorKilled: a supervisor that is killed, or stopped and then killed, at
// any moment leaves no process and no mount. Sweep removes everything else that it leaves.
func TestHostileSupervisorKilled(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	rounds, _ := strconv.Atoi(os.Getenv(killRounds))
	if rounds == 0 {
		rounds = 25
	}
	sc := newScene(t, base, self, inFull)
	var makers []int
	left := 0
	for i := range rounds {
		tier := []Isolation{Full, Confined}[i%2]
		s := sc.lingering(tier, 0)
		makers = append(makers, s.cmd.Process.Pid)
		time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
		if i%5 == 4 {
			_ = s.cmd.Process.Signal(unix.SIGSTOP)
			time.Sleep(20 * time.Millisecond)
		}
		s.kill()
		if pids := goneSoon(s.mark, time.Minute); len(pids) > 0 {
			t.Errorf("round %d, %s: left: %v", i, tier, pids)
		}
		dirs, _ := os.ReadDir(sc.in("temp"))
		left = max(left, len(dirs))
	}
	t.Logf("%d folders at most before they are swept", left)
	if mounts := mountsOf(sc.dir); len(mounts) > 0 {
		t.Errorf("mounts: %v", mounts)
	}
	if err := Sweep(sc.in("temp")); err != nil {
		t.Error(err)
	}
	var groups []string
	// Another process on this machine may be sweeping it, and about to finish.
	if !eventually(time.Minute, func() bool { groups = groupsMadeBy(makers); return len(groups) == 0 }) {
		t.Errorf("swept, and there are the cgroups %v", groups)
	}
	if dirs, err := os.ReadDir(sc.in("temp")); err != nil || len(dirs) > 0 {
		t.Errorf("swept, and there are %v %v", dirs, err)
	}
}

// groupsMadeBy returns the names of the cgroups that these processes have made, and have left.
func groupsMadeBy(makers []int) (list []string) {
	for _, homes := range cgroup.Machine().Homes(cgroup.Limits{Memory: 1, Tasks: 1, CPUs: 1}) {
		for _, name := range cgroup.Machine().Orphans(homes) {
			if n, _ := cgroup.ParseName(name); slices.Contains(makers, n.PID) {
				list = append(list, name)
			}
		}
	}
	return list
}

// TestHostileSupervisorStopped: while a supervisor is stopped, the time of its command still
// runs.
func TestHostileSupervisorStopped(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			rehearsal.Again(t, 2, func(scale int) string {
				sc := newScene(t, base, self, where(tier))
				s := sc.lingering(tier, time.Duration(scale)*3*time.Second) // longer than it takes to look
				defer s.kill()
				if line, err := s.out.ReadString('\n'); err != nil || line != "lingering\n" {
					return fmt.Sprintf("the command does not begin: %q %v", line, err)
				}
				if err := s.cmd.Process.Signal(unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				if len(withMark(s.mark)) == 0 {
					return "the command was to be there still"
				}
				if pids := goneSoon(s.mark, time.Minute); len(pids) > 0 {
					t.Errorf("left: %v", pids)
				}
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
				if err != nil || !bytes.Contains(b, []byte(") T ")) {
					t.Errorf("the supervisor was to be stopped still: %q %v", b, err)
				}
				return ""
			})
		})
	}
}

// TestHostileTwoRuns: concurrent runs on one work folder do not see each other and do not
// change it.
//
// The limit of processes counts all of a user, where no cgroup counts them. So the test is not
// parallel: the tests beside it flood that count.
func TestHostileTwoRuns(t *testing.T) {
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(tier))
			before := contentsOf(t, sc.work)
			h := NewHost(sc.dir)
			defer h.Close()
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					name := "of-" + strconv.Itoa(i)
					s, err := h.Start(context.Background(), Request{Work: sc.work, Write: Staged, Limits: limits(), Least: tier, Most: tier, Actions: []Action{{Argv: []string{"sh", "-c",
						`echo ` + name + ` >` + name + `; echo ` + name + ` >kept; rm -r hidden; mkdir hidden; sleep 0.2; ls; cat kept`}}}})
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close()
					res, err := command.Run(context.Background(), s.Command(0, actionTime, nil), command.Spec{Stdout: command.Stream{Keep: 1000}, Stderr: command.Stream{Keep: 1000}})
					if want := "hidden\nkept\n" + name + "\n" + name + "\n"; err != nil || string(res.Stdout.Bytes) != want {
						t.Errorf("%v, %q, %q", err, res.Stdout.Bytes, res.Stderr.Bytes)
					}
					changes, err := s.Changes()
					if err != nil {
						t.Error(err)
					}
					compareKinds(t, kindsOf(t, changes), map[string]change.Kind{name: change.KindFile, "kept": change.KindFile, "hidden/key": change.KindDeleted})
				})
			}
			all.Wait()
			if now := contentsOf(t, sc.work); now != before {
				t.Errorf("the work folder was\n%sand is\n%s", before, now)
			}
		})
	}
}

// TestHostileLeaks: a hundred runs, some of them aborted, leave no process, descriptor,
// goroutine, mount, folder or cgroup.
func TestHostileLeaks(t *testing.T) {
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			sc := newScene(t, base, self, where(tier))
			sc.mkdir("temp")
			h := NewHost(sc.in("temp"))
			defer h.Close()
			run := func(i int) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if i%10 == 9 {
					time.AfterFunc(time.Duration(rand.IntN(10))*time.Millisecond, cancel)
				}
				s, err := h.Start(ctx, Request{Work: sc.work, Write: Staged, Limits: limits(), Least: tier, Most: tier, Actions: []Action{{Argv: []string{"sh", "-c", "echo x >x; sleep 600 & true"}}}})
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				_, err = command.Run(ctx, s.Command(0, actionTime, nil), command.Spec{Grace: 10 * time.Millisecond})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if i%3 == 0 {
					if _, err := s.Changes(); err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			run(0) // first run: it makes what is made only once
			before := holdings(t, sc)
			for i := range rehearsal.Count(30, 100) {
				run(i)
			}
			var after map[string]int
			if !eventually(time.Minute, func() bool { after = holdings(t, sc); return !more(after, before) }) {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

// holdings counts the resources of this process.
func holdings(t *testing.T, sc *scene) map[string]int {
	t.Helper()
	count := map[string]int{"goroutines": runtime.NumGoroutine()}
	for what, pattern := range map[string]string{"descriptors": "/proc/self/fd/*", "folders": sc.in("temp/*")} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		count[what] = len(names)
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, _ := os.ReadFile(name)
		if _, rest, ok := bytes.Cut(b, []byte(") ")); ok {
			if fields := strings.Fields(string(rest)); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
				count["children"]++
			}
		}
	}
	count["mounts"] = len(mountsOf(sc.dir))
	for _, homes := range cgroup.Machine().Homes(cgroup.Limits{Memory: 1, Tasks: 1, CPUs: 1}) {
		for _, home := range homes {
			names, _ := filepath.Glob(filepath.Join(home.Folder, fmt.Sprintf("%s%d-*", cgroup.Prefix, os.Getpid())))
			count["cgroups"] += len(names)
		}
	}
	return count
}

func more(after, before map[string]int) bool {
	for what, n := range after {
		if n > before[what] {
			return true
		}
	}
	return false
}
