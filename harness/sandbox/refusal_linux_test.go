//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/tree"
)

// These tests produce each way in which a machine refuses a sandbox, in a process of its
// own: with its own namespaces, mounts, capabilities and filters. The same process then asks
// for sandboxes. Nothing outside of it changes.

// machine is a machine that refuses something.
type machine struct {
	name   string
	space  uintptr                 // namespaces in which its processes start
	ids    []syscall.SysProcIDMap  // ids of a user namespace whose root asks; nil: root and an ordinary user of the host ask
	set    func(work string) error // sets the machine up, with all capabilities
	calls  []answered              // system calls that a filter answers instead of the kernel
	hidden bool                    // nobody can see that a filter answers
	late   func() error            // runs last, before the process asks

	small    bool // the machine has little memory
	private  bool // the folder for copies is in a folder that others may not enter
	onlyRoot bool
	onlyUser bool

	full     verdict
	shown    verdict // for a full sandbox of root that must show a folder, where the verdict differs
	confined verdict
	staging  staging                      // of a full sandbox; empty: an overlay
	clauses  map[string]map[string]Status // by tier and clause, where it matters
}

// verdict says how a machine refuses a tier; zero value: it does not refuse.
type verdict struct {
	step  string // empty: any
	errno syscall.Errno
	cause string
}

func (v verdict) refused() bool { return v != verdict{} }

// answered is a filter's answer to a system call.
type answered struct {
	call  int
	errno syscall.Errno
	arg   uint32 // index of the deciding argument, with test and value; 0 with a zero test: none decides
	test  uint16
	value uint32
}

var (
	mountCalls = []int{unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR}
	oldCalls   = []int{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_UNSHARE, unix.SYS_SETNS}
)

func refuse(errno syscall.Errno, calls ...int) []answered {
	var list []answered
	for _, c := range calls {
		list = append(list, answered{call: c, errno: errno})
	}
	return list
}

// container returns the answers of a container runtime's filter.
func container() []answered {
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	return append(refuse(unix.EPERM, slices.Concat(mountCalls, oldCalls)...),
		answered{call: unix.SYS_CLONE, errno: unix.EPERM, test: unix.BPF_JSET, value: namespaces}, answered{call: unix.SYS_CLONE3, errno: unix.ENOSYS})
}

func machines() []machine {
	return slices.Concat(filteredMachines(), mountedMachines(), boundMachines())
}

// filteredMachines returns machines with a filter of system calls.
func filteredMachines() []machine {
	return []machine{
		{name: "nothing refused"},
		{
			name: "outer filter, of a container", calls: container(),
			full: verdict{StepStart, unix.EPERM, CauseSeccomp}, shown: verdict{initproc.OpOpen, unix.EPERM, CauseSeccomp},
		},
		{
			name: "outer filter, mounts only", calls: refuse(unix.EPERM, slices.Concat(mountCalls, oldCalls)...),
			full: verdict{initproc.OpPrivate, unix.EPERM, CauseSeccomp}, shown: verdict{initproc.OpOpen, unix.EPERM, CauseSeccomp},
		},
		{
			name: "outer filter, new mount calls", calls: refuse(unix.EPERM, mountCalls...),
			full: verdict{initproc.OpOpen, unix.EPERM, CauseSeccomp},
		},
		{
			name: "outer filter that does not know new mount calls", calls: refuse(unix.ENOSYS, mountCalls...),
			full: verdict{initproc.OpOpen, unix.ENOSYS, CauseSeccomp},
		},
		{
			name: "outer filter that does not know openat2", calls: refuse(unix.ENOSYS, unix.SYS_OPENAT2),
			full: verdict{"", unix.ENOSYS, CauseSeccomp}, confined: verdict{"", unix.ENOSYS, CauseSeccomp},
		},
		{
			name: "Linux 5.11", calls: refuse(unix.ENOSYS, unix.SYS_MOUNT_SETATTR, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF),
			space: unix.CLONE_NEWNS, hidden: true,
			full: verdict{initproc.OpOpen, unix.ENOSYS, CauseKernel}, confined: verdict{"landlock", unix.ENOSYS, CauseLandlock},
		},
		{
			name: "Linux 5.8", calls: refuse(unix.ENOSYS, unix.SYS_MOUNT_SETATTR, unix.SYS_CLOSE_RANGE, unix.SYS_LANDLOCK_CREATE_RULESET),
			space: unix.CLONE_NEWNS, hidden: true,
			full: verdict{"", unix.ENOSYS, CauseKernel}, confined: verdict{"landlock", unix.ENOSYS, CauseLandlock},
		},
		{
			name: "a kernel without user namespaces", space: unix.CLONE_NEWNS, hidden: true,
			calls: []answered{{call: unix.SYS_CLONE, errno: unix.EINVAL, test: unix.BPF_JSET, value: unix.CLONE_NEWUSER}},
			full:  verdict{StepStart, unix.EINVAL, CauseKernel},
		},
		{
			name: "no Landlock in the kernel", calls: refuse(unix.ENOSYS, unix.SYS_LANDLOCK_CREATE_RULESET),
			confined: verdict{"landlock", unix.ENOSYS, CauseLandlock},
			clauses:  map[string]map[string]Status{"full": {ClauseFiles: Partial}},
		},
		{
			name: "Landlock switched off", calls: refuse(unix.EOPNOTSUPP, unix.SYS_LANDLOCK_CREATE_RULESET),
			confined: verdict{"landlock", unix.ENOSYS, CauseLandlock},
			clauses:  map[string]map[string]Status{"full": {ClauseFiles: Partial}},
		},
		{
			// Only the overlay is mounted with these flags.
			name:    "no overlay in the kernel",
			calls:   []answered{{call: unix.SYS_MOUNT, errno: unix.ENODEV, arg: 3, test: unix.BPF_JEQ, value: unix.MS_NOSUID | unix.MS_NODEV}},
			staging: stageCopy, clauses: map[string]map[string]Status{"full": {ClauseDisk: Partial, ClauseFiles: Enforced}},
		},
	}
}

// mountedMachines returns machines with mounts of their own.
func mountedMachines() []machine {
	return []machine{
		{
			name: "masked proc, of a container", space: unix.CLONE_NEWNS, set: maskProc,
			full: verdict{initproc.OpProc, unix.EPERM, CauseProc},
		},
		{
			name: "no proc", space: unix.CLONE_NEWNS, late: func() error { return coverWith("/proc") },
			full: verdict{StepStart, unix.ENOENT, "no-proc"}, confined: verdict{StepStart, unix.ENOENT, "no-proc"},
		},
		{
			name: "no cgroup", space: unix.CLONE_NEWNS, set: func(string) error { return coverWith("/sys/fs/cgroup") },
			clauses: map[string]map[string]Status{"full": {ClauseMemory: Partial, ClauseProcesses: Partial, ClauseCPU: Enforced}, "confined": {ClauseMemory: Partial}},
		},
		{
			name: "overlays beneath the work folder", space: unix.CLONE_NEWNS, set: stackOverlays,
			staging: stageCopy, clauses: map[string]map[string]Status{"full": {ClauseDisk: Partial, ClauseFiles: Enforced}},
		},
		{
			name: "a private folder for copies", private: true, onlyRoot: true,
			confined: verdict{StepFiles, unix.EACCES, CauseTemp},
		},
		{
			name: "Ubuntu, as it looks", space: unix.CLONE_NEWNS, onlyUser: true,
			set:   func(string) error { return coverWith("/proc/sys/kernel", "apparmor_restrict_unprivileged_userns=1") },
			calls: refuse(unix.EACCES, unix.SYS_MOUNT),
			full:  verdict{initproc.OpPrivate, unix.EACCES, CauseAppArmor},
		},
		{
			name: "Debian 10, as it looks", space: unix.CLONE_NEWNS, onlyUser: true,
			set:   func(string) error { return coverWith("/proc/sys/kernel", "unprivileged_userns_clone=0") },
			calls: []answered{{call: unix.SYS_CLONE, errno: unix.EPERM, test: unix.BPF_JSET, value: unix.CLONE_NEWUSER}},
			full:  verdict{StepStart, unix.EPERM, CauseOff},
		},
		{
			name: "a changed root", space: unix.CLONE_NEWNS, late: changeRoot,
			full: verdict{StepStart, unix.EPERM, "changed-root"},
		},
	}
}

// boundMachines returns machines with limits, or with a root that lacks some rights.
func boundMachines() []machine {
	some := []syscall.SysProcIDMap{{ContainerID: 0, HostID: ordinaryID, Size: 1}, {ContainerID: 1, HostID: 100_000, Size: 65536}}
	return []machine{
		{
			name: "no user namespaces", space: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			set:  func(string) error { return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0) },
			full: verdict{StepStart, unix.ENOSPC, CauseLimit},
		},
		{
			name: "no net namespaces", space: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			set:  func(string) error { return os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0) },
			full: verdict{StepStart, unix.ENOSPC, CauseLimit},
		},
		{name: "limits of resources that are lower", set: lowerLimits, small: true},
		{
			name: "root that may not change ids", onlyRoot: true, late: func() error { return without(unix.CAP_SETUID, unix.CAP_SETGID) },
			full: verdict{StepStart, unix.EPERM, CauseCaps}, confined: verdict{"", unix.EPERM, CauseCaps},
		},
		{
			name: "root of a container, by its capabilities", onlyRoot: true,
			late: func() error {
				return without(unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE)
			},
			shown: verdict{initproc.OpOpen, unix.EPERM, CauseCaps},
		},
		{
			// Its commands would have root's id, and Landlock does not protect the modes of
			// root's files.
			name: "root without capabilities", onlyRoot: true, late: func() error { return without(allCapabilities()...) },
			full: verdict{StepStart, unix.EPERM, CauseCaps}, shown: verdict{initproc.OpOpen, unix.EPERM, CauseCaps}, confined: verdict{"", unix.EPERM, CauseCaps},
		},
		{
			// The file systems of the host cannot be shown under other ids there.
			name: "root of a user namespace", ids: some, space: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, staging: stageCopy,
		},
		{name: "root of a user namespace with one id", ids: some[:1], space: unix.CLONE_NEWUSER | unix.CLONE_NEWNS},
	}
}

// ---- what makes a machine ----

// coverWith hides the entry at a path behind files, as "name=text".
func coverWith(path string, files ...string) error {
	if err := unix.Mount("none", path, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		if err := os.WriteFile(filepath.Join(path, name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// maskProc covers parts of /proc as container runtimes do.
func maskProc(string) error {
	masked := 0
	for _, p := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/proc/acpi", "/proc/asound"} {
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		if masked++; info.IsDir() {
			err = coverWith(p)
		} else {
			err = unix.Mount("/dev/null", p, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if masked == 0 {
		return errors.New("there is nothing in /proc to mask")
	}
	return nil
}

// stackOverlays mounts as many overlays over a folder as the kernel allows.
func stackOverlays(work string) error {
	for range 2 {
		dir, err := os.MkdirTemp("", "layers")
		if err != nil {
			return err
		}
		if err := coverWith(dir); err != nil {
			return err
		}
		if err := errors.Join(os.Mkdir(dir+"/upper", 0o755), os.Mkdir(dir+"/work", 0o755)); err != nil {
			return err
		}
		if err := unix.Mount("overlay", work, "overlay", 0, "userxattr,lowerdir="+work+",upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	return nil
}

// lowerLimits sets limits below those of a sandbox.
func lowerLimits(string) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_NOFILE: 256, unix.RLIMIT_DATA: 300 * mib, unix.RLIMIT_FSIZE: 5 * mib, unix.RLIMIT_MEMLOCK: 16 * kib} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// unseen are the answers that hide a filter from a process that asks for it.
var unseen = []answered{{call: unix.SYS_PRCTL, test: unix.BPF_JEQ, value: unix.PR_GET_SECCOMP}}

// hideFilter makes this process look like one without a filter.
func hideFilter() error {
	status := fmt.Sprintf("/proc/%d/status", os.Getpid())
	b, err := os.ReadFile(status)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "status")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	text := strings.ReplaceAll(string(b), "Seccomp:\t2", "Seccomp:\t0")
	if err := errors.Join(os.WriteFile(f.Name(), []byte(text), 0o644), f.Chmod(0o644)); err != nil {
		return err
	}
	return unix.Mount(f.Name(), status, "", unix.MS_BIND, "")
}

// changeRoot makes a copy of the root's mounts the root, without leaving the old one.
func changeRoot() error {
	dir, err := os.MkdirTemp("", "root")
	if err != nil {
		return err
	}
	if err := unix.Mount("/", dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Chroot(dir)
}

func allCapabilities() []int {
	var list []int
	for c := range 64 {
		list = append(list, c)
	}
	return list
}

// without removes capabilities permanently.
func without(capabilities ...int) error {
	for _, c := range capabilities {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return nil
}

// answerCalls installs a filter.
func answerCalls(list []answered) error {
	var code []unix.SockFilter
	add := func(op uint16, k uint32, onTrue, onFalse uint8) {
		code = append(code, unix.SockFilter{Code: op, Jt: onTrue, Jf: onFalse, K: k})
	}
	const load, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	for _, a := range list {
		add(load, 0, 0, 0) // the number of the call
		if a.test == 0 {
			add(equal, uint32(a.call), 0, 1)
		} else {
			add(equal, uint32(a.call), 0, 3)
			add(load, 16+8*a.arg, 0, 0)
			add(unix.BPF_JMP|a.test|unix.BPF_K, a.value, 0, 1)
		}
		add(end, unix.SECCOMP_RET_ERRNO|uint32(a.errno), 0, 0)
	}
	add(end, unix.SECCOMP_RET_ALLOW, 0, 0)
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	install := func() error {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
		if errno != 0 {
			return errno
		}
		return nil
	}
	err := install()
	if err == unix.EACCES {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			err = install()
		}
	}
	runtime.KeepAlive(code)
	return err
}

// becomeOrdinary gives up root's ids, or a user's capabilities.
func becomeOrdinary() error {
	if os.Geteuid() != 0 {
		return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	for _, c := range []struct{ call, n uintptr }{{unix.SYS_SETGROUPS, 0}, {unix.SYS_SETRESGID, ordinaryID}, {unix.SYS_SETRESUID, ordinaryID}} {
		if _, _, errno := unix.RawSyscall(c.call, c.n, c.n, c.n); errno != 0 {
			return errno
		}
	}
	return nil
}

// ---- the process that meets it ----

// refusalVar tells a process of this program to run on a machine.
const refusalVar = "FIADOR_TEST_REFUSAL"

// refusalPart is the input of that process.
type refusalPart struct {
	Machine string
	User    bool // ask as an ordinary user
	Ready   bool // the machine is set up
	To      int  // the descriptor for the answer
	Temp    string
	Work    string
}

// tried is the result of asking for a sandbox.
type tried struct {
	Most, Least Isolation
	Work        bool   // the request had a work folder
	Err         *Error // the refusal
	Fault       string // an error of the test: something was left behind, or an error of another kind
	Got         Isolation
	Staging     staging
	Clauses     []Clause
	Code        int
	Stdout      string
	Changes     string
}

// TestRefusalPart is that process, not a test of its own.
func TestRefusalPart(t *testing.T) {
	text := os.Getenv(refusalVar)
	if text == "" {
		t.Skip("part of TestRefusals")
	}
	var part refusalPart
	if err := json.Unmarshal([]byte(text), &part); err != nil {
		t.Fatal(err)
	}
	if !part.Ready {
		t.Fatal(part.make())
	}
	if err := json.NewEncoder(os.NewFile(uintptr(part.To), "answer")).Encode(part.ask()); err != nil {
		t.Fatal(err)
	}
}

// make sets up the machine and starts the program again on it. Only one thread of this
// process gives up rights. The new program starts from that thread, so all its threads lack
// them.
func (p refusalPart) make() error {
	runtime.LockOSThread()
	m := machines()[slices.IndexFunc(machines(), func(m machine) bool { return m.name == p.Machine })]
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if m.space&unix.CLONE_NEWNS != 0 {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
	}
	if m.set != nil {
		if err := m.set(p.Work); err != nil {
			return err
		}
	}
	if m.hidden {
		if err := hideFilter(); err != nil {
			return err
		}
	}
	if m.late != nil {
		if err := m.late(); err != nil {
			return err
		}
	}
	if len(m.calls) > 0 {
		if m.hidden {
			m.calls = append(m.calls, unseen...)
		}
		if err := answerCalls(m.calls); err != nil {
			return err
		}
	}
	if p.User {
		if err := becomeOrdinary(); err != nil {
			return err
		}
	}
	p.Ready = true
	return p.again(self)
}

func (p refusalPart) again(self int) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(refusalArgv)
	if err != nil {
		return err
	}
	envp, err := syscall.SlicePtrFromStrings(rehearsal.Env(refusalVar+"="+string(b), "TMPDIR="+p.Temp, "HOME="+p.Temp, "PATH="+os.Getenv("PATH")))
	if err != nil {
		return err
	}
	empty := []byte{0}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(self), uintptr(unsafe.Pointer(&empty[0])), uintptr(unsafe.Pointer(&argv[0])),
		uintptr(unsafe.Pointer(&envp[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

var refusalArgv = []string{"refusal", "-test.run=^TestRefusalPart$", "-test.count=1", "-test.timeout=2m"}

// ask asks for sandboxes.
func (p refusalPart) ask() []tried {
	var list []tried
	for _, work := range []string{"", p.Work} {
		for _, ask := range [][2]Isolation{{Full, Full}, {Full, Confined}, {Confined, Confined}} {
			got := tried{Most: ask[0], Least: ask[1], Work: work != ""}
			before, files := p.traces(), openFiles()
			p.askFor(&got, Request{
				Work: work, Write: Staged, Limits: limits(), Most: ask[0], Least: ask[1],
				Actions: []Action{{Path: "made", Content: []byte("made\n")}, {Argv: []string{"sh", "-c", "echo ran; cat made kept; rm -f kept; mkdir d; echo >d/f"}}},
			})
			got.Fault += differs(before, p.traces())
			if more := openFiles() - files; more > leakOfGo {
				got.Fault += fmt.Sprint(more, " descriptors are left open")
			}
			list = append(list, got)
		}
	}
	return list
}

func (p refusalPart) askFor(got *tried, r Request) {
	h := NewHost(p.Temp)
	defer h.Close()
	res, err := h.ranBy(r, actionTime, nil)
	if err != nil && !errors.As(err, &got.Err) {
		got.Fault = "an error that is not of a step: " + err.Error()
	}
	got.Got, got.Staging, got.Clauses, got.Code = res.isolation, res.staging, res.clauses, res.code
	got.Stdout, got.Changes = res.stdout+res.stderr, shownChanges(res.changes)
}

// traces lists everything that a sandbox could leave behind.
func (p refusalPart) traces() string {
	var b strings.Builder
	list, err := os.ReadDir(p.Temp)
	fmt.Fprintln(&b, p.Temp, list, err)
	for _, mount := range mountsOf(p.Temp, p.Work) {
		fmt.Fprintln(&b, mount)
	}
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	fmt.Fprintln(&b, "children:", err)
	for _, g := range groupsOf(os.Getpid()) {
		fmt.Fprintln(&b, g)
	}
	fmt.Fprintln(&b, treeText(p.Work))
	return b.String()
}

// mountsOf returns the lines of mountinfo that name one of the folders. Tests of other
// packages mount and unmount meanwhile, so a number of mounts says nothing.
func mountsOf(folders ...string) []string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	var list []string
	for mount := range strings.Lines(string(mounts)) {
		if slices.ContainsFunc(folders, func(folder string) bool { return strings.Contains(mount, folder) }) {
			list = append(list, strings.TrimSpace(mount))
		}
	}
	return list
}

// leakOfGo is the number of descriptors that the standard library leaves open for the two
// processes that root starts. It leaves them open when it cannot clone a process whose ids
// must be mapped.
const leakOfGo = 4

func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// differs returns the lines that differ.
func differs(before, after string) string {
	if before == after {
		return ""
	}
	var list []string
	for i, lines := range [][2]string{{before, after}, {after, before}} {
		for line := range strings.Lines(lines[0]) {
			if !strings.Contains(lines[1], line) {
				list = append(list, []string{"before: ", "after: "}[i]+strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(list, ", ")
}

// groupsOf returns the cgroups that a process made.
func groupsOf(pid int) []string {
	var list []string
	for _, homes := range cgroup.Machine().Homes(cgroup.Limits{Memory: 1, Tasks: 1, CPUs: 1}) {
		for _, h := range homes {
			dirs, _ := filepath.Glob(filepath.Join(h.Folder, fmt.Sprintf("%s%d-*", cgroup.Prefix, pid)))
			list = append(list, dirs...)
		}
	}
	return list
}

// ---- the tests ----

func TestRefusals(t *testing.T) {
	userMay := sync.OnceValue(func() string { return refusedFull(machines()[0].ask(t, true)) })
	for _, m := range machines() {
		t.Run(m.name, func(t *testing.T) {
			if m.ids != nil {
				if len(m.ids) > 1 && os.Geteuid() != 0 {
					t.Skip("only root has more than one id to give")
				}
				m.test(t, false)
				return
			}
			if os.Geteuid() == 0 && !m.onlyUser {
				t.Run("root", func(t *testing.T) { m.test(t, false) })
			}
			if !m.onlyRoot {
				t.Run("user", func(t *testing.T) {
					if why := userMay(); why != "" {
						t.Skip(why)
					}
					m.test(t, true)
				})
			}
		})
	}
}

// refusedFull says why this machine itself has no full sandbox for an ordinary user.
func refusedFull(list []tried) string {
	for _, got := range list {
		if got.Most == Full && got.Err != nil && ofMachine(got.Err) {
			return "this machine refuses it already: " + got.Err.Error()
		}
	}
	return ""
}

// TestSandboxInside asks for sandboxes inside of a full one.
func TestSandboxInside(t *testing.T) {
	needTier(t, Full)
	m := machine{full: verdict{StepStart, unix.EPERM, CauseSeccomp}}
	base, _ := m.folders(t, false)
	self := filepath.Join(base, "self")
	copySelf(t, self)
	text, err := json.Marshal(refusalPart{Ready: true, To: 1, Temp: "/tmp", Work: WorkDir})
	if err != nil {
		t.Fatal(err)
	}
	got := runRequest(t, Request{
		Work: filepath.Join(base, "work"), Write: Staged, Read: []string{self}, Limits: limits(), Least: Full,
		Actions: []Action{{Argv: append([]string{self}, refusalArgv[1:]...), Env: rehearsal.Env(refusalVar + "=" + string(text))}},
	}, time.Minute)
	var list []tried
	if err := json.NewDecoder(strings.NewReader(got.stdout)).Decode(&list); err != nil {
		t.Fatalf("%v: exit %d\n%s\n%s", err, got.code, got.stdout, got.stderr)
	}
	m.judge(t, list, true)
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m machine) test(t *testing.T, user bool) {
	if m.small {
		rehearsal.NotUnderRace(t, rehearsal.Memory)
	}
	m.judge(t, m.ask(t, user), user)
}

func (m machine) judge(t *testing.T, list []tried, user bool) {
	t.Helper()
	for _, got := range list {
		what := fmt.Sprintf("at most %s, at least %s, work folder %v", got.Most, got.Least, got.Work)
		if got.Fault != "" {
			t.Errorf("%s: %s", what, got.Fault)
		}
		tier, why := m.expect(got, user)
		switch {
		case tier == "" && got.Err == nil:
			t.Errorf("%s: %s sandbox was had: %+v", what, got.Got, got)
		case tier == "":
			m.wantRefused(t, what, got, why)
		case got.Err != nil:
			t.Errorf("%s: refused: %+v", what, *got.Err)
		default:
			m.wantHad(t, what, got, tier)
		}
	}
}

// expect returns the tier that the process gets, or how the strongest requested tier is
// refused.
func (m machine) expect(got tried, user bool) (Isolation, verdict) {
	full := m.full
	if got.Work && !user && m.shown.refused() {
		full = m.shown
	}
	switch {
	case got.Most == Full && !full.refused():
		return Full, verdict{}
	case got.Most == Full && got.Least == Full, got.Most == Full && m.confined.refused():
		return "", full
	case m.confined.refused():
		return "", m.confined
	}
	return Confined, verdict{}
}

func (m machine) wantRefused(t *testing.T, what string, got tried, want verdict) {
	t.Helper()
	e := got.Err
	if want.step == "" {
		want.step = e.Step
	}
	if v := (verdict{e.Step, e.Errno, e.Cause}); v != want || e.Step == "" || e.Isolation != got.Most {
		t.Errorf("%s: refused with %+v, want %+v", what, *e, want)
	} else if e.Remedy == "" || e.Msg == "" {
		t.Errorf("%s: refused without a word: %+v", what, *e)
	}
	if got.Got != "" || got.Stdout != "" {
		t.Errorf("%s: refused, but something ran: %+v", what, got)
	}
}

func (m machine) wantHad(t *testing.T, what string, got tried, tier Isolation) {
	t.Helper()
	stdout, changes := "ran\nmade\nkept\n", "folder d, file d/f, deleted kept, file made"
	if !got.Work {
		changes = "folder d, file d/f, file made"
		got.Stdout = strings.Replace(got.Stdout, "cat: kept: No such file or directory\n", "kept\n", 1)
	}
	if got.Got != tier || got.Code != 0 || got.Stdout != stdout || got.Changes != changes {
		t.Errorf("%s: got %s, exit %d, %q, %s", what, got.Got, got.Code, got.Stdout, got.Changes)
	}
	want := staging(stageCopy)
	if tier == Full && m.staging == "" {
		want = stageOverlay
	}
	// Without a work folder there are no layers, so there is no overlay to refuse.
	if got.Staging != want && got.Work {
		t.Errorf("%s: staging by %s, want %s", what, got.Staging, want)
	}
	for _, c := range got.Clauses {
		if s, ok := m.clauses[string(tier)][c.Clause]; ok && s != c.Status && got.Work {
			t.Errorf("%s: clause %+v, want %s", what, c, s)
		}
	}
}

// ask starts a process on the machine and returns its answer.
func (m machine) ask(t *testing.T, user bool) []tried {
	t.Helper()
	base, owner := m.folders(t, user)
	part := refusalPart{Machine: m.name, User: user, To: 3, Temp: filepath.Join(base, "temp"), Work: filepath.Join(base, "work")}
	text, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", refusalArgv[1:]...)
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{w}
	cmd.Env = rehearsal.Env(refusalVar+"="+string(text), "TMPDIR="+part.Temp, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = m.born(user, owner)
	before := treeText(part.Work)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var list []tried
	decodeErr := json.NewDecoder(r).Decode(&list)
	if err := cmd.Wait(); err != nil || decodeErr != nil {
		t.Fatalf("%v, %v: %s", err, decodeErr, out.String())
	}
	if after := treeText(part.Work); after != before {
		t.Errorf("the work folder was\n%s\nand is\n%s", before, after)
	}
	return list
}

// folders makes the folders of one machine and returns their owner's id.
func (m machine) folders(t *testing.T, user bool) (string, int) {
	t.Helper()
	base, err := os.MkdirTemp("", "refusal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	realFile(t, filepath.Join(base, "work", "kept"), "kept\n")
	mode := os.FileMode(0o755)
	if m.private {
		mode = 0o700
	}
	owner := os.Geteuid()
	if owner == 0 && (user || m.ids != nil) {
		owner = ordinaryID
	}
	err = errors.Join(os.Mkdir(filepath.Join(base, "temp"), 0o755), os.Chmod(base, mode), giveAway(filepath.Join(base, "work"), owner), giveAway(filepath.Join(base, "temp"), owner))
	if err != nil {
		t.Fatal(err)
	}
	return base, owner
}

// born returns the attributes with which the process starts in the machine's namespaces,
// with the rights that set the machine up.
func (m machine) born(user bool, owner int) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Cloneflags: m.space, Pdeathsig: syscall.SIGKILL}
	root := os.Geteuid() == 0
	switch {
	case m.ids != nil:
		ids := m.ids
		if !root {
			ids = []syscall.SysProcIDMap{{ContainerID: 0, HostID: owner, Size: 1}}
		}
		sys.UidMappings, sys.GidMappings = ids, ids
		sys.GidMappingsEnableSetgroups = root
		sys.Credential = &syscall.Credential{NoSetGroups: !root}
	case root && m.space&unix.CLONE_NEWUSER != 0:
		all := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
		sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = all, all, true
	case !root && m.space != 0:
		sys.Cloneflags |= unix.CLONE_NEWUSER
		self := []syscall.SysProcIDMap{{ContainerID: owner, HostID: owner, Size: 1}}
		sys.UidMappings, sys.GidMappings = self, []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE}
	}
	return sys
}
