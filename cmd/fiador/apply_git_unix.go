//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// gitProcess says how git is started in a folder: in a process group of its own, and
// where we are root as the owner of the folder, if that is another.
func gitProcess(dir string) (attr *syscall.SysProcAttr, owner bool, err error) {
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
