//go:build linux && (amd64 || arm64)

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/rehearsal"
)

// groupRole names the role of TestGroupChild in a process of its own.
const groupRole = "FIADOR_TEST_GROUP_ROLE"

// groupChild starts this test binary in one of the roles of TestGroupChild. The child waits
// for a line; the caller can read its standard output.
func groupChild(t *testing.T, role string, attr *syscall.SysProcAttr) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "-test.run=^TestGroupChild$", "-test.count=1")
	cmd.Env = rehearsal.Env(groupRole+"="+role, "PATH=/usr/bin:/bin")
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", os.Stderr, attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewReader(pipe)
}

// TestGroupChild is the process that other tests start.
func TestGroupChild(t *testing.T) {
	role := os.Getenv(groupRole)
	if role == "" {
		t.Skip("other tests start it")
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	switch role {
	case "memory":
		takeMemory()
	case "tasks":
		takeTasks()
	case "sleep":
		time.Sleep(time.Hour)
	case "maker":
		makeGroupAndWait()
	case "ordinary":
		g, err := Open(Machine(), 64<<20, 32, 1)
		fmt.Printf("%v %v\n", g, err)
	case "delegated":
		fmt.Println(delegatedMemory())
	}
	os.Exit(0)
}

// delegatedMemory runs a process that takes too much memory in a v2 group below the caller's
// cgroup. It returns how the process was killed, or why there is no such group.
func delegatedMemory() string {
	g, err := Open(Machine(), 96<<20, 64, 1)
	if err != nil || g == nil {
		return fmt.Sprintf("no group: %v", err)
	}
	if !g.unified || !g.Memory() || !g.PIDs() {
		return fmt.Sprintf("no group of v2 with memory and pids: %v", g.Close())
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestGroupChild$", "-test.count=1")
	cmd.Env, cmd.Dir, cmd.Stdin = []string{groupRole + "=memory"}, "/", strings.NewReader("\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.Descriptor()}
	err = cmd.Run()
	return fmt.Sprintf("%v %v %v", killedBy(err), g.OOMKills() > 0, g.Close())
}

// takeMemory touches much more memory than any test allows.
func takeMemory() {
	b := make([]byte, 512<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println(len(b))
}

// takeTasks forks until the kernel refuses and prints the error. It makes system calls
// without the runtime, which ends the program when it cannot have a thread.
func takeTasks() {
	debug.SetGCPercent(-1)
	said := map[syscall.Errno][]byte{syscall.EAGAIN: []byte("EAGAIN\n")}
	other := []byte("another error\n")
	for range 1000 {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if pid == 0 && errno == 0 {
			for {
				syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		if errno != 0 {
			text, ok := said[errno]
			if !ok {
				text = other
			}
			rawWrite(text)
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	rawWrite([]byte("no error\n"))
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}

func rawWrite(b []byte) {
	syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
}

// makeGroupAndWait opens a group with a process in it, prints its folders and waits to be
// killed.
func makeGroupAndWait() {
	g, err := Open(Machine(), 64<<20, 32, 1)
	if g == nil {
		fmt.Println("none", err)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestGroupChild$")
	cmd.Env = rehearsal.Env(groupRole + "=sleep")
	stdin, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		fmt.Println("none", err)
		return
	}
	io.WriteString(stdin, "\n")
	if err := g.add(cmd.Process.Pid); err != nil {
		fmt.Println("none", err)
		return
	}
	fmt.Println(cmd.Process.Pid, strings.Join(g.paths(), " "))
	time.Sleep(time.Hour)
}

func (g *Group) paths() []string {
	var list []string
	for _, f := range g.folders {
		list = append(list, f.path)
	}
	return list
}

// realGroup opens a group on this machine, and skips the test if none is available.
func realGroup(t *testing.T, memory int64, tasks, cpus int) *Group {
	t.Helper()
	g, err := Open(Machine(), memory, tasks, cpus)
	if err != nil {
		t.Fatal(err)
	}
	if g == nil {
		t.Skip("no cgroup can be had here")
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// inGroup starts a child in a group, by descriptor where the group has one.
func inGroup(t *testing.T, g *Group, role string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	var attr *syscall.SysProcAttr
	if fd := g.Descriptor(); fd >= 0 {
		attr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	}
	cmd, in, out = groupChild(t, role, attr)
	if attr == nil {
		if err := g.add(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(g.members(), cmd.Process.Pid) {
		t.Fatalf("process %d is not among the members %v", cmd.Process.Pid, g.members())
	}
	return cmd, in, out
}

// ownFolders returns the folders of groups that this process has made and not removed.
func ownFolders(t *testing.T, root Root) []string {
	t.Helper()
	var list []string
	for _, homes := range root.Homes(Limits{1, 1, 1}) {
		for _, h := range homes {
			found, err := filepath.Glob(filepath.Join(h.Folder, Prefix+strconv.Itoa(os.Getpid())+"-*"))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, found...)
		}
	}
	return list
}

func killedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	status := exit.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		return 0
	}
	return status.Signal()
}

func TestGroupMemory(t *testing.T) {
	const limit = 96 << 20
	g := realGroup(t, limit, 64, 1)
	if !g.Memory() {
		t.Skip("no limit of memory can be had here")
	}
	cmd, in, out := inGroup(t, g, "memory")
	if n := g.OOMKills(); n != 0 {
		t.Fatalf("%d processes killed before anything ran", n)
	}
	in.Write([]byte("\n"))
	said, _ := io.ReadAll(out)
	if sig := killedBy(cmd.Wait()); sig != syscall.SIGKILL {
		t.Fatalf("ended with signal %v and said %q, want SIGKILL", sig, said)
	}
	if n := g.OOMKills(); n < 1 {
		t.Errorf("oomKills is %d after one", n)
	}
	// The kernel counts in batches: a peak can be some pages above the limit.
	if p := g.Peak(); p > limit+64<<10 || (!g.unified && p < limit/2) {
		t.Errorf("peak is %d with a limit of %d", p, limit)
	}
}

func TestGroupTasks(t *testing.T) {
	g := realGroup(t, 256<<20, 40, 1)
	if !g.PIDs() {
		t.Skip("no limit of processes can be had here")
	}
	_, in, out := inGroup(t, g, "tasks")
	in.Write([]byte("\n"))
	if said, err := out.ReadString('\n'); said != "EAGAIN\n" {
		t.Fatalf("the fork ended with %q, %v, want EAGAIN", said, err)
	}
	if n := len(g.members()); n == 0 || n > 40 {
		t.Errorf("%d members, want at most 40 that stay", n)
	}
	g.Kill()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if left := ownFolders(t, Machine()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGroupKillLeavesItUsable(t *testing.T) {
	g := realGroup(t, 256<<20, 64, 1)
	for range 3 {
		cmd, in, _ := inGroup(t, g, "sleep")
		in.Write([]byte("\n"))
		g.Kill()
		if sig := killedBy(cmd.Wait()); sig != syscall.SIGKILL {
			t.Fatalf("ended with signal %v, want SIGKILL", sig)
		}
	}
}

func TestGroupCloseKillsAndRemoves(t *testing.T) {
	g := realGroup(t, 256<<20, 64, 1)
	var children []*exec.Cmd
	for range 3 {
		cmd, in, _ := inGroup(t, g, "sleep")
		in.Write([]byte("\n"))
		children = append(children, cmd)
	}
	folders := g.paths()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range children {
		if sig := killedBy(cmd.Wait()); sig != syscall.SIGKILL {
			t.Errorf("ended with signal %v, want SIGKILL", sig)
		}
	}
	for _, f := range folders {
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", f, err)
		}
	}
	if err := g.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	g.Kill()
	if err := g.add(os.Getpid()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("add to a closed group: %v", err)
	}
	if g.Descriptor() != -1 || g.OOMKills() != 0 || g.Peak() != 0 {
		t.Errorf("a closed group answers")
	}
}

// A process of the group may have made groups of its own and died.
func TestGroupCloseRemovesWhatIsBelow(t *testing.T) {
	g := realGroup(t, 256<<20, 64, 1)
	for _, f := range g.paths() {
		if err := os.MkdirAll(filepath.Join(f, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !g.unified {
		cmd, _, _ := groupChild(t, "sleep", nil)
		if err := g.root.tree.write(filepath.Join(g.paths()[0], "a", "b", "cgroup.procs"), strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if left := ownFolders(t, Machine()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGroupsLeaveNothing(t *testing.T) {
	realGroup(t, 64<<20, 64, 1).Close()
	before := openDescriptors(t)
	for range 100 {
		if err := realGroup(t, 64<<20, 64, 1).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if left := ownFolders(t, Machine()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestGroupsAtTheSameTime(t *testing.T) {
	first := realGroup(t, 64<<20, 64, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				g, err := Open(Machine(), 64<<20, 64, 1)
				if err != nil || g == nil {
					t.Errorf("no group: %v", err)
					return
				}
				if g.Held != first.Held || len(g.folders) != len(first.folders) {
					t.Errorf("holds %+v in %v, the first %+v", g.Held, g.paths(), first.Held)
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	first.Close()
	if left := ownFolders(t, Machine()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSweepGroups(t *testing.T) {
	live := realGroup(t, 64<<20, 64, 1)
	maker, in, out := groupChild(t, "maker", nil)
	in.Write([]byte("\n"))
	line, _ := out.ReadString('\n')
	fields := strings.Fields(line)
	if len(fields) < 2 || fields[0] == "none" {
		t.Skipf("another process can have no group: %q", line)
	}
	sleeper, _ := strconv.Atoi(fields[0])
	folders := fields[1:]
	there := func() (n int) {
		for _, f := range folders {
			if _, err := os.Stat(f); err == nil {
				n++
			}
		}
		return n
	}
	if err := Sweep(Machine()); err != nil {
		t.Fatal(err)
	}
	if n := there(); n != len(folders) {
		t.Fatalf("%d of %d folders are there while their maker lives", n, len(folders))
	}
	maker.Process.Kill()
	maker.Wait()
	if err := Sweep(Machine()); err != nil {
		t.Fatal(err)
	}
	// Another process on this machine may be sweeping it, and about to finish.
	for end := time.Now().Add(time.Minute); there() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d of %d folders are there after their maker died", there(), len(folders))
			break
		}
	}
	if s, err := Machine().process(strconv.Itoa(sleeper)); err == nil && !s.dead {
		t.Errorf("process %d of the dead maker's group lives", sleeper)
	}
	for _, f := range live.paths() {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("the group of a living maker: %v", err)
		}
	}
}

// A maker that this pid namespace cannot see still holds the lock.
func TestSweepLeavesWhatIsHeldOpen(t *testing.T) {
	g := realGroup(t, 64<<20, 64, 1)
	blind := Machine()
	blind.proc = t.TempDir()
	for _, name := range []string{"cgroup", "mountinfo", "stat"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			t.Fatal(err)
		}
		writeAll(t, filepath.Join(blind.proc, "self"), map[string]string{name: string(text)})
	}
	if own, _ := ParseName(filepath.Base(g.paths()[0])); !blind.gone(own) {
		t.Fatal("the maker should seem gone")
	}
	if err := Sweep(blind); err != nil {
		t.Fatal(err)
	}
	for _, f := range g.paths() {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

func TestGroupOfAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	cmd, in, out := groupChild(t, "ordinary", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	in.Write([]byte("\n"))
	if said, err := out.ReadString('\n'); said != "<nil> <nil>\n" {
		t.Errorf("openGroup is %q, %v, want <nil> <nil>", said, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, homes := range Machine().Homes(Limits{1, 1, 1}) {
		for _, h := range homes {
			if left, _ := filepath.Glob(filepath.Join(h.Folder, Prefix+strconv.Itoa(cmd.Process.Pid)+"-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	}
}

// TestDelegatedGroup bounds the memory of a command in a v2 cgroup that is delegated to an
// ordinary user. This is the user who runs the test. If root runs the test, root delegates
// the cgroup to another user.
func TestDelegatedGroup(t *testing.T) {
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		g := realGroup(t, 512<<20, 128, 1)
		if !g.unified || !g.Memory() || !g.PIDs() {
			t.Skip("no v2 cgroup with memory and pids can be delegated here")
		}
		const user = 65534
		parent := g.paths()[0]
		job := filepath.Join(parent, "job")
		for _, c := range []string{cgroupMemory, cgroupPIDs} {
			if err := g.root.tree.write(filepath.Join(parent, "cgroup.subtree_control"), "+"+c); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(job, 0o755); err != nil {
			t.Fatal(err)
		}
		// The user must pass the folders above, and the group belongs to root alone.
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(job, name), user, user); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := os.Open(job)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	cmd, in, out := groupChild(t, "delegated", attr)
	in.Write([]byte("\n"))
	said, _ := out.ReadString('\n')
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 && strings.HasPrefix(said, "no group") {
		t.Skipf("no v2 cgroup with memory and pids is delegated to this user: %s", said)
	}
	if said != "killed true <nil>\n" {
		t.Errorf("the command in the delegated cgroup: %q", said)
	}
}

// TestDelegatedGroupAbove: a caller that shares its cgroup with others uses the cgroup
// above, if that was delegated to the user. That cgroup comes before v1, whatever v1 offers.
func TestDelegatedGroupAbove(t *testing.T) {
	f, root, job := newUnified(t, "memory pids", 99)
	f.own = "groups/v2"
	scope := f.cgroup("groups/v2/job/scope", map[string]string{
		"cgroup.procs": strconv.Itoa(os.Getpid()) + "\n99", "cgroup.type": "domain\n", "cgroup.controllers": "memory pids", "cgroup.subtree_control": "",
	})
	f.cgroup("groups/v2/job", map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "memory pids"})
	writeAll(t, filepath.Join(f.proc, "self"), map[string]string{"cgroup": "0::/job/scope\n"})
	mustNotOpen(t, root) // nothing was delegated to root
	root.user = os.Geteuid()
	if root.user == 0 {
		root.user = 65534
		mustNotOpen(t, root) // nor to this user
		for _, name := range []string{job, filepath.Join(job, "cgroup.procs")} {
			if err := os.Chown(name, root.user, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	g := mustOpen(t, root, 64<<20, 32, 1)
	defer g.Close()
	wantHeld(t, g, true, true, false)
	if filepath.Dir(g.paths()[0]) != job {
		t.Errorf("the group is %v, want it in %s", g.paths(), job)
	}
	wantFiles(t, scope, map[string]string{"cgroup.subtree_control": ""})
}

// Starting and killing in v2 need no controller: this test runs wherever v2 is mounted.
func TestUnifiedGroupStartsAndKills(t *testing.T) {
	root := Machine()
	var home string
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			home, _ = root.find(root.cgroupMounts(), "cgroup2", "", path)
		}
	}
	self, err := root.process("self")
	if err != nil || home == "" {
		t.Skip("no v2 hierarchy is mounted here")
	}
	path := filepath.Join(home, Name{self.id, self.start, cgroupNames}.String())
	if err := root.tree.mkdir(path); err != nil {
		t.Skipf("no v2 cgroup can be had here: %v", err)
	}
	f, err := openFolder(path, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	g := &Group{root: root, unified: true, folders: []cgroupFolder{f}}
	t.Cleanup(func() { g.Close() })
	if !g.usable(path) {
		t.Skip("the caller's own v2 cgroup is threaded")
	}
	for range 2 {
		cmd, in, _ := inGroup(t, g, "sleep")
		in.Write([]byte("\n"))
		g.Kill()
		if sig := killedBy(cmd.Wait()); sig != syscall.SIGKILL {
			t.Errorf("ended with signal %v, want SIGKILL", sig)
		}
	}
	inGroup(t, g, "sleep")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
}

// fakeTree simulates the kernel's cgroups with ordinary folders: new folders have their
// files from the beginning, and existing processes are moved.
type fakeTree struct {
	t      *testing.T
	root   string            // root of the files
	refuse map[string]error  // error of writing to a file, or of making a folder, with this name
	proc   string            // /proc, whose self/cgroup follows the moves
	own    string            // mount point of the hierarchy whose moves proc follows
	extra  map[string]string // additional files of new folders
	drop   []string          // files that new folders do not have
}

// newFake makes a machine with the pid and start time of this process, and with this cgroup
// and mountinfo.
func newFake(t *testing.T, cgroup string, mountinfo ...string) (*fakeTree, Root) {
	t.Helper()
	dir := t.TempDir()
	f := &fakeTree{t: t, root: filepath.Join(dir, "files"), proc: filepath.Join(dir, "proc"), refuse: map[string]error{}}
	writeAll(t, filepath.Join(f.proc, "self"), map[string]string{
		"cgroup": cgroup, "mountinfo": strings.Join(mountinfo, "\n") + "\n", "stat": fakeStat(os.Getpid(), "S", 777),
	})
	writeAll(t, filepath.Join(f.proc, strconv.Itoa(os.Getpid())), map[string]string{"stat": fakeStat(os.Getpid(), "S", 777)})
	return f, Root{files: f.root, proc: f.proc, tree: f}
}

// groupName is the name of a group of this process on a fake machine.
func groupName(n int) string { return fmt.Sprintf("fiador-%d-777-%d", os.Getpid(), n) }

func fakeStat(pid int, state string, start int) string {
	return fmt.Sprintf("%d (a ) b) %s 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 1 1 1\n", pid, state, start)
}

func writeAll(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// cgroup makes the files of a cgroup that do not exist yet.
func (f *fakeTree) cgroup(folder string, files map[string]string) string {
	f.t.Helper()
	folder = filepath.Join(f.root, folder)
	writeAll(f.t, folder, files)
	return folder
}

func (f *fakeTree) read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return strings.TrimSpace(string(text))
}

// files returns the files of a new cgroup below another.
func (f *fakeTree) files(parent string) map[string]string {
	files := map[string]string{"cgroup.procs": ""}
	controllers := strings.Fields(filepath.Base(filepath.Dir(parent)) + " " + filepath.Base(parent))
	if enabled, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control")); err == nil {
		controllers = strings.Fields(string(enabled))
		maps.Copy(files, map[string]string{"cgroup.type": "domain\n", "cgroup.controllers": string(enabled), "cgroup.subtree_control": "", "cgroup.kill": ""})
		for i := range controllers {
			controllers[i] += "2"
		}
	}
	for _, c := range controllers {
		maps.Copy(files, map[string]map[string]string{
			"memory": {"memory.limit_in_bytes": "-1", "memory.memsw.limit_in_bytes": "-1", "memory.swappiness": "60",
				"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "memory.max_usage_in_bytes": "4096\n"},
			"pids":    {"pids.max": "max"},
			"cpu":     {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "50000\n"},
			"memory2": {"memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "0", "memory.events": "low 0\noom 9\noom_kill 2\noom_group_kill 1\n", "memory.peak": "8192\n"},
			"pids2":   {"pids.max": "max"},
			"cpu2":    {"cpu.max": "max 100000"},
		}[c])
	}
	maps.Copy(files, f.extra)
	for _, name := range f.drop {
		delete(files, name)
	}
	return files
}

func (f *fakeTree) mkdir(folder string) error {
	for _, name := range []string{folder, filepath.Dir(folder)} {
		if err := f.refuse["mkdir "+filepath.Base(name)]; err != nil {
			return err
		}
	}
	if err := unix.Mkdir(folder, 0o700); err != nil {
		return err
	}
	writeAll(f.t, folder, f.files(filepath.Dir(folder)))
	return nil
}

func (f *fakeTree) rmdir(folder string) error {
	if err := f.refuse["rmdir"]; err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return unix.ENOENT
	}
	if f.read(filepath.Join(folder, "cgroup.procs")) != "" || slices.ContainsFunc(entries, os.DirEntry.IsDir) {
		return unix.EBUSY
	}
	return os.RemoveAll(folder)
}

func (f *fakeTree) write(file, value string) error {
	name, folder := filepath.Base(file), filepath.Dir(file)
	if _, err := os.Stat(file); err != nil {
		return unix.ENOENT
	}
	if err := f.refuse[name+" "+value]; err != nil {
		return err
	}
	if err := f.refuse[name]; err != nil {
		return err
	}
	switch name {
	case "cgroup.procs":
		return f.move(folder, value)
	case "cgroup.kill":
		return os.WriteFile(filepath.Join(folder, "cgroup.procs"), nil, 0o644)
	case "cgroup.subtree_control":
		_, err := os.Stat(filepath.Join(folder, "cgroup.type"))
		if err == nil && f.read(filepath.Join(folder, "cgroup.procs")) != "" {
			return unix.EBUSY
		}
		enabled := strings.Fields(f.read(file))
		for _, c := range strings.Fields(value) {
			enabled = slices.DeleteFunc(enabled, func(e string) bool { return e == c[1:] })
			if c[0] == '+' {
				enabled = append(enabled, c[1:])
			}
		}
		value = strings.Join(enabled, " ")
	}
	return os.WriteFile(file, []byte(value), 0o644)
}

// move simulates a write to cgroup.procs: 0 is the writer.
func (f *fakeTree) move(folder, pid string) error {
	if pid == "0" {
		pid = strconv.Itoa(os.Getpid())
	}
	err := filepath.WalkDir(filepath.Join(f.root, f.own), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		rest := slices.DeleteFunc(strings.Fields(f.read(path)), func(s string) bool { return s == pid })
		if filepath.Dir(path) == folder {
			rest = append(rest, pid)
		}
		return os.WriteFile(path, []byte(strings.Join(rest, "\n")), 0o644)
	})
	if pid == strconv.Itoa(os.Getpid()) && f.own != "" {
		rel, _ := filepath.Rel(filepath.Join(f.root, f.own), folder)
		writeAll(f.t, filepath.Join(f.proc, "self"), map[string]string{"cgroup": "0::/" + rel + "\n"})
	}
	return err
}

// under lists the folders below a cgroup.
func (f *fakeTree) under(folder string) []string {
	var list []string
	for _, path := range foldersFrom(filepath.Join(f.root, folder))[1:] {
		rel, _ := filepath.Rel(filepath.Join(f.root, folder), path)
		list = append(list, rel)
	}
	return list
}

const unifiedMount = `41 31 0:38 / /groups/v2 rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate`

// newUnified makes a machine with v2 alone, where the caller shares the cgroup job with some
// other processes.
func newUnified(t *testing.T, controllers string, others ...int) (*fakeTree, Root, string) {
	t.Helper()
	f, root := newFake(t, "0::/job\n", "22 1 0:1 / / rw - ext4 /dev/root rw", unifiedMount)
	f.own = "groups/v2"
	f.cgroup(f.own, map[string]string{"cgroup.procs": "1", "cgroup.controllers": controllers, "cgroup.subtree_control": controllers})
	procs := strconv.Itoa(os.Getpid())
	for _, pid := range others {
		procs += "\n" + strconv.Itoa(pid)
	}
	job := f.cgroup("groups/v2/job", map[string]string{
		"cgroup.procs": procs, "cgroup.type": "domain\n", "cgroup.controllers": controllers, "cgroup.subtree_control": "",
	})
	return f, root, job
}

func mustOpen(t *testing.T, root Root, memory int64, tasks, cpus int) *Group {
	t.Helper()
	g, err := Open(root, memory, tasks, cpus)
	if err != nil || g == nil {
		t.Fatalf("openGroup is %v, %v, want a group", g, err)
	}
	return g
}

func mustNotOpen(t *testing.T, root Root) {
	t.Helper()
	if g, err := Open(root, 64<<20, 32, 1); g != nil || err != nil {
		t.Fatalf("openGroup is %v, %v, want nil, nil", g, err)
	}
}

func wantFiles(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || strings.TrimSpace(string(got)) != text {
			t.Errorf("%s is %q, %v, want %q", name, got, err, text)
		}
	}
}

func wantHeld(t *testing.T, g *Group, memory, pids, cpu bool) {
	t.Helper()
	if g.Memory() != memory || g.PIDs() != pids || g.CPU() != cpu {
		t.Errorf("memory %v, pids %v, cpu %v, want %v, %v, %v", g.Memory(), g.PIDs(), g.CPU(), memory, pids, cpu)
	}
}

func TestUnifiedGroup(t *testing.T) {
	f, root, job := newUnified(t, "cpuset cpu io memory pids")
	g := mustOpen(t, root, 64<<20, 32, 2)
	wantHeld(t, g, true, true, true)
	name := groupName(0)
	if got := f.under("groups/v2/job"); !slices.Equal(got, []string{name, cgroupSelf}) {
		t.Fatalf("below the caller's cgroup: %v", got)
	}
	wantFiles(t, filepath.Join(job, name), map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "32", "cpu.max": "200000 100000",
	})
	wantFiles(t, job, map[string]string{"cgroup.subtree_control": "memory pids cpu", "cgroup.procs": ""})
	wantFiles(t, filepath.Join(job, cgroupSelf), map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid())})
	if g.Descriptor() < 0 {
		t.Error("no descriptor")
	}
	if g.OOMKills() != 2 || g.Peak() != 8192 {
		t.Errorf("oomKills %d, peak %d, want 2 and 8192", g.OOMKills(), g.Peak())
	}

	// After its move, the caller finds the same cgroup.
	second := mustOpen(t, root, 64<<20, 32, 2)
	if want := filepath.Join(job, groupName(1)); second.paths()[0] != want {
		t.Errorf("the second group is %v, want %s", second.paths(), want)
	}
	if err := second.add(4242); err != nil {
		t.Fatal(err)
	}
	if got := second.members(); !slices.Equal(got, []int{4242}) {
		t.Errorf("members %v, want 4242", got)
	}
	if err := errors.Join(second.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	if got := f.under("groups/v2/job"); !slices.Equal(got, []string{cgroupSelf}) {
		t.Errorf("left behind: %v", got)
	}
}

// A caller that ends restores its cgroup, so that the next process can be put there. It does
// not if that would lift the limits of others.
func TestCallerGoesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(f *fakeTree)
		goes bool
	}{
		{name: "alone", goes: true},
		{name: "a group is open", set: func(f *fakeTree) { f.mkdir(filepath.Join(f.root, "groups/v2/job", groupName(7))) }},
		{name: "others have followed", set: func(f *fakeTree) { f.move(filepath.Join(f.root, "groups/v2/job", cgroupSelf), "99") }},
		{name: "others have enabled more", set: func(f *fakeTree) { f.write(filepath.Join(f.root, "groups/v2/job/cgroup.subtree_control"), "+io") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, root, job := newUnified(t, "cpu io memory pids")
			if err := mustOpen(t, root, 64<<20, 32, 2).Close(); err != nil {
				t.Fatal(err)
			}
			if c.set != nil {
				c.set(f)
			}
			before := f.read(filepath.Join(job, "cgroup.subtree_control"))
			root.GoBack()
			if !c.goes {
				wantFiles(t, job, map[string]string{"cgroup.procs": "", "cgroup.subtree_control": before})
				return
			}
			if got := f.under("groups/v2/job"); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
			wantFiles(t, job, map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid()), "cgroup.subtree_control": ""})
			root.GoBack() // nothing to undo
			wantHeld(t, mustOpen(t, root, 64<<20, 32, 2), true, true, true)
		})
	}
}

func TestUnifiedGroupOnceEnabled(t *testing.T) {
	f, root, job := newUnified(t, "cpu memory pids", 99)
	f.cgroup("groups/v2/job", map[string]string{"cgroup.subtree_control": "cpu memory pids"})
	g := mustOpen(t, root, 64<<20, 32, 1)
	defer g.Close()
	wantHeld(t, g, true, true, true)
	if filepath.Dir(g.paths()[0]) != job {
		t.Errorf("the group is %v", g.paths())
	}
	if _, err := os.Stat(filepath.Join(job, cgroupSelf)); err == nil {
		t.Error("the caller has moved without need")
	}
}

func TestUnifiedGroupHoldsWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name              string
		controllers       string
		drop              []string
		refuse            map[string]error
		swaps             string
		memory, pids, cpu bool
	}{
		{name: "no cpu", controllers: "memory pids", memory: true, pids: true},
		{name: "no memory", controllers: "cpu pids", pids: true, cpu: true},
		{name: "memory is refused", controllers: "cpu memory pids", refuse: map[string]error{"memory.max": unix.EINVAL}, pids: true, cpu: true},
		{name: "swap is refused", controllers: "cpu memory pids", refuse: map[string]error{"memory.swap.max": unix.EACCES}, pids: true, cpu: true},
		{name: "swap is not counted", controllers: "cpu memory pids", drop: []string{"memory.swap.max"}, swaps: "Filename Type\n/dev/sda2 partition\n", pids: true, cpu: true},
		{name: "there is no swap", controllers: "cpu memory pids", drop: []string{"memory.swap.max", "memory.oom.group"}, swaps: "Filename Type\n", memory: true, pids: true, cpu: true},
		{name: "no bandwidth", controllers: "cpu memory pids", drop: []string{"cpu.max"}, memory: true, pids: true},
		{name: "one cannot be enabled", controllers: "cpu memory pids", refuse: map[string]error{"cgroup.subtree_control +cpu": unix.EINVAL}, memory: true, pids: true},
		{name: "an old kernel", controllers: "cpu memory pids", drop: []string{"memory.peak", "cgroup.kill"}, memory: true, pids: true, cpu: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, root, _ := newUnified(t, c.controllers)
			f.drop = c.drop
			maps.Copy(f.refuse, c.refuse)
			if c.swaps != "" {
				writeAll(t, f.proc, map[string]string{"swaps": c.swaps})
			}
			g := mustOpen(t, root, 64<<20, 32, 1)
			defer g.Close()
			wantHeld(t, g, c.memory, c.pids, c.cpu)
			if !c.memory && (g.OOMKills() != 0 || g.Peak() != 0) {
				t.Errorf("oomKills %d, peak %d without memory", g.OOMKills(), g.Peak())
			}
		})
	}
}

func TestGroupHoldsWhatIsAsked(t *testing.T) {
	f, root, job := newUnified(t, "cpu memory pids")
	g := mustOpen(t, root, 0, 32, -1)
	defer g.Close()
	wantHeld(t, g, false, true, false)
	wantFiles(t, job, map[string]string{"cgroup.subtree_control": "pids"})
	if g, err := Open(root, 0, 0, 0); g != nil || err != nil {
		t.Errorf("without limits openGroup is %v, %v", g, err)
	}
	if got := f.under("groups/v2/job"); len(got) != 2 {
		t.Errorf("below the caller's cgroup: %v", got)
	}
}

func TestNoUnifiedGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		others []int
		set    func(f *fakeTree)
	}{
		{name: "other processes", others: []int{99}},
		{name: "processes of another pid namespace", others: []int{0}},
		{name: "nothing can be enabled", set: func(f *fakeTree) { f.refuse["cgroup.subtree_control"] = unix.EACCES }},
		{name: "no group can be made", set: func(f *fakeTree) {
			f.cgroup("groups/v2/job", map[string]string{"cgroup.procs": ""})
			f.refuse["mkdir "+groupName(0)] = unix.EAGAIN
		}},
		{name: "no folder can be made", set: func(f *fakeTree) { f.refuse["mkdir job"] = unix.EACCES }},
		{name: "the caller cannot move", set: func(f *fakeTree) { f.refuse["cgroup.procs"] = unix.EACCES }},
		{name: "no limit can be set", set: func(f *fakeTree) {
			f.cgroup("groups/v2/job", map[string]string{"cgroup.procs": ""})
			for _, name := range []string{"memory.max", "pids.max", "cpu.max"} {
				f.refuse[name] = unix.EACCES
			}
		}},
		{name: "threaded", set: func(f *fakeTree) {
			f.cgroup("groups/v2/job", map[string]string{"cgroup.subtree_control": "cpu memory pids"})
			f.extra = map[string]string{"cgroup.type": "domain invalid\n"}
		}},
		{name: "no controller", set: func(f *fakeTree) { f.cgroup("groups/v2/job", map[string]string{"cgroup.controllers": "hugetlb"}) }},
		{name: "read-only", set: func(f *fakeTree) {
			writeAll(f.t, filepath.Join(f.proc, "self"), map[string]string{"mountinfo": strings.Replace(unifiedMount, "rw,nosuid", "ro,nosuid", 1) + "\n"})
		}},
		{name: "not the caller's part", set: func(f *fakeTree) {
			writeAll(f.t, filepath.Join(f.proc, "self"), map[string]string{"mountinfo": strings.Replace(unifiedMount, " / ", " /jo ", 1) + "\n"})
		}},
		{name: "outside the namespace", set: func(f *fakeTree) {
			writeAll(f.t, filepath.Join(f.proc, "self"), map[string]string{"cgroup": "0::/../job\n"})
		}},
		{name: "removed", set: func(f *fakeTree) {
			writeAll(f.t, filepath.Join(f.proc, "self"), map[string]string{"cgroup": "0::/job (deleted)\n"})
		}},
		{name: "no processes to look at", set: func(f *fakeTree) { os.Remove(filepath.Join(f.proc, "self", "stat")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, root, job := newUnified(t, "cpu memory pids", c.others...)
			if c.set != nil {
				c.set(f)
			}
			before := f.read(filepath.Join(job, "cgroup.procs"))
			mustNotOpen(t, root)
			if got := f.under("groups/v2/job"); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
			if after := f.read(filepath.Join(job, "cgroup.procs")); after != before {
				t.Errorf("the caller's cgroup holds %q, %q before", after, before)
			}
		})
	}
}

func TestGroupThatCannotBeRemoved(t *testing.T) {
	f, root, _ := newUnified(t, "cpu memory pids")
	f.cgroup("groups/v2/job", map[string]string{"cgroup.procs": ""})
	g := mustOpen(t, root, 64<<20, 32, 1)
	for _, name := range []string{"memory.max", "pids.max", "cpu.max"} {
		f.refuse[name] = unix.EINVAL
	}
	f.refuse["rmdir"] = unix.EACCES
	if g, err := Open(root, 64<<20, 32, 1); g != nil || !errors.Is(err, unix.EACCES) {
		t.Errorf("openGroup is %v, %v, want EACCES", g, err)
	}
	if err := g.Close(); !errors.Is(err, unix.EACCES) {
		t.Errorf("close is %v, want EACCES", err)
	}
}

func TestNoMachineNoGroup(t *testing.T) {
	mustNotOpen(t, Root{})
	if err := Sweep(Root{}); err != nil {
		t.Error(err)
	}
}

// The mounts of a container: each mount is the container's part of a hierarchy, memory with
// a blank in the name, cpu with cpuacct.
var legacyMounts = []string{
	`32 31 0:29 /docker/ab /groups/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct`,
	`35 31 0:32 /docker/ab /groups/mem\040ory rw - cgroup cgroup rw,memory`,
	`39 31 0:36 / /groups/pids rw - cgroup cgroup rw,pids`,
	`40 31 0:37 / /groups/systemd rw - cgroup cgroup rw,name=systemd`,
	`41 31 0:38 / /groups/v2 rw - cgroup2 cgroup2 rw`,
}

const legacyCgroup = "4:memory:/docker/ab/job\n3:pids:/\n2:cpu,cpuacct:/docker/ab\n1:name=systemd:/\n0::/\n"

func newLegacy(t *testing.T) (*fakeTree, Root) {
	t.Helper()
	f, root := newFake(t, legacyCgroup, legacyMounts...)
	for _, folder := range []string{"groups/cpu,cpuacct", "groups/mem ory/job", "groups/pids", "groups/systemd"} {
		f.cgroup(folder, map[string]string{"cgroup.procs": "1"})
	}
	f.cgroup("groups/v2", map[string]string{"cgroup.procs": "1", "cgroup.controllers": "hugetlb", "cgroup.subtree_control": ""})
	f.extra = map[string]string{
		"memory.limit_in_bytes": "-1", "memory.memsw.limit_in_bytes": "-1", "memory.swappiness": "60", "pids.max": "max",
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "memory.max_usage_in_bytes": "4096\n",
		"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "50000\n",
	}
	return f, root
}

func TestLegacyGroup(t *testing.T) {
	f, root := newLegacy(t)
	g := mustOpen(t, root, 64<<20, 32, 2)
	wantHeld(t, g, true, true, true)
	name := groupName(0)
	memory := filepath.Join(f.root, "groups/mem ory/job", name)
	cpu := filepath.Join(f.root, "groups/cpu,cpuacct", name)
	pids := filepath.Join(f.root, "groups/pids", name)
	if got := g.paths(); !slices.Equal(got, []string{memory, pids, cpu}) {
		t.Fatalf("folders %v", got)
	}
	wantFiles(t, memory, map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "memory.swappiness": "60"})
	wantFiles(t, cpu, map[string]string{"cpu.cfs_quota_us": "100000"})
	wantFiles(t, pids, map[string]string{"pids.max": "32"})
	if g.Descriptor() != -1 || g.OOMKills() != 3 || g.Peak() != 4096 {
		t.Errorf("descriptor %d, oomKills %d, peak %d", g.Descriptor(), g.OOMKills(), g.Peak())
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := f.under("groups"); slices.Contains(got, name) {
		t.Errorf("left behind: %v", got)
	}
}

func TestLegacyGroupHoldsWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name              string
		set               func(f *fakeTree)
		memory, pids, cpu bool
		files             map[string]string // files of the first folder
	}{
		{name: "swap is not counted", set: func(f *fakeTree) { f.drop = []string{"memory.memsw.limit_in_bytes"} },
			memory: true, pids: true, cpu: true, files: map[string]string{"memory.swappiness": "0"}},
		{name: "swap widens the limit", set: func(f *fakeTree) { f.drop = []string{"memory.memsw.limit_in_bytes", "memory.swappiness"} },
			pids: true, cpu: true},
		{name: "swap is refused", set: func(f *fakeTree) { f.refuse["memory.memsw.limit_in_bytes"] = unix.EINVAL },
			pids: true, cpu: true},
		{name: "killing is off above", set: func(f *fakeTree) { f.extra["memory.oom_control"] = "oom_kill_disable 1\n" },
			memory: true, pids: true, cpu: true, files: map[string]string{"memory.oom_control": "0"}},
		{name: "killing cannot be turned on", set: func(f *fakeTree) {
			f.extra["memory.oom_control"], f.refuse["memory.oom_control"] = "oom_kill_disable 1\n", unix.EINVAL
		}, pids: true, cpu: true},
		{name: "more processors than there may be", set: func(f *fakeTree) { f.refuse["cpu.cfs_quota_us"] = unix.EINVAL },
			memory: true, pids: true},
		{name: "one hierarchy belongs to others", set: func(f *fakeTree) { f.refuse["mkdir pids"] = unix.EACCES },
			memory: true, cpu: true},
		{name: "the name is taken in one", set: func(f *fakeTree) {
			f.cgroup("groups/pids/"+groupName(0), map[string]string{"cgroup.procs": ""})
		}, memory: true, pids: true, cpu: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, root := newLegacy(t)
			c.set(f)
			before := f.under("groups")
			g := mustOpen(t, root, 64<<20, 32, 2)
			wantHeld(t, g, c.memory, c.pids, c.cpu)
			wantFiles(t, g.paths()[0], c.files)
			names := map[string]bool{}
			for _, p := range g.paths() {
				names[filepath.Base(p)] = true
			}
			if len(names) != 1 || len(f.under("groups")) != len(before)+len(g.paths()) {
				t.Errorf("folders %v among %v", g.paths(), f.under("groups"))
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			if after := f.under("groups"); !slices.Equal(after, before) {
				t.Errorf("left behind: %v, before %v", after, before)
			}
		})
	}
}

func TestSweepTellsDeadMakers(t *testing.T) {
	f, root := newLegacy(t)
	writeAll(t, filepath.Join(f.proc, "500"), map[string]string{"stat": fakeStat(500, "S", 1000)})
	writeAll(t, filepath.Join(f.proc, "501"), map[string]string{"stat": fakeStat(501, "Z", 1000)})
	writeAll(t, filepath.Join(f.proc, "502"), map[string]string{"stat": "nonsense"})
	keep := []string{"fiador-500-1000-0", "fiador-500-1000-12", "fiador-502-1000-0", "fiador-self", "fiador-7-8", "fiador-07-8-0", "fiador-7-8-0-1", "fiador--7-8-0", "other-7-8-0"}
	lose := []string{"fiador-500-999-0", "fiador-501-1000-0", "fiador-7-8-0"}
	for _, name := range append(slices.Clone(keep), lose...) {
		for _, h := range []string{"groups/cpu,cpuacct", "groups/mem ory/job", "groups/pids"} {
			f.cgroup(filepath.Join(h, name), map[string]string{"cgroup.procs": ""})
		}
	}
	if err := Sweep(root); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(keep))
	for _, h := range []string{"groups/cpu,cpuacct", "groups/mem ory/job", "groups/pids"} {
		if got := f.under(h); !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", h, got, want)
		}
	}
	f.cgroup("groups/pids/fiador-7-8-0", map[string]string{"cgroup.procs": ""})
	f.refuse["rmdir"] = unix.EPERM
	if err := Sweep(root); err != nil {
		t.Errorf("a group of somebody else: %v", err)
	}
	f.refuse["rmdir"] = unix.EIO
	if err := Sweep(root); !errors.Is(err, unix.EIO) {
		t.Errorf("a group that cannot be removed: %v", err)
	}
}

func TestHomesPreferWhatBoundsOrOffersMore(t *testing.T) {
	f, root := newLegacy(t)
	for _, c := range []struct {
		controllers string
		unified     []bool
	}{
		{"hugetlb", []bool{false}},
		{"memory hugetlb", []bool{false, true}},
		{"cpu memory pids", []bool{true, false}},
		{"memory pids", []bool{true, false}},
	} {
		f.cgroup("groups/v2", map[string]string{"cgroup.controllers": c.controllers})
		var got []bool
		for _, homes := range root.Homes(Limits{1, 1, 1}) {
			got = append(got, homes[0].unified)
		}
		if !slices.Equal(got, c.unified) {
			t.Errorf("with v2 offering %q: %v, want %v", c.controllers, got, c.unified)
		}
	}
}

func TestParseCgroupName(t *testing.T) {
	good := Name{12, 34567, 8}
	if got, ok := ParseName(good.String()); !ok || got != good {
		t.Errorf("%s is %+v, %v", good, got, ok)
	}
	for _, bad := range []string{"", "12-3-4", "fiador-", "fiador-self", "fiador-1-2", "fiador-1-2-3-4", "fiador-01-2-3", "fiador-1-2-+3", "fiador-0-2-3", "fiador-1-99999999999999999999-3", "fiador-1-2-3\n", "fiador-fiador-1-2-3"} {
		if got, ok := ParseName(bad); ok {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func TestParseProcState(t *testing.T) {
	got, err := parseProcState(fakeStat(9, "Z", 4321))
	if want := (procState{9, 4321, true}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "9 (a) S 1", "x (a) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 1", ")", "9 (a"} {
		if got, err := parseProcState(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func BenchmarkGroup(b *testing.B) {
	for b.Loop() {
		g, err := Open(Machine(), 64<<20, 64, 1)
		if err != nil {
			b.Fatal(err)
		}
		if g == nil {
			b.Skip("no cgroup can be had here")
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// add moves a process with all its threads into the group. After an error the process may be
// in some of the folders. Memory that it used before stays with its former cgroup.
func (g *Group) add(pid int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return os.ErrClosed
	}
	for _, f := range g.folders {
		if err := g.write(f.path, "cgroup.procs", int64(pid)); err != nil {
			return fmt.Errorf("cannot add process %d to cgroup %q: %w", pid, f.path, err)
		}
	}
	return nil
}
