package saferun

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// patient returns a writer for the caller's stream. The writer waits while the stream is
// non-blocking and full. Another process with the same file can make it non-blocking, for
// example a command on the same terminal. If the reader has gone, Write returns an error.
// A write of package os would end this process instead.
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
		connErr := s.conn.Control(func(fd uintptr) { m, err = syscall.Write(int(fd), b[n:]) })
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
