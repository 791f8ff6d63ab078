package command

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// newPipe opens a pipe for an input or an output of a command. The command's end is in
// blocking mode, as programs expect; the own end is not. Close interrupts a Write to the own
// end of an input. The own end of an output is only for [readNow] and [readiness].
func newPipe(name string, input bool) (child, own *os.File, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	c, o := p[1], p[0]
	if input {
		c, o = p[0], p[1]
	}
	if !input {
		own = os.NewFile(uintptr(o), name) // still in blocking mode, so that the runtime does not watch it too
	}
	if err := syscall.SetNonblock(o, true); err != nil {
		syscall.Close(p[0])
		syscall.Close(p[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	if input {
		own = os.NewFile(uintptr(o), name)
	}
	return os.NewFile(uintptr(c), name), own, nil
}

// readNow reads the available bytes of an own end, without waiting. empty: nothing is
// available now; n == 0 and not empty: end of file.
func readNow(pipe *os.File, buf []byte) (n int, empty bool, err error) {
	c, err := pipe.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	ctlErr := c.Control(func(fd uintptr) {
		for {
			n, err = syscall.Read(int(fd), buf)
			if err != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case ctlErr != nil:
		return 0, false, ctlErr
	case err == syscall.EAGAIN:
		return 0, true, nil
	case err != nil:
		return 0, false, os.NewSyscallError("read", err)
	}
	return n, false, nil
}

// pollFD is the kernel's struct pollfd.
type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// The events of poll(2), the same on every architecture.
const (
	pollIn  = 0x1
	pollErr = 0x8
)

// poll waits until from can be read, or the reader of pipe has gone, or the timeout has
// passed. wanted is false if nobody reads pipe.
func poll(from, pipe *os.File, timeout time.Duration) (readable, wanted bool) {
	in, err := from.SyscallConn()
	if err != nil {
		return true, true // Read reports the error
	}
	out, err := pipe.SyscallConn()
	if err != nil {
		return false, false
	}
	fds := [2]pollFD{{events: pollIn}, {}}
	outErr := error(nil)
	inErr := in.Control(func(a uintptr) {
		outErr = out.Control(func(b uintptr) {
			fds[0].fd, fds[1].fd = int32(a), int32(b)
			ts := syscall.NsecToTimespec(int64(timeout))
			// An interrupted call has seen nothing.
			syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), uintptr(len(fds)), uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		})
	})
	if inErr != nil {
		return true, true
	}
	return fds[0].revents != 0, outErr == nil && fds[1].revents&pollErr == 0
}
