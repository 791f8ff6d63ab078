//go:build unix

package git

import (
	"io/fs"
	"os"
	"syscall"
)

// attributes returns the attributes of a git process in a folder. git gets its own process
// group. If this process is root and another user owns the folder, git runs as that owner.
func attributes(dir string) (attr *syscall.SysProcAttr, owner bool, err error) {
	attr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return attr, false, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, false, &fs.PathError{Op: "stat", Path: dir, Err: syscall.ENOTSUP}
	}
	if st.Uid != 0 {
		attr.Credential = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
	}
	return attr, st.Uid != 0, nil
}
