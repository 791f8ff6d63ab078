//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const sandboxMD = "../../../specs/sandbox.md"

// instructions returns the instructions of a filter.
func instructions(f []byte) []unix.SockFilter {
	var list []unix.SockFilter
	for at := range slices.Chunk(f, 8) {
		list = append(list, unix.SockFilter{Code: binary.LittleEndian.Uint16(at), Jt: at[2], Jf: at[3], K: binary.LittleEndian.Uint32(at[4:])})
	}
	return list
}

// sysCall is the input of a filter for one system call.
type sysCall struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

// word returns the result of a load at an offset of seccomp_data on these little-endian
// machines.
func (s sysCall) word(offset uint32) (uint32, bool) {
	switch {
	case offset == 0:
		return s.number, true
	case offset == 4:
		return s.arch, true
	case offset >= 16 && offset < 64 && offset%4 == 0:
		arg := s.args[(offset-16)/8]
		return uint32(arg >> (32 * (offset / 4 % 2))), true
	}
	return 0, false
}

// filtering runs a filter as the kernel does. Every jump leads forwards, so filtering ends.
func filtering(list []unix.SockFilter, s sysCall) (uint32, error) {
	var acc uint32
	for pc := 0; pc < len(list); pc++ {
		in, jump := list[pc], false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word, ok := s.word(in.K)
			if !ok {
				return 0, fmt.Errorf("instruction %d loads from %d", pc, in.K)
			}
			acc = word
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K, nil
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump = acc > in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump = acc&in.K != 0
		default:
			return 0, fmt.Errorf("instruction %d has the code %#x", pc, in.Code)
		}
		if jump {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return 0, fmt.Errorf("the filter ends without an answer")
}

const (
	retAllowed  = "allow"
	retKilled   = "kill"
	retPerm     = "EPERM"
	retNoSys    = "ENOSYS"
	retNoFamily = "EAFNOSUPPORT"
	retNothing  = "done, without being done"
)

func answer(ret uint32) string {
	switch {
	case ret == 0x7fff0000:
		return retAllowed
	case ret == 0x80000000:
		return retKilled
	case ret == 0x00050000:
		return retNothing
	case ret>>16 == 0x0005:
		return unix.ErrnoName(syscall.Errno(ret & 0xffff))
	}
	return fmt.Sprintf("%#x", ret)
}

// everyOptions returns every combination of options.
func everyOptions() []Options {
	var list []Options
	for bits := range 1 << 5 {
		has := func(i int) bool { return bits>>i&1 == 1 }
		for _, families := range [][]uint32{nil, {unix.AF_UNIX}, {unix.AF_INET, unix.AF_INET6}, {unix.AF_INET, unix.AF_INET6, unix.AF_UNIX}} {
			list = append(list, Options{Families: families, NoFork: has(0), Shared: has(1), Uncounted: has(2), SetID: has(3), NoTruncate: has(4)})
		}
	}
	return list
}

// TestFilterIsWellFormed: filters meet the requirements of the kernel and of this
// interpreter.
func TestFilterIsWellFormed(t *testing.T) {
	for _, o := range everyOptions() {
		list := instructions(Filter(o))
		if len(list) == 0 || len(list) > 4096 {
			t.Errorf("%+v: %d instructions", o, len(list))
		}
		for pc, in := range list {
			jumps := in.Code&7 == unix.BPF_JMP
			if end := pc + 1 + int(max(in.Jt, in.Jf)); jumps && end >= len(list) || !jumps && in.Jt+in.Jf != 0 {
				t.Errorf("%+v: instruction %d leads to %d of %d", o, pc, end, len(list))
			}
		}
		if last := list[len(list)-1]; last.Code != unix.BPF_RET|unix.BPF_K {
			t.Errorf("%+v: ends with %#x", o, last.Code)
		}
	}
}

// TestFilterArchitecture: a call of another architecture kills the process, whatever its
// number. The filter checks the architecture first.
func TestFilterArchitecture(t *testing.T) {
	foreign := []uint32{
		unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARMEB,
		unix.AUDIT_ARCH_PPC64LE, unix.AUDIT_ARCH_RISCV64, 0, 0xffffffff,
	}
	for _, o := range everyOptions() {
		list := instructions(Filter(o))
		for _, arch := range foreign {
			for _, number := range []uint32{0, unix.SYS_READ, unix.SYS_EXECVE, newestKnown, newestKnown + 1, 0x40000000, 0xffffffff} {
				got, err := filtering(list, sysCall{arch: arch, number: number})
				if a := answer(got); err != nil || (a == retKilled) != (arch != auditArch) {
					t.Errorf("%+v: architecture %#x, number %d: %s, %v", o, arch, number, a, err)
				}
			}
		}
	}
}

// TestFilterEveryNumber: the filter refuses exactly the numbers of the lists, and examines
// the arguments of exactly the calls whose arguments decide.
func TestFilterEveryNumber(t *testing.T) {
	asked := []int{unix.SYS_CLONE, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_IOCTL, unix.SYS_PERSONALITY, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_MMAP, unix.SYS_SETSOCKOPT}
	for _, c := range slices.Concat(modes, modesHere) {
		asked = append(asked, c.number)
	}
	for _, o := range everyOptions() {
		list := instructions(Filter(o))
		want := map[int]string{}
		for _, n := range slices.Concat(refused, refusedHere) {
			want[n] = retPerm
		}
		for _, n := range refusedQuietly {
			want[n] = retNoSys
		}
		if o.NoFork {
			for _, n := range forks {
				want[n] = retPerm
			}
		}
		if o.NoTruncate {
			want[unix.SYS_TRUNCATE] = retPerm
		}
		if o.Shared {
			for _, n := range slices.Concat(refusedShared, refusedOwners, ownersHere) {
				want[n] = retPerm
			}
			for _, n := range refusedAttributes {
				want[n] = unix.ErrnoName(unix.EOPNOTSUPP)
			}
		}
		if o.Uncounted {
			want[unix.SYS_MEMFD_CREATE] = retNoSys
			for _, n := range []int{unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET} {
				want[n] = retPerm
			}
		}
		if o.SetID {
			want[unix.SYS_OPENAT2] = retNoSys
		}
		for n := 0; n <= newestKnown+100; n++ {
			if slices.Contains(asked, n) {
				continue
			}
			expect := want[n]
			switch {
			case n > newestKnown:
				expect = retNoSys
			case expect == "":
				expect = retAllowed
			}
			got, err := filtering(list, sysCall{arch: auditArch, number: uint32(n)})
			if a := answer(got); err != nil || a != expect {
				t.Errorf("%+v: call %d is answered by %s and not %s (%v)", o, n, a, expect, err)
			}
		}
		for _, n := range []uint32{0x40000000, 0x40000000 | unix.SYS_READ, 0x40000000 | unix.SYS_EXECVE, 0x7fffffff, 0x80000000, 0xffffffff} {
			if got, _ := filtering(list, sysCall{arch: auditArch, number: n}); answer(got) != retNoSys {
				t.Errorf("%+v: call %#x is answered by %s", o, n, answer(got))
			}
		}
	}
}

// TestFilterArguments: the calls whose arguments decide.
func TestFilterArguments(t *testing.T) {
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM
	inet := []uint32{unix.AF_INET, unix.AF_INET6}
	all := append(slices.Clone(inet), unix.AF_UNIX)
	plain := instructions(Filter(Options{Families: all}))
	noFork := instructions(Filter(Options{Families: all, NoFork: true}))
	uncounted := instructions(Filter(Options{Families: inet, Uncounted: true}))
	confined := instructions(Filter(Options{Shared: true, SetID: true}))
	open := instructions(Filter(Options{Families: inet, Shared: true, SetID: true}))
	type row struct {
		what   string
		list   []unix.SockFilter
		number int
		args   [6]uint64
		want   string
	}
	rows := []row{
		{"fork", plain, unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, retAllowed},
		{"vfork", plain, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, retAllowed},
		{"thread", plain, unix.SYS_CLONE, [6]uint64{thread}, retAllowed},
		{"fork with high bits", plain, unix.SYS_CLONE, [6]uint64{0xffffffff00000000 | uint64(unix.SIGCHLD)}, retAllowed},
		{"fork where none is allowed", noFork, unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, retPerm},
		{"vfork where none is allowed", noFork, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK}, retPerm},
		{"thread where no fork is allowed", noFork, unix.SYS_CLONE, [6]uint64{thread}, retAllowed},
		{"thread in a namespace where no fork is allowed", noFork, unix.SYS_CLONE, [6]uint64{thread | unix.CLONE_NEWUSER}, retPerm},
		{"terminal size", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, retAllowed},
		{"terminal mode", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, retAllowed},
		{"typing", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, retPerm},
		{"typing with high bits", plain, unix.SYS_IOCTL, [6]uint64{0, 0x100000000 | unix.TIOCSTI}, retPerm},
		{"selection", plain, unix.SYS_IOCTL, [6]uint64{0, 0x541c}, retPerm},
		{"line discipline", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSETD}, retPerm},
		{"console", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCCONS}, retPerm},
		{"its own limits", plain, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_NOFILE}, retAllowed},
		{"limits of another process", plain, unix.SYS_PRLIMIT64, [6]uint64{1, unix.RLIMIT_NOFILE}, retPerm},
		{"its own priority", plain, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 0, 5}, retAllowed},
		{"priority of another process", plain, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 1, 5}, retPerm},
		{"usual personality", plain, unix.SYS_PERSONALITY, [6]uint64{0}, retAllowed},
		{"which personality", plain, unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, retAllowed},
		{"fixed addresses", plain, unix.SYS_PERSONALITY, [6]uint64{0x0040000}, retAllowed},
		{"32 bits", plain, unix.SYS_PERSONALITY, [6]uint64{0x0008}, retPerm},
		{"addresses that can be executed", plain, unix.SYS_PERSONALITY, [6]uint64{0x0400000}, retPerm},
		{"addresses below 64 KiB", plain, unix.SYS_PERSONALITY, [6]uint64{0x0100000}, retPerm},
	}
	for _, r := range []struct {
		what    string
		number  int
		args    [6]uint64
		without string // the answer where no cgroup counts memory
	}{
		{"private memory", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, retAllowed},
		{"shared memory", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, retPerm},
		{"shared memory, with more flags", unix.SYS_MMAP, [6]uint64{0, 4096, 3, 1<<32 | unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, retPerm},
		{"a shared file", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_SHARED}, retAllowed},
		{"a private file", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE}, retAllowed},
		{"memory that grows downwards", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN}, retPerm},
		{"a pair of streams", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, retAllowed},
		{"a pair of packet sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, retAllowed},
		{"a pair of datagram sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, retPerm},
		{"a pair of raw sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, retPerm},
		{"a socket that others find", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, retNoFamily},
		{"a sending buffer", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, retNothing},
		{"a receiving buffer", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retAllowed},
		{"another option of that number", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.IPPROTO_TCP, unix.SO_SNDBUF}, retAllowed},
	} {
		rows = append(rows, row{r.what, plain, r.number, r.args, retAllowed}, row{r.what + ", uncounted", uncounted, r.number, r.args, r.without})
	}
	for _, flag := range []uint64{
		unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWCGROUP,
	} {
		rows = append(rows, row{"namespace " + strconv.FormatUint(flag, 16), plain, unix.SYS_CLONE, [6]uint64{flag | uint64(unix.SIGCHLD)}, retPerm})
	}
	families := map[uint64][3]string{ // in a full sandbox, in a confined one, in one with a network
		unix.AF_UNIX: {retAllowed, retNoFamily, retNoFamily}, unix.AF_INET: {retAllowed, retNoFamily, retAllowed}, unix.AF_INET6: {retAllowed, retNoFamily, retAllowed},
		unix.AF_UNSPEC: {retNoFamily, retNoFamily, retNoFamily}, 0x100000000: {retNoFamily, retNoFamily, retNoFamily}, 0xffffffff: {retNoFamily, retNoFamily, retNoFamily},
	}
	for _, f := range []uint64{unix.AF_NETLINK, unix.AF_PACKET, unix.AF_ALG, unix.AF_VSOCK, unix.AF_BLUETOOTH, unix.AF_CAN, unix.AF_TIPC, unix.AF_XDP, unix.AF_KEY, unix.AF_RDS} {
		families[f] = [3]string{retNoFamily, retNoFamily, retNoFamily}
	}
	for f, want := range families {
		for i, list := range [][]unix.SockFilter{plain, confined, open} {
			rows = append(rows, row{fmt.Sprintf("family %d in filter %d", f, i), list, unix.SYS_SOCKET, [6]uint64{f, unix.SOCK_STREAM}, want[i]})
		}
	}
	for _, c := range slices.Concat(modes, modesHere) {
		for mode, want := range map[uint64]string{0o755: retAllowed, 0o1777: retAllowed, 0o4755: retPerm, 0o2755: retPerm, 1<<32 | 0o4755: retPerm} {
			var args [6]uint64
			args[c.arg] = mode
			what := fmt.Sprintf("mode %o by call %d", mode, c.number)
			rows = append(rows, row{what, plain, c.number, args, retAllowed}, row{what + ", confined", confined, c.number, args, want})
		}
	}
	for _, r := range rows {
		got, err := filtering(r.list, sysCall{arch: auditArch, number: uint32(r.number), args: r.args})
		if a := answer(got); err != nil || a != r.want {
			t.Errorf("%s: %s and not %s (%v)", r.what, a, r.want, err)
		}
	}
}

// refusedNames lists the refused calls again, by name.
var refusedNames = map[string]int{
	"clone3": unix.SYS_CLONE3, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
	"io_uring_register": unix.SYS_IO_URING_REGISTER, "memfd_secret": unix.SYS_MEMFD_SECRET, "fanotify_init": unix.SYS_FANOTIFY_INIT,
	"fanotify_mark": unix.SYS_FANOTIFY_MARK, "statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT,
	"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
	"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG,
	"fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
	"quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD, "acct": unix.SYS_ACCT, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF,
	"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
	"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
	"process_madvise": unix.SYS_PROCESS_MADVISE, "kcmp": unix.SYS_KCMP, "sched_setaffinity": unix.SYS_SCHED_SETAFFINITY, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
	"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER, "sched_setparam": unix.SYS_SCHED_SETPARAM, "sched_setattr": unix.SYS_SCHED_SETATTR, "ioprio_set": unix.SYS_IOPRIO_SET,
	"move_pages": unix.SYS_MOVE_PAGES, "migrate_pages": unix.SYS_MIGRATE_PAGES,
	"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
	"kexec_load": unix.SYS_KEXEC_LOAD, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE, "reboot": unix.SYS_REBOOT, "syslog": unix.SYS_SYSLOG,
	"lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "nfsservctl": unix.SYS_NFSSERVCTL, "vhangup": unix.SYS_VHANGUP,
	"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
	"settimeofday": unix.SYS_SETTIMEOFDAY, "clock_settime": unix.SYS_CLOCK_SETTIME, "clock_adjtime": unix.SYS_CLOCK_ADJTIME,
	"adjtimex": unix.SYS_ADJTIMEX, "sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME,
}

// refusedOnAMD64 are the names of those that only amd64 has.
var refusedOnAMD64 = []string{
	"iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "create_module", "get_kernel_syms", "query_module",
}

// TestFilterPage: specs/sandbox.md names exactly the system calls that are refused.
func TestFilterPage(t *testing.T) {
	numbers := slices.Concat(refused, refusedQuietly)
	for name, n := range refusedNames {
		if !slices.Contains(numbers, n) {
			t.Errorf("%s is not refused", name)
		}
	}
	if len(numbers) != len(refusedNames) {
		t.Errorf("%d calls are refused, and %d have a name here", len(numbers), len(refusedNames))
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 && len(refusedHere) != len(refusedOnAMD64) {
		t.Errorf("%d calls of amd64 are refused, and %d have a name here", len(refusedHere), len(refusedOnAMD64))
	}
	b, err := os.ReadFile(sandboxMD)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\n## System calls\n")
	section, _, _ := strings.Cut(after, "\n## ")
	if above := fmt.Sprintf("| a number above %d,", newestKnown); !strings.Contains(section, above) {
		t.Errorf("%s does not have %q", sandboxMD, above)
	}
	var shown []string
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]* \| ([^|]*) \| ([^|]*) \|$`).FindAllStringSubmatch(section, -1) {
		if row[1] != retNoSys && row[1] != retPerm {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row[2], -1) {
			if n, known := refusedNames[m[1]]; known && slices.Contains(refusedQuietly, n) != (row[1] == retNoSys) {
				t.Errorf("the page answers %s by %s", m[1], row[1])
			}
			shown = append(shown, m[1])
		}
	}
	var want []string
	for name := range refusedNames {
		want = append(want, name)
	}
	want = append(want, refusedOnAMD64...)
	slices.Sort(want)
	slices.Sort(shown)
	if !slices.Equal(shown, want) {
		t.Errorf("%s names\n%v\nand refused are\n%v", sandboxMD, shown, want)
	}
}
