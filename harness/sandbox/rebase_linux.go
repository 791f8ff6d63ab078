//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SeenOf is what info is about, which is of this system's files.
func SeenOf(info fs.FileInfo) *Seen {
	st := info.Sys().(*syscall.Stat_t)
	return &Seen{Kind: kindOf(st.Mode), Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, ChangedNS: st.Ctim.Nano()}
}

// Rebase makes changes that were compared with one folder changes of another: what
// stands there is replaced, unless somebody changed it after since, which is a
// *ConflictError. What is as it should be already is no change.
func Rebase(dir string, changes []Change, since time.Time) ([]Change, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	list := make([]Change, 0, len(changes))
	for _, c := range changes {
		c.Before = nil
		var st unix.Stat_t
		at, err := beneathLink(fd, c.Path)
		if err == nil {
			err = unix.Fstat(at, &st)
			_ = unix.Close(at)
		}
		switch {
		case err == nil:
			c.Before = seenAs(&st)
		case err != unix.ENOENT && err != unix.ENOTDIR:
			return nil, &ConflictError{Path: c.Path}
		}
		if c.Before == nil && c.Kind == KindDeleted || c.Before != nil && c.Kind == KindFolder && c.Before.Kind == KindFolder {
			continue
		}
		if c.Before != nil && c.Before.ChangedNS > since.UnixNano() {
			return nil, &ConflictError{Path: c.Path}
		}
		list = append(list, c)
	}
	return list, nil
}
