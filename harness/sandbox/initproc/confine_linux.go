//go:build linux && (amd64 || arm64)

package initproc

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/fiador/fiador/harness/sandbox/wire"
)

// apply removes from the calling thread every right that Confine names. The order lets each
// step still do its work; the filter of system calls comes last. Everything that the thread
// executes or forks afterwards has the same rights. Resource limits belong to the process,
// not to the thread (limit).
func (c *Confine) apply() error {
	return inOrder(
		func() error { return affinity(c.CPUs) },
		c.become,
		newKeyring,
		func() error { return prctl(prSetNoNewPrivs, 1, 0, 0, 0) },
		c.Landlock.apply,
		dropCapabilities,
		c.Seccomp.apply,
	)
}

// giveUp removes every right that Confine names from the calling thread, and sets the
// limits of the process.
func (c *Confine) giveUp() error { return inOrder(c.apply, c.limit) }

// onThread calls f on a thread of its own, which ends afterwards. What f gives up is
// therefore given up by nobody else.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		f()
	}()
	<-done
}

// limit sets the resource limits of this process and of what it starts afterwards.
func (c *Confine) limit() error {
	for _, l := range c.Rlimits {
		var has syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &has); err != nil {
			return err
		}
		most := min(l.Value, has.Max) // the process that started this one may have lower limits
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// newKeyring leaves the supervisor's session keyring, because a command could list its keys.
func newKeyring() error {
	err := do(sysKeyctl, 1, 0) // KEYCTL_JOIN_SESSION_KEYRING, a new one
	if err == syscall.ENOSYS || err == syscall.EPERM {
		return nil // the kernel has no keys, or a filter refuses them for everyone
	}
	return err
}

// become changes the ids of this thread to UID, unless that is 0. The init keeps its own
// ids.
func (c *Confine) become() error {
	if c.UID == 0 {
		return nil
	}
	id := uintptr(c.UID)
	return inOrder(
		func() error { return do(syscall.SYS_SETGROUPS, 0, 0) },
		func() error { return do(syscall.SYS_SETRESGID, id, id, id) },
		func() error { return do(syscall.SYS_SETRESUID, id, id, id) },
	)
}

// affinity keeps the first n available processors.
func affinity(n int) error {
	if n == 0 {
		return nil
	}
	var mask [128]byte
	size, err := call(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if err != nil {
		return err
	}
	for i := range mask {
		for bit := byte(1); bit != 0; bit <<= 1 {
			if mask[i]&bit == 0 {
				continue
			}
			if n--; n < 0 {
				mask[i] &^= bit
			}
		}
	}
	if n >= 0 {
		return nil // there are at most n processors
	}
	return do(syscall.SYS_SCHED_SETAFFINITY, 0, uintptr(size), uintptr(unsafe.Pointer(&mask)))
}

// dropCapabilities empties the bounding, ambient and thread sets. Without the capability to
// empty the bounding set, the set stays; no_new_privs then keeps everyone from gaining
// capabilities from it.
func dropCapabilities() error {
	for c := uintptr(0); c < 64; c++ {
		err := prctl(prCapbsetDrop, c, 0, 0, 0)
		if err == syscall.EINVAL {
			break
		}
		if err != nil && err != syscall.EPERM {
			return err
		}
	}
	if err := prctl(prSetSecurebits, secureLocked); err != nil && err != syscall.EPERM {
		return err
	}
	if err := prctl(prCapAmbient, prAmbientClear, 0, 0, 0); err != nil {
		return err
	}
	head := struct{ version, pid uint32 }{0x20080522, 0}
	var none [6]uint32
	return do(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)))
}

// apply restricts the calling thread to the ruleset. Without a ruleset it does nothing.
func (l *Landlock) apply() error {
	if l == nil {
		return nil
	}
	attr := struct{ fs, net, scoped uint64 }{l.FS, l.Net, l.Scoped}
	size := unsafe.Sizeof(attr)
	switch { // older kernels refuse members that they do not know
	case l.Scoped != 0:
	case l.Net != 0:
		size = 16
	default:
		size = 8
	}
	set, err := call(sysLandlockCreate, uintptr(unsafe.Pointer(&attr)), size, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(set)
	for _, r := range l.Rules {
		if err := addRule(set, r); err != nil {
			return err
		}
	}
	return do(sysLandlockSelf, uintptr(set), 0)
}

// addRule grants the access of a rule. A path that does not exist or cannot be reached
// grants nothing.
func addRule(set int, r Rule) error {
	fd, err := syscall.Open(r.Path, oPath|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT || err == syscall.EACCES || err == syscall.ENOTDIR {
		return nil
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var b [12]byte // packed: the access, the descriptor
	wire.Put(b[:8], r.Access)
	wire.Put(b[8:], uint64(fd))
	return do(sysLandlockAddRule, uintptr(set), 1, uintptr(unsafe.Pointer(&b)), 0)
}

// apply installs the filter for the calling thread. A filter without instructions does
// nothing.
func (f Filter) apply() error {
	if len(f) == 0 {
		return nil
	}
	fprog := struct {
		n    uint16
		insn *byte
	}{uint16(len(f) / InsnSize), &f[0]}
	err := do(sysSeccomp, seccompSetFilter, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(f)
	return err
}
