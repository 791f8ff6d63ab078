package main

import (
	"io"
	"os"
	"syscall"
)

// stdout is standard output. A process that was started without one gets the
// null device from the runtime, open for reading and writing, where every write
// would seem to succeed; that is told from a redirection to it, which is for
// writing only, and fails.
func stdout() io.Writer {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return os.Stdout
	}
	info, err := os.Stdout.Stat()
	if err != nil || !os.SameFile(null, info) {
		return os.Stdout
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, os.Stdout.Fd(), syscall.F_GETFL, 0)
	if errno == 0 && flags&syscall.O_ACCMODE == syscall.O_RDWR {
		return closed{}
	}
	return os.Stdout
}

// closed fails as a closed file does.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }
