//go:build linux && (amd64 || arm64)

package worker

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/tree"
)

// abandoned is the age from which on a folder without a lock is one of a shim that was killed. A
// shim locks its folder as soon as its copy runs.
const abandoned = 10 * time.Minute

// hold locks a folder of a shim for as long as it is open: no other shim sweeps it away.
func hold(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes at most one folder that a killed shim of this user has left beside own.
func sweep(own string) {
	list, _ := filepath.Glob(filepath.Join(filepath.Dir(own), ScratchPrefix+"*"))
	for _, dir := range list {
		if dir != own && left(dir) {
			return
		}
	}
}

// left says whether a folder was left by a killed shim, and removes it then.
func left(dir string) bool {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || time.Since(time.Unix(st.Mtim.Unix())) < abandoned {
		return false
	}
	lock, err := hold(dir)
	if err != nil {
		return false
	}
	defer lock.Close()
	var held unix.Stat_t
	if unix.Fstat(int(lock.Fd()), &held) != nil || held.Ino != st.Ino || held.Dev != st.Dev {
		return false
	}
	_ = tree.RemoveAll(dir)
	return true
}
