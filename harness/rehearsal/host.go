package rehearsal

import (
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Server is a server of the machine that no sandbox may reach. It closes each connection
// at once.
type Server struct {
	Port  int // of 127.0.0.1
	Calls atomic.Int32
}

// Serve starts a server, which ends with the test.
func Serve(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &Server{Port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.Calls.Add(1)
			c.Close()
		}
	}()
	return s
}

// WriteFile writes a file that a test starts as a program afterwards. Meanwhile no other
// goroutine starts a process, whose fork would have the file open too, so that it could not be
// started (ETXTBSY).
func WriteFile(name string, text []byte, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, text, mode)
}

// Mounts counts the mounts that this process sees, but those in folders for temporary files
// whose path lacks own: tests of other packages mount and unmount there meanwhile.
func Mounts(t testing.TB, own string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if at := strings.Fields(line)[4]; strings.Contains(line, own) || !strings.HasPrefix(at, "/tmp/") && !strings.HasPrefix(at, os.TempDir()+"/") {
			n++
		}
	}
	return n
}

// Closed returns an address of this machine at which nobody listens. Until the end of the test
// it is that of a client, so that no other program gets it.
func Closed(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for { // a connection that is not accepted ends with the listener, and leaves its port free
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		if a.RemoteAddr().String() == c.LocalAddr().String() {
			break
		}
	}
	return c.LocalAddr().String()
}
