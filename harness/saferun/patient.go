package saferun

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// patient makes a writer of the caller's stream that waits where a write would block
// though it should not: whoever has the same file, a command on the same terminal for
// one, can make it non-blocking. A reader that has gone is an error, and not the end
// of this process as for a write of package os.
func patient(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok {
		return w
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return w
	}
	return stream{conn}
}

type stream struct{ conn syscall.RawConn }

func (s stream) Write(b []byte) (n int, err error) {
	for n < len(b) {
		var m int
		connErr := s.conn.Control(func(fd uintptr) { m, err = syscall.Write(handle(fd), b[n:]) })
		n += max(m, 0)
		switch {
		case connErr != nil:
			return n, connErr
		case errors.Is(err, syscall.EAGAIN):
			time.Sleep(time.Millisecond)
		case err != nil && !errors.Is(err, syscall.EINTR):
			return n, err
		}
	}
	return n, nil
}
