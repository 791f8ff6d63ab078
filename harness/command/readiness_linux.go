package command

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// readiness says which of two pipes can be read, the one that became readable
// first before the other: epoll(7) keeps a queue. Two goroutines that read a
// pipe each would not know.
type readiness struct {
	queue *os.File // of epoll_create1
	conn  syscall.RawConn

	mu     sync.Mutex
	closed bool
}

func newReadiness(pipes [2]*os.File) (*readiness, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	r := &readiness{queue: os.NewFile(uintptr(fd), "readiness of outputs")}
	r.conn, err = r.queue.SyscallConn()
	for i, p := range pipes {
		if err == nil {
			err = r.add(p, i)
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// add has a pipe watched, under a number. After close it does nothing.
func (r *readiness) add(pipe *os.File, number int) error {
	return r.control(syscall.EPOLL_CTL_ADD, pipe, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(number)})
}

func (r *readiness) remove(pipe *os.File) error {
	return r.control(syscall.EPOLL_CTL_DEL, pipe, &syscall.EpollEvent{})
}

func (r *readiness) control(op int, pipe *os.File, event *syscall.EpollEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	watched, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var ctlErr error
	err = r.conn.Control(func(queue uintptr) {
		err := watched.Control(func(fd uintptr) {
			ctlErr = syscall.EpollCtl(int(queue), op, int(fd), event)
		})
		if ctlErr == nil {
			ctlErr = err
		}
	})
	if err == nil {
		err = os.NewSyscallError("epoll_ctl", ctlErr)
	}
	return err
}

// wait returns the numbers of the pipes that can be read or have ended. After
// the deadline it is os.ErrDeadlineExceeded.
func (r *readiness) wait(found *[2]int) (n int, err error) {
	var events [2]syscall.EpollEvent
	waitErr := r.conn.Read(func(queue uintptr) bool {
		n, err = syscall.EpollWait(int(queue), events[:], 0)
		return n != 0 && err != syscall.EINTR
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, os.NewSyscallError("epoll_wait", err)
	}
	for i, e := range events[:n] {
		found[i] = int(e.Fd)
	}
	return n, nil
}

func (r *readiness) deadline(at time.Time) {
	r.queue.SetReadDeadline(at)
}

func (r *readiness) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.queue.Close()
}
