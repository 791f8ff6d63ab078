//go:build linux && (amd64 || arm64)

package initproc

import (
	"syscall"
	"unsafe"
)

// Numbers of system calls that package syscall does not name. From 424 on they are the same
// on every architecture.
const (
	sysOpenTree        = 428
	sysMoveMount       = 429
	sysFsopen          = 430
	sysFsconfig        = 431
	sysFsmount         = 432
	sysCloseRange      = 436
	sysOpenat2         = 437
	sysMountSetattr    = 442
	sysLandlockCreate  = 444
	sysLandlockAddRule = 445
	sysLandlockSelf    = 446
)

const (
	openTreeClone    = 1
	openTreeCloexec  = syscall.O_CLOEXEC
	atRecursive      = 0x8000
	atEmptyPath      = 0x1000
	atFdcwd          = -100
	moveFromEmpty    = 0x4
	moveToEmpty      = 0x40
	fsconfigString   = 1
	fsconfigCreate   = 6
	closeRangeExec   = 4
	resolveBeneath   = 0x08
	resolveNoLinks   = 0x04
	resolveNoMagic   = 0x02
	prSetDumpable    = 4
	prSetSecurebits  = 28
	prSetSubreaper   = 36
	prSetNoNewPrivs  = 38
	prCapbsetDrop    = 24
	prCapAmbient     = 47
	prAmbientClear   = 4
	secureLocked     = 0x2f // noroot, no setuid fixup, keep caps off; each locked
	umountDetach     = 2
	seccompSetFilter = 1
)

//go:uintptrescapes
func call(trap uintptr, a ...uintptr) (int, error) {
	var args [6]uintptr
	copy(args[:], a)
	r, _, errno := syscall.Syscall6(trap, args[0], args[1], args[2], args[3], args[4], args[5])
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// do is call for a system call whose result is only an error.
//
//go:uintptrescapes
func do(trap uintptr, a ...uintptr) error {
	_, err := call(trap, a...)
	return err
}

// inOrder calls steps until one fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func cstr(s string) (*byte, error) { return syscall.BytePtrFromString(s) }

// openTree is open_tree(2): it returns a descriptor of the mount at a path, or of its copy.
func openTree(dir int, path string, flags uintptr) (int, error) {
	p, err := cstr(path)
	if err != nil {
		return -1, err
	}
	return call(sysOpenTree, uintptr(dir), uintptr(unsafe.Pointer(p)), flags)
}

// moveMount attaches the mount of fd at the path to, beneath the folder dir.
func moveMount(fd, dir int, to string) error {
	p, err := cstr(to)
	if err != nil {
		return err
	}
	empty, _ := cstr("")
	flags := uintptr(moveFromEmpty)
	if to == "" {
		flags |= moveToEmpty
	}
	return do(sysMoveMount, uintptr(fd), uintptr(unsafe.Pointer(empty)), uintptr(dir), uintptr(unsafe.Pointer(p)), flags)
}

// mountSetattr sets attributes of the mount of fd (mount_setattr(2)), and of the mounts beneath
// it if recursive.
func mountSetattr(fd int, recursive bool, set uint64) error {
	empty, _ := cstr("")
	flags := uintptr(atEmptyPath)
	if recursive {
		flags |= atRecursive
	}
	a := struct{ set, clear, propagation, userns uint64 }{set: set} // struct mount_attr
	return do(sysMountSetattr, uintptr(fd), uintptr(unsafe.Pointer(empty)), flags, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
}

// newMount makes a file system of the kind with options, each "name=value", and
// returns the descriptor of its mount.
func newMount(kind string, attr uint64, options ...[2]string) (int, error) {
	k, err := cstr(kind)
	if err != nil {
		return -1, err
	}
	fs, err := call(sysFsopen, uintptr(unsafe.Pointer(k)), 1)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(fs)
	for _, o := range options {
		name, err := cstr(o[0])
		if err != nil {
			return -1, err
		}
		value, err := cstr(o[1])
		if err != nil {
			return -1, err
		}
		if err := do(sysFsconfig, uintptr(fs), fsconfigString, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(value)), 0); err != nil {
			return -1, err
		}
	}
	if err := do(sysFsconfig, uintptr(fs), fsconfigCreate, 0, 0, 0); err != nil {
		return -1, err
	}
	return call(sysFsmount, uintptr(fs), 1, uintptr(attr))
}

// openBeneath opens a path. It refuses a path that leaves dir or passes a link.
func openBeneath(dir int, path string, flags, mode uint64) (int, error) {
	p, err := cstr(path)
	if err != nil {
		return -1, err
	}
	how := struct{ flags, mode, resolve uint64 }{flags | syscall.O_CLOEXEC, mode, resolveBeneath | resolveNoLinks | resolveNoMagic}
	return call(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how))
}

func prctl(op int, args ...uintptr) error {
	return do(syscall.SYS_PRCTL, append([]uintptr{uintptr(op)}, args...)...)
}
