//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package settings

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// foreign says why a file does not belong to this user alone, or "".
func foreign(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Geteuid():
		return "another user owns it"
	case st.Nlink > 1:
		return "it has more than one hard link, and the others would keep the old text"
	}
	return ""
}

// keepGroup gives a new file the group of an old one.
func keepGroup(file *os.File, old fs.FileInfo) error {
	return file.Chown(-1, int(old.Sys().(*syscall.Stat_t).Gid))
}

const lockPause = 10 * time.Millisecond // between two attempts to take a lock that another process holds

// lock waits for the lock of a folder. If the file system has no locks for folders, lock
// does nothing.
func lock(ctx context.Context, folder *os.File) error {
	for {
		switch err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}
