//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io/fs"
	"syscall"
)

// SeenOf is what info is about, which is of this system's files.
func SeenOf(info fs.FileInfo) *Seen {
	st := info.Sys().(*syscall.Stat_t)
	return &Seen{Kind: kindOf(st.Mode), Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, ChangedNS: st.Ctim.Nano()}
}

// CanApply is nil where changes can be applied to a folder.
func CanApply() error { return nil }
