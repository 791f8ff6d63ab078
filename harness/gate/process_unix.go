//go:build unix

package gate

import (
	"io"
	"os"
	"syscall"
)

// ownGroup gives a server a process group of its own.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// atOnce returns a function that writes the bytes of a text that a pipe takes without waiting,
// and returns their number.
func atOnce(pipe io.Writer) func(text []byte) int {
	none := func([]byte) int { return 0 }
	file, ok := pipe.(syscall.Conn)
	if !ok {
		return none
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return none
	}
	return func(text []byte) (n int) {
		_ = conn.Write(func(fd uintptr) bool {
			n, _ = syscall.Write(int(fd), text) // drain meets the error again
			return true
		})
		return max(n, 0)
	}
}
