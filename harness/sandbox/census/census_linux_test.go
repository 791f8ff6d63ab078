//go:build linux && (amd64 || arm64)

package census

import (
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKibibytes reads lines with the format of /proc.
func TestKibibytes(t *testing.T) {
	const status = "Name:\tRssAnon:\nVmPTE:\t      60 kB\nRssAnon:\t    1024 kB\nRssFile:\t  12 kB\n"
	for key, want := range map[string]int64{"RssAnon:": 1024 * kib, "VmPTE:": 60 * kib, "VmSwap:": 0, "RssFile": 0} {
		if got := kibibytes([]byte(status), key); got != want {
			t.Errorf("%s: %d", key, got)
		}
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"RssAnon:", "VmPTE:"} {
		if kibibytes(own, key) == 0 || !strings.Contains(string(own), key) {
			t.Errorf("this kernel does not tell %s", key)
		}
	}
}

// TestMemory: new pages count, and each socket counts once, whatever its descriptors are. The
// exact sum is not greater.
func TestMemory(t *testing.T) {
	m, err := New("", 1024)
	if err != nil {
		t.Fatal(err)
	}
	own := []int{os.Getpid()}
	before := m.Memory(own, math.MaxInt64)
	pages, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pages); i += 4096 {
		pages[i] = 1
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	again, err := unix.Dup(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	after, exact := m.Memory(own, math.MaxInt64), m.Memory(own, 0)
	if more := after - before - 2*m.buffer; more < 63<<20 || more > 80<<20 {
		t.Errorf("64 MiB and two sockets count as %d bytes and two sockets of %d", more, m.buffer)
	}
	if exact > after+1<<20 || exact < 63<<20 {
		t.Errorf("the exact sum is %d bytes, the other one %d", exact, after)
	}
	for _, fd := range []int{again, pair[0], pair[1]} {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Munmap(pages); err != nil {
		t.Error(err)
	}
	if n := m.Memory(own, math.MaxInt64); n > after-60<<20 {
		t.Errorf("%d bytes after %d, and 64 MiB are gone", n, after)
	}
	if n := m.Memory([]int{math.MaxInt32}, math.MaxInt64); n != 0 {
		t.Errorf("a process that does not exist has %d bytes", n)
	}
}

// TestTasks: a user has at least this process, with the threads of a Go program. A user
// without processes has none.
func TestTasks(t *testing.T) {
	if n := Tasks(os.Geteuid()); n < 2 {
		t.Errorf("%d tasks", n)
	}
	if n := Tasks(math.MaxInt32); n != 0 {
		t.Errorf("%d tasks of nobody", n)
	}
}
