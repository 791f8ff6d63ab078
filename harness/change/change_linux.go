//go:build linux && (amd64 || arm64)

package change

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// SeenOf returns the Seen of info, which must describe a file of this system.
func SeenOf(info fs.FileInfo) *Seen {
	st := info.Sys().(*syscall.Stat_t)
	return &Seen{Kind: KindOf(st.Mode), Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, ChangedNS: st.Ctim.Nano()}
}

// KindOf returns the kind of an entry with this mode of stat(2).
func KindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindFolder
	case unix.S_IFLNK:
		return KindLink
	}
	return KindOther
}

// SeenAs returns the Seen of st, or nil for nil.
func SeenAs(st *unix.Stat_t) *Seen {
	if st == nil {
		return nil
	}
	return &Seen{Kind: KindOf(st.Mode), Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, ChangedNS: st.Ctim.Nano()}
}
