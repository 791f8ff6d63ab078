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
	// lookEvery is the time between two looks at the memory of a command where no cgroup
	// counts it.
	lookEvery = 100 * time.Millisecond
	// lookAgain is the time after which memory over the limit must still be over it: a
	// process that has just been made shares all of its memory with its parent.
	lookAgain = 20 * time.Millisecond
)

// watch ends the sandbox when its processes have more memory together than the limit.
// It returns when the action is over.
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

// memory is how much memory the processes of the sandbox have together, in bytes: their
// pages, page tables, and what can wait in their sockets; and what the file system in
// memory has taken, where the temporary folder is in one. Pages that processes share
// count once; finding that out takes time, so that it is done above the limit alone.
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

// census is one look at the processes of a sandbox.
type census struct {
	exact   bool            // pages that processes share count once
	sockets map[string]bool // by name, as several processes can have one
	unseen  int             // sockets that there can be in processes that hide theirs
}

// process is the memory of one process in bytes. Each of its threads can have ended,
// which leaves it no memory, and can have descriptors of its own.
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

// descriptors adds the sockets among the descriptors of a thread. A thread that hides
// them has as many as it can have.
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

// names are the entries of a folder of /proc; none where the process has ended.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(-1)
	return list
}

// kibibytes is the number in kB on the line of a file of /proc that begins with a key,
// in bytes; 0 without such a line.
func kibibytes(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return n * kib
		}
	}
	return 0
}

// socketBuffer is how much memory can wait in one socket, in bytes: its sending buffer,
// and one message that goes over its end.
func socketBuffer() (int64, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	n, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF)
	return 2 * int64(n), errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
}

// inMemoryUsed is how much the file system of a folder has taken, in bytes, if it is in
// memory; otherwise 0.
func inMemoryUsed(dir string) int64 {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return int64(st.Blocks-st.Bfree)*st.Bsize + int64(st.Files-st.Ffree)*kib
}
