//go:build linux && (amd64 || arm64)

// Package seccomp makes the filter of the system calls of commands. It owns the lists of the
// calls that a sandbox refuses; specs/sandbox.md ("System calls") has them as a table.
package seccomp

import (
	"encoding/binary"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// The filter runs in this order:
//
//	foreign architecture       the process is killed
//	number above newestKnown   ENOSYS, which also refuses x32 on amd64
//	refusedQuietly             ENOSYS
//	refusedAttributes          EOPNOTSUPP, where commands can name files of the host
//	refused                    EPERM, with other lists where an option says so
//	clone                      EPERM with a flag for a namespace, and for every fork where none is allowed
//	socket                     EAFNOSUPPORT except for the allowed families
//	socketpair                 EAFNOSUPPORT except for AF_UNIX
//	mmap, socketpair           EPERM for memory that no limit of a process bounds, where no cgroup counts it
//	setsockopt                 a change of the size of a sending buffer has no effect, where no cgroup counts it
//	prlimit64, setpriority     EPERM for any process except the caller
//	chmod, open, mkdir, mknod  EPERM with a setuid or setgid bit, where that bit would stay on the host
//	ioctl                      EPERM for requests that insert input into a terminal or take it over
//	personality                EPERM except for the usual one, the same with fixed addresses, and asking for it
//	the rest                   allowed

// newestKnown is the highest system call number that this list covers: removexattrat, Linux
// 6.13.
const newestKnown = 466

// namespaces are the flags of clone that make a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// refusedQuietly are calls that fail with ENOSYS, as on a kernel that does not have them.
var refusedQuietly = []int{
	unix.SYS_CLONE3, // its flags are in memory, which a filter cannot read; every libc then uses clone
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_SECRET, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
}

// refused are calls that fail with EPERM.
var refused = []int{
	// mounts and roots
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	// namespaces
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_SCHED_SETAFFINITY, // a command may not change its set of processors
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_IOPRIO_SET,
	// the kernel
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SYSLOG,
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_VHANGUP,
	// keys
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// time and names
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// refusedShared are calls on objects that all programs of the host share. They are refused
// where there is no ipc namespace.
var refusedShared = []int{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
}

// refusedUncounted are calls that take memory which no limit of a process bounds. They are
// refused where no cgroup counts that memory.
var refusedUncounted = []int{unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET}

// refusedOwners and refusedAttributes are refused where commands can name files of the host,
// because neither a view nor Landlock protects owners and attributes. Changes of modes and
// times stay allowed: tar, npm, git and linkers need them. Attributes fail as on a file
// system without them, which cp and install do not treat as an error.
var refusedOwners = []int{unix.SYS_FCHOWN, unix.SYS_FCHOWNAT}

var refusedAttributes = []int{
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
}

// call is a system call, and the index of the argument that decides.
type call struct{ number, arg int }

// modes are the calls that set the mode of a file.
var modes = []call{
	{unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2},
	{unix.SYS_OPENAT, 3}, {unix.SYS_MKDIRAT, 2}, {unix.SYS_MKNODAT, 2},
}

// Options are the parts of the filter that depend on the request.
type Options struct {
	Families   []uint32 // socket families that are allowed
	NoFork     bool     // a command may start threads and no processes
	Shared     bool     // commands share the host's ipc namespace: refuse its objects, and changes of owners and attributes
	Uncounted  bool     // no cgroup counts memory: refuse memory that no limit of a process bounds
	SetID      bool     // setuid and setgid bits would stay on the host: refuse them
	NoTruncate bool     // refuse truncate(2) by path: this version of Landlock does not control it
}

const (
	tiocLinux       = 0x541c    // an ioctl
	addrNoRandomize = 0x0040000 // a personality
	sockTypes       = 0xf       // the bits of a socket's type that are not flags
)

// Filter returns the instructions of the filter one after another, in the form that the kernel
// takes.
func Filter(o Options) []byte {
	var p program
	p.arch()
	p.jump(unix.BPF_JEQ, auditArch, 1, 0)
	p.ret(unix.SECCOMP_RET_KILL_PROCESS)
	p.number()
	p.numbers(o)
	p.on(unix.SYS_CLONE, func(p *program) {
		p.arg(0)
		p.refuseIf(unix.BPF_JSET, namespaces, unix.EPERM)
		if o.NoFork {
			p.refuseUnless(unix.BPF_JSET, unix.CLONE_THREAD, unix.EPERM)
		}
		p.allow()
	})
	p.on(unix.SYS_SOCKET, func(p *program) {
		p.arg(0)
		for _, f := range o.Families {
			p.allowIf(unix.BPF_JEQ, f)
		}
		p.refuse(unix.EAFNOSUPPORT)
	})
	p.on(unix.SYS_SOCKETPAIR, func(p *program) {
		p.arg(0)
		p.refuseUnless(unix.BPF_JEQ, unix.AF_UNIX, unix.EAFNOSUPPORT)
		if o.Uncounted {
			p.arg(1)
			p.and(sockTypes)
			p.jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0) // over the next test
			p.refuseUnless(unix.BPF_JEQ, unix.SOCK_SEQPACKET, unix.EPERM)
		}
		p.allow()
	})
	if o.Uncounted {
		p.uncounted()
	}
	for _, c := range []call{{unix.SYS_PRLIMIT64, 0}, {unix.SYS_SETPRIORITY, 1}} {
		p.on(c.number, func(p *program) {
			p.arg(c.arg)
			p.refuseUnless(unix.BPF_JEQ, 0, unix.EPERM)
			p.allow()
		})
	}
	if o.SetID {
		p.setID()
	}
	p.on(unix.SYS_IOCTL, func(p *program) {
		p.arg(1)
		for _, request := range []uint32{unix.TIOCSTI, tiocLinux, unix.TIOCSETD, unix.TIOCCONS} {
			p.refuseIf(unix.BPF_JEQ, request, unix.EPERM)
		}
		p.allow()
	})
	p.on(unix.SYS_PERSONALITY, func(p *program) {
		p.arg(0)
		for _, kind := range []uint32{0, addrNoRandomize, 0xffffffff} {
			p.allowIf(unix.BPF_JEQ, kind)
		}
		p.refuse(unix.EPERM)
	})
	p.allow()
	return p.encode()
}

// numbers refuses the calls that are refused for all arguments.
func (p *program) numbers(o Options) {
	p.refuseIf(unix.BPF_JGT, newestKnown, unix.ENOSYS)
	for _, n := range refusedQuietly {
		p.refuseIf(unix.BPF_JEQ, uint32(n), unix.ENOSYS)
	}
	if o.Uncounted {
		p.refuseIf(unix.BPF_JEQ, unix.SYS_MEMFD_CREATE, unix.ENOSYS)
	}
	list := slices.Concat(refused, refusedHere)
	if o.NoFork {
		list = append(list, forks...)
	}
	if o.Shared {
		list = slices.Concat(list, refusedShared, refusedOwners, ownersHere)
		for _, n := range refusedAttributes {
			p.refuseIf(unix.BPF_JEQ, uint32(n), unix.EOPNOTSUPP)
		}
	}
	if o.Uncounted {
		list = append(list, refusedUncounted...)
	}
	if o.NoTruncate {
		list = append(list, unix.SYS_TRUNCATE)
	}
	for _, n := range list {
		p.refuseIf(unix.BPF_JEQ, uint32(n), unix.EPERM)
	}
}

// uncounted refuses mappings that RLIMIT_DATA does not count: shared anonymous memory, and
// memory that grows downwards. It keeps the size of sending buffers, which the supervisor
// uses in its count of memory. A program that sets the size gets success, as the kernel
// reports when it grants less.
func (p *program) uncounted() {
	p.on(unix.SYS_MMAP, func(p *program) {
		p.arg(3)
		p.refuseIf(unix.BPF_JSET, unix.MAP_GROWSDOWN, unix.EPERM)
		p.and(unix.MAP_SHARED | unix.MAP_ANONYMOUS)
		p.refuseIf(unix.BPF_JEQ, unix.MAP_SHARED|unix.MAP_ANONYMOUS, unix.EPERM)
		p.allow()
	})
	p.on(unix.SYS_SETSOCKOPT, func(p *program) {
		p.arg(1)
		p.jump(unix.BPF_JEQ, unix.SOL_SOCKET, 1, 0)
		p.allow()
		p.arg(2)
		p.refuseIf(unix.BPF_JEQ, unix.SO_SNDBUF, 0) // success, without the call
		p.allow()
	})
}

// setID refuses modes with a setuid or setgid bit. It also refuses openat2: its arguments
// are in memory, which a filter cannot read, and programs work without it.
func (p *program) setID() {
	p.refuseIf(unix.BPF_JEQ, unix.SYS_OPENAT2, unix.ENOSYS)
	for _, c := range slices.Concat(modes, modesHere) {
		p.on(c.number, func(p *program) {
			p.arg(c.arg)
			p.refuseIf(unix.BPF_JSET, unix.S_ISUID|unix.S_ISGID, unix.EPERM)
			p.allow()
		})
	}
}

// program is a filter under construction. A jump reaches only the next few instructions, so
// its offset always fits.
type program []unix.SockFilter

func (p program) encode() []byte {
	var b []byte
	for _, in := range p {
		b = binary.NativeEndian.AppendUint16(b, in.Code)
		b = binary.NativeEndian.AppendUint32(append(b, in.Jt, in.Jf), in.K)
	}
	return b
}

func (p *program) add(code uint16, jt, jf uint8, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// number loads the number of the call, arch its architecture, and arg the lower half of an
// argument: of those that the filter examines, the kernel reads no more.
func (p *program) number()   { p.load(0) }
func (p *program) arch()     { p.load(4) }
func (p *program) arg(n int) { p.load(16 + 8*uint32(n)) }

// load loads a word of struct seccomp_data.
func (p *program) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (p *program) and(mask uint32) { p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask) }

// jump skips onTrue instructions if the test of the loaded word and k holds, and otherwise
// onFalse instructions.
func (p *program) jump(test uint16, k uint32, onTrue, onFalse uint8) {
	p.add(unix.BPF_JMP|test|unix.BPF_K, onTrue, onFalse, k)
}

func (p *program) ret(value uint32) { p.add(unix.BPF_RET|unix.BPF_K, 0, 0, value) }

func (p *program) allow() { p.ret(unix.SECCOMP_RET_ALLOW) }

func (p *program) refuse(errno syscall.Errno) { p.ret(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

func (p *program) allowIf(test uint16, k uint32) {
	p.jump(test, k, 0, 1)
	p.allow()
}

func (p *program) refuseIf(test uint16, k uint32, errno syscall.Errno) {
	p.jump(test, k, 0, 1)
	p.refuse(errno)
}

func (p *program) refuseUnless(test uint16, k uint32, errno syscall.Errno) {
	p.jump(test, k, 1, 0)
	p.refuse(errno)
}

// on adds the instructions for one system call. Every path through them ends in a return.
func (p *program) on(number int, body func(*program)) {
	var inner program
	body(&inner)
	p.jump(unix.BPF_JEQ, uint32(number), 0, uint8(len(inner)))
	*p = append(*p, inner...)
}
