//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/initproc"
)

const (
	// lookEvery is the time between two measurements of a command's memory where no cgroup
	// counts it.
	lookEvery = 100 * time.Millisecond
	// lookAgain is the time between two measurements that must both exceed the limit. A new
	// process shares all its memory with its parent, so one measurement can be too high.
	lookAgain = 20 * time.Millisecond
)

// watch ends the sandbox when its processes together exceed the memory limit. It returns
// when the action is over.
func (p *performed) watch() {
	limit := int64(p.s.req.Limits.MemoryMB) * mib
	pause := lookEvery
	for {
		select {
		case <-p.over:
			return
		case <-time.After(pause):
		}
		start := time.Now()
		over := p.s.memory(limit) > limit
		if over && pause == lookAgain {
			select {
			case <-p.over:
			default:
				p.full.Store(true)
				_ = p.Kill()
			}
			return
		}
		if pause = max(lookEvery, min(10*time.Since(start), 5*lookEvery)); over {
			pause = lookAgain
		}
	}
}

// memory returns the memory of all processes of the sandbox, in bytes: their pages, their
// page tables, and the data that can wait in their sockets. It adds what scratch uses on a
// file system in memory. Shared pages count once; this takes time, so memory checks it only
// above the limit.
func (s *Sandbox) memory(limit int64) int64 {
	l := census{sockets: map[string]bool{}}
	own := initproc.Descendants(s.process.Pid)
	sum := func() (n int64) {
		for _, pid := range own {
			n += l.process("/proc/" + strconv.Itoa(pid))
		}
		return n + int64(len(l.sockets)+l.unseen)*s.buffer
	}
	disk := max(inMemoryUsed(s.scratch)-s.used, 0)
	n := sum()
	if n+disk > limit {
		l = census{sockets: l.sockets, exact: true}
		n = sum()
	}
	return n + disk
}

// census is one measurement of the processes of a sandbox.
type census struct {
	exact   bool            // shared pages count once
	sockets map[string]bool // by name, because several processes can have one socket
	unseen  int             // largest possible number of sockets in processes that hide them
}

// process returns the memory of one process in bytes. It reads every thread: a thread that
// has ended has no memory, and a thread can have descriptors of its own.
func (l *census) process(dir string) int64 {
	var pages, tables int64
	for _, task := range names(dir + "/task") {
		at := dir + "/task/" + task
		status, _ := os.ReadFile(at + "/status")
		if t := kibibytes(status, "VmPTE:"); t > 0 {
			pages, tables = kibibytes(status, "RssAnon:")+kibibytes(status, "VmSwap:"), t
			l.descriptors(at + "/fd")
		}
	}
	if l.exact {
		if shared, err := os.ReadFile(dir + "/smaps_rollup"); err == nil {
			pages = kibibytes(shared, "Pss_Anon:") + kibibytes(shared, "SwapPss:")
		}
	}
	return pages + tables
}

// descriptors adds the sockets among the descriptors of a thread. For a thread that hides
// its descriptors, it adds maxDescriptors.
func (l *census) descriptors(dir string) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrPermission) {
		l.unseen += maxDescriptors
		return
	}
	for _, fd := range list {
		if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			l.sockets[to] = true
		}
	}
}

// names returns the entries of a folder of /proc; none if the process has ended.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(-1)
	return list
}

// kibibytes returns the number in kB on the line that begins with key in a file of /proc, in
// bytes; 0 without such a line.
func kibibytes(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return n * kib
		}
	}
	return 0
}

// socketBuffer returns the memory that can wait in one socket, in bytes: its sending buffer,
// and one message beyond it.
func socketBuffer() (int64, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	n, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF)
	return 2 * int64(n), errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
}

// inMemoryUsed returns the bytes in use on the file system of a folder, if that file system
// is in memory; otherwise 0.
func inMemoryUsed(dir string) int64 {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return int64(st.Blocks-st.Bfree)*st.Bsize + int64(st.Files-st.Ffree)*kib
}
