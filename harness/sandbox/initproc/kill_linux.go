//go:build linux && (amd64 || arm64)

package initproc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// signalAll sends a signal to everything that a command started. In a pid namespace these
// are all other processes; elsewhere they are the descendants of this process.
func (in *initial) signalAll(sig syscall.Signal) {
	if in.plan.PIDs {
		_ = syscall.Kill(-1, sig)
		return
	}
	for _, pid := range Descendants(os.Getpid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// killTime bounds the time for killing processes that fork as fast as they are killed.
const killTime = 10 * time.Second

// killAll kills and reaps everything that a command started, and says whether nothing is
// left.
func (in *initial) killAll() bool {
	if reapAll(1) {
		return true
	}
	for end := time.Now().Add(killTime); ; {
		in.signalAll(syscall.SIGKILL)
		if reapAll(200) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// reapAll reaps children that have ended, waits at most that many moments for others, and
// says whether none are left.
func reapAll(moments int) bool {
	for moments > 0 {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.ECHILD:
			return true
		case err == nil && pid == 0:
			if moments--; moments > 0 {
				time.Sleep(50 * time.Microsecond)
			}
		case err != nil && err != syscall.EINTR:
			return false
		}
	}
	return false
}

// Stat returns the fields of /proc/PID/stat from the third one, the state, on (proc(5)). It
// returns none for a process that does not exist. The second field, the name in
// parentheses, may contain anything, so Stat looks for its end.
func Stat(pid string) []string {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	var fields []string
	for f := range bytes.FieldsSeq(b[bytes.LastIndexByte(b, ')')+1:]) {
		fields = append(fields, string(f))
	}
	return fields
}

// Descendants returns the processes below an init, from /proc. A process that loses its
// parent becomes a child of the init (OpReaper, or the pid namespace), so Descendants misses
// none.
func Descendants(self int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	parent := map[int]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if fields := Stat(name); len(fields) > 1 {
			parent[pid], _ = strconv.Atoi(fields[1])
		}
	}
	var list []int
	for pid := range parent {
		at := pid
		for range 100000 {
			up, ok := parent[at]
			if !ok || up <= 1 && up != self {
				break
			}
			if up == self {
				list = append(list, pid)
				break
			}
			at = up
		}
	}
	return list
}
