package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var (
	// refusedHere is what only this architecture has.
	refusedHere = []int{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS,
		unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE}
	// modesHere are the older calls that give a file a mode.
	modesHere = []struct{ number, arg int }{{unix.SYS_CHMOD, 1}, {unix.SYS_OPEN, 2}, {unix.SYS_CREAT, 1}, {unix.SYS_MKDIR, 1}, {unix.SYS_MKNOD, 1}}
	// ownersHere are the older calls that give a file an owner.
	ownersHere = []int{unix.SYS_CHOWN, unix.SYS_LCHOWN}
	forks      = []int{unix.SYS_FORK, unix.SYS_VFORK}
)
