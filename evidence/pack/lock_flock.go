//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pack

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a folder until it is closed, or the process ends. If the file system has no
// locks for folders, lock does nothing.
func lock(folder *os.File) error {
	for {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrBusy
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
			return nil
		}
		return err
	}
}
