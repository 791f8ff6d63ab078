//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package asset

import (
	"os"
	"syscall"
)

// lock locks a folder until it is closed or the process ends, if the file system can.
func lock(folder *os.File) error {
	switch err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case syscall.EWOULDBLOCK:
		return ErrBusy
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOLCK, syscall.EINVAL:
		return nil
	default:
		return err
	}
}
