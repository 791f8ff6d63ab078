package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var (
	// refusedHere are refused calls that only this architecture has.
	refusedHere = []int{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS,
		unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE}
	// modesHere are the older calls that set the mode of a file.
	modesHere = []call{{unix.SYS_CHMOD, 1}, {unix.SYS_OPEN, 2}, {unix.SYS_CREAT, 1}, {unix.SYS_MKDIR, 1}, {unix.SYS_MKNOD, 1}}
	// ownersHere are the older calls that set the owner of a file.
	ownersHere = []int{unix.SYS_CHOWN, unix.SYS_LCHOWN}
	forks      = []int{unix.SYS_FORK, unix.SYS_VFORK}
)
