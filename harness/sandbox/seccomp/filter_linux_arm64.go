package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var (
	refusedHere []int
	modesHere   []call
	ownersHere  []int
	forks       []int // clone is the only call that forks
)
