//go:build linux && (amd64 || arm64)

// Package census measures what processes use, as /proc shows it: the memory of a sandbox that no
// cgroup counts, and the number of processes and threads of a user.
package census

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const kib = 1 << 10

// Meter measures the memory of the processes of a sandbox.
type Meter struct {
	folder      string // what is written here counts, if it is in memory
	used        int64  // bytes in use at the start on the file system of folder, if it is in memory
	buffer      int64  // memory that can wait in one socket, in bytes
	descriptors int    // largest number of descriptors of a process
}

// New makes a meter. What is in use now on the file system of folder does not count.
func New(folder string, descriptors int) (*Meter, error) {
	buffer, err := socketBuffer()
	return &Meter{folder: folder, used: inMemoryUsed(folder), buffer: buffer, descriptors: descriptors}, err
}

// Memory returns the memory of processes, in bytes: their pages, their page tables, and the data
// that can wait in their sockets. It adds what the folder uses on a file system in memory. A page
// that processes share counts for each of them, and once if the sum would exceed the limit: to
// find such pages takes time.
func (m *Meter) Memory(pids []int, limit int64) int64 {
	l := count{unknown: m.descriptors, sockets: map[string]bool{}}
	sum := func() (n int64) {
		for _, pid := range pids {
			n += l.process("/proc/" + strconv.Itoa(pid))
		}
		return n + int64(len(l.sockets)+l.unseen)*m.buffer
	}
	disk := max(inMemoryUsed(m.folder)-m.used, 0)
	n := sum()
	if n+disk > limit {
		l = count{unknown: m.descriptors, sockets: l.sockets, exact: true}
		n = sum()
	}
	return n + disk
}

// count is one measurement.
type count struct {
	exact   bool            // a shared page counts once
	sockets map[string]bool // by name, because several processes can have one socket
	unseen  int             // largest possible number of sockets in threads that hide them
	unknown int             // that number for one thread
}

// process returns the memory of one process in bytes. It reads every thread: a thread that
// has ended has no memory, and a thread can have descriptors of its own.
func (l *count) process(dir string) int64 {
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
// its descriptors, it adds the largest possible number.
func (l *count) descriptors(dir string) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrPermission) {
		l.unseen += l.unknown
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
	return int64(st.Blocks-st.Bfree)*st.Bsize + int64(st.Files-st.Ffree)*kib // what an entry itself takes
}

// Tasks returns the number of visible processes and threads of a user.
func Tasks(uid int) int {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, d := range dirs {
		if d.Name()[0] < '0' || d.Name()[0] > '9' {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+d.Name(), &st) != nil || int(st.Uid) != uid {
			continue
		}
		// The link count of the folder is the number of its threads plus two.
		if unix.Stat("/proc/"+d.Name()+"/task", &st) == nil {
			n += max(int(st.Nlink)-2, 1)
		}
	}
	return n
}
