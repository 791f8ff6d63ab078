//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree"
)

// These tests kill supervisors at random moments. A supervisor is a process of this program
// that executes a command and applies its changes. A process in between adopts every process
// that the supervisors leave, so that none can hide from it.

const (
	// stormRounds is the number of supervisors to kill, and stormSeed determines when.
	stormRounds = "FIADOR_KILL_ROUNDS"
	stormSeed   = "FIADOR_KILL_SEED"
	// stormVar tells a process of this program that it is part of this test.
	stormVar = "FIADOR_TEST_STORM"
	// stormMark is in the environment of every command, with the folder of the test.
	stormMark = "FIADOR_STORM_MARK"
)

// stormPart is the input of a supervisor.
type stormPart struct {
	Tier   Isolation
	Base   string
	Script string
	Apply  bool
	Limit  time.Duration
	Grace  time.Duration
}

func (p stormPart) temp() string  { return filepath.Join(p.Base, "temp") }
func (p stormPart) work() string  { return filepath.Join(p.Base, "work") }
func (p stormPart) state() string { return filepath.Join(p.Base, "state") }

// The words that a supervisor prints, each on a line.
const (
	stormUp      = "up"      // its sandbox is set up
	stormApplies = "applies" // the command has ended
	stormEnd     = "end"     // everything has ended; the same line says how
)

// TestStormPart is a supervisor, not a test of its own.
func TestStormPart(t *testing.T) {
	text := os.Getenv(stormVar)
	if text == "" || text == "between" {
		t.Skip("part of TestStorm")
	}
	var p stormPart
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.supervise()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p stormPart) supervise() error {
	h := NewHost(p.temp())
	defer h.Close()
	since := time.Now()
	s, err := h.Start(context.Background(), Request{
		Work: p.work(), Write: Staged, Limits: limits(), Least: p.Tier, Most: p.Tier, Grace: p.Grace,
		Actions: []Action{{Argv: []string{"sh", "-c", p.Script}, Env: []string{stormMark + "=" + p.Base}}},
	})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(stormUp)
	var end End
	res, err := command.Run(context.Background(), s.Command(0, p.Limit, &end), command.Spec{})
	if err != nil {
		return err
	}
	if p.Apply {
		fmt.Println(stormApplies)
		changes, err := s.Changes()
		if err != nil {
			return err
		}
		v := change.Judge(changes, change.Rules{AnyRoot: true, MaxFiles: 100, MaxBytes: 1 << 20, Links: true, Exists: func(path string) change.Kind { k, _, _ := s.Before(path); return k }})
		if len(v.Reasons) > 0 {
			return errors.New(strings.Join(v.Reasons, ", "))
		}
		if err := tree.Apply(context.Background(), p.state(), p.work(), v.Accepted, s.Content, since); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	fmt.Println(stormEnd, res.ExitCode(), end.TimedOut)
	return nil
}

// stormSupervisor is a supervisor process and its output.
type stormSupervisor struct {
	*exec.Cmd
	said chan string
}

func (p stormPart) start(t *testing.T) *stormSupervisor {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	s := &stormSupervisor{exec.Command("/proc/self/exe", "-test.run=^TestStormPart$", "-test.count=1", "-test.timeout=5m"), make(chan string, 8)}
	s.Dir, s.Env = "/", []string{stormVar + "=" + string(text), "TMPDIR=" + p.temp(), "PATH=/usr/bin:/bin"}
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.said <- lines.Text()
		}
	}()
	return s
}

// waits returns the first line that begins with a word, or the whole output at the end.
func (s *stormSupervisor) waits(word string) string {
	var all []string
	for line := range s.said {
		if all = append(all, line); strings.HasPrefix(line, word) {
			return line
		}
	}
	return strings.Join(all, "; ")
}

// ---- killed ----

// stormScript changes the work folder in every way, and leaves child processes behind.
const stormScript = `sleep 600 & (setsid sleep 601 &)
echo new >kept; rm gone; mkdir -p made/deep; echo 1 >made/one; echo 2 >made/deep/two; chmod +x kept
rm -r folder; echo file >folder; rm file; mkdir file; echo in >file/in; ln -s kept link
i=0; while [ $i -lt 8 ]; do echo $i >made/$i; i=$((i+1)); done
sleep 0.01`

// renew restores the original work folder.
func (p stormPart) renew(t *testing.T) {
	t.Helper()
	if err := tree.RemoveAll(p.work()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kept": "old", "gone": "old", "folder/a": "a", "folder/b/c": "c", "file": "f", "other": "same"} {
		realFile(t, filepath.Join(p.work(), name), text)
	}
}

func TestStorm(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	if os.Getenv(stormVar) == "between" {
		between(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestStorm$", "-test.v", "-test.count=1", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), stormVar+"=between")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS // private: mounts of other processes do not appear here
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestStormAsUser(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	testAsUser(t, "TestStorm", stormRounds+"="+strconv.Itoa(max(1, stormCount(t)/10)))
}

func stormCount(t *testing.T) int {
	t.Helper()
	rounds := rehearsal.Count(20, 200)
	if s := os.Getenv(stormRounds); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	return rounds
}

// between adopts and kills the processes that its supervisors leave.
func between(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
	}
	seed, _ := strconv.ParseUint(os.Getenv(stormSeed), 10, 64)
	seed = cmp.Or(seed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", stormSeed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := stormCount(t)
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			needTier(t, tier)
			st := newStorm(t, tier)
			for range rounds / 2 {
				st.round(t, random)
			}
			t.Logf("%d rounds: %v; a run takes %v, %v of them to apply", rounds/2, st.came, st.whole, st.apply)
			if list := markedProcesses(st.Base); len(list) > 0 {
				t.Errorf("%d processes have survived: %v", len(list), list)
			}
			if left, err := os.ReadDir(st.state()); err != nil || len(left) > 0 {
				t.Errorf("journals are left: %v, %v", left, err)
			}
		})
	}
}

// storm is the test of one tier.
type storm struct {
	stormPart
	old, new string
	mounts   string
	whole    time.Duration // time of a whole run
	apply    time.Duration // time from the end of the command to the end of the run
	came     map[string]int
}

func newStorm(t *testing.T, tier Isolation) *storm {
	t.Helper()
	base, err := os.MkdirTemp("", "storm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	st := &storm{stormPart: stormPart{Tier: tier, Base: base, Script: stormScript, Apply: true, Limit: 5 * time.Minute}, came: map[string]int{}}
	if err := errors.Join(os.Mkdir(st.temp(), 0o755), os.Chmod(base, 0o755)); err != nil {
		t.Fatal(err)
	}
	st.renew(t)
	st.old, st.mounts = treeText(st.work()), hostMounts(t)
	var whole, apply []time.Duration
	for range 5 {
		st.renew(t)
		began := time.Now()
		s := st.start(t)
		s.waits(stormApplies)
		middle := time.Now()
		if got := s.waits(stormEnd); got != stormEnd+" 0 false" {
			t.Fatalf("a run that nobody kills: %s", got)
		}
		whole, apply = append(whole, time.Since(began)), append(apply, time.Since(middle))
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if !st.alone(t) {
			t.Fatal("a run that nobody kills: processes survive")
		}
	}
	slices.Sort(whole)
	slices.Sort(apply)
	st.whole, st.apply = whole[2], apply[2]
	st.new = treeText(st.work())
	if st.new == st.old {
		t.Fatal("the command changes nothing")
	}
	return st
}

// round kills one supervisor, at a moment after its start or after it has something to
// apply.
func (st *storm) round(t *testing.T, random *rand.Rand) {
	t.Helper()
	st.renew(t)
	s := st.start(t)
	from, span := "start", st.whole
	if random.IntN(2) == 0 {
		from, span = stormApplies, st.apply
		s.waits(stormApplies)
	}
	delay := time.Duration(random.Int64N(int64(span)))
	time.Sleep(delay)
	_ = s.Process.Kill()
	for range s.said {
	}
	_ = s.Wait()
	when := fmt.Sprintf("killed %v after %s", delay, from)
	if !st.alone(t) {
		t.Fatalf("%s: processes survive", when)
	}
	// After its folder is removed, a mount of another test is gone here too.
	for mount := range strings.Lines(hostMounts(t)) {
		if !strings.Contains(st.mounts, mount) {
			t.Errorf("%s: mounted: %s", when, mount)
		}
	}
	if err := Sweep(st.temp()); err != nil {
		t.Errorf("%s: sweep: %v", when, err)
	}
	if left, err := os.ReadDir(st.temp()); err != nil || len(left) > 0 {
		t.Errorf("%s: folders are left: %v %v", when, left, err)
	}
	// Another process on this machine may be sweeping it, and about to finish.
	if !eventually(time.Minute, func() bool { return len(groupsOf(s.Process.Pid)) == 0 }) {
		t.Errorf("%s: cgroups are left: %v", when, groupsOf(s.Process.Pid))
	}
	halfway := treeText(st.work())
	did, err := tree.Recover(context.Background(), st.state(), st.work())
	if err != nil {
		t.Errorf("%s: recover: %v", when, err)
	}
	now := treeText(st.work())
	came := map[string]string{st.old: "old", st.new: "new"}[now]
	if came == "" {
		t.Errorf("%s: the work folder is neither old nor new\n%s", when, differs(st.new, now))
	}
	if want := map[tree.Recovery]string{tree.RecoveredForward: "new", tree.RecoveredBack: "old"}[did]; want != "" && want != came {
		t.Errorf("%s: recovered %s, and the work folder is %s", when, did, came)
	}
	if did != tree.RecoveredNothing && halfway != st.old && halfway != st.new {
		came += " from between"
	}
	st.came[came]++
}

// alone waits until all processes that a supervisor started have ended. That is long before
// they would end by themselves, or by the time of their sandbox.
func (st *storm) alone(t *testing.T) bool {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err == unix.ECHILD {
			return true
		}
	}
	return false
}

func hostMounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// markedProcesses returns the processes with a mark in their environment.
func markedProcesses(mark string) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	var list []int
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || !slices.Contains(strings.Split(string(b), "\x00"), stormMark+"="+mark) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		list = append(list, pid)
	}
	return list
}

// ---- stopped ----

// TestStoppedSupervisor stops a supervisor. The time of its command still runs.
func TestStoppedSupervisor(t *testing.T) {
	for _, tier := range []Isolation{Full, Confined} {
		for name, script := range map[string]string{
			"obedient": `sleep 600 & (setsid sleep 601 &); sleep 602`,
			"deaf":     `trap "" TERM; (setsid sh -c 'trap "" TERM; sleep 600; sleep 601' &); while :; do sleep 1; done`,
		} {
			t.Run(string(tier)+"/"+name, func(t *testing.T) { testStopped(t, tier, script) })
		}
	}
}

func TestStoppedSupervisorAsUser(t *testing.T) { testAsUser(t, "TestStoppedSupervisor") }

func testStopped(t *testing.T, tier Isolation, script string) {
	needTier(t, tier)
	base, err := os.MkdirTemp("", "storm-")
	if err != nil {
		t.Fatal(err)
	}
	p := stormPart{Tier: tier, Base: base, Script: script, Limit: 500 * time.Millisecond, Grace: 100 * time.Millisecond}
	t.Cleanup(func() {
		if err := errors.Join(Sweep(p.temp()), tree.RemoveAll(base)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Mkdir(p.temp(), 0o755), os.Chmod(base, 0o755)); err != nil {
		t.Fatal(err)
	}
	var s *stormSupervisor
	rehearsal.Again(t, 3, func(scale int) string {
		p.Limit = time.Duration(min(scale, 10)) * 500 * time.Millisecond
		p.renew(t)
		s = p.start(t)
		t.Cleanup(func() { _ = s.Process.Kill() })
		s.waits(stormUp)
		if !eventually(p.Limit+5*time.Second, func() bool { return len(markedProcesses(base)) >= 3 }) {
			_ = s.Process.Kill()
			_ = s.Wait()
			if !eventually(time.Minute, func() bool { return len(markedProcesses(base)) == 0 }) {
				t.Fatalf("%v are alive after their supervisor", markedProcesses(base))
			}
			return "the command is not seen before its time is over"
		}
		if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		return ""
	})
	began := time.Now()
	if !eventually(p.Limit+p.Grace+time.Minute, func() bool { return len(markedProcesses(base)) == 0 }) {
		t.Fatalf("%v are alive when the time is long over", markedProcesses(base))
	}
	t.Logf("ended after %v", time.Since(began))
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got, want := s.waits(stormEnd), stormEnd+" "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " true") {
		t.Errorf("the supervisor says %q", got)
	}
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// eventually says whether a condition becomes true in time.
func eventually(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

// treeText returns the content of a folder: names, permissions, contents.
func treeText(dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		held := ""
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			held = fmt.Sprintf(" %x", sha256.Sum256(text))
		case info.Mode()&fs.ModeSymlink != 0:
			held, _ = os.Readlink(p)
		}
		fmt.Fprintf(&b, "%v %s%s\n", info.Mode(), strings.TrimPrefix(p, dir), held)
		return nil
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}
