package command

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// readiness says which of two pipes can be read. It returns the pipe that became readable
// first before the other, because epoll(7) keeps a queue. Two goroutines that each read one
// pipe would not know this order.
//
// epoll reports a pipe once for each arrival of bytes (EPOLLET). Without EPOLLET the pipe
// would stay in the queue, ahead of the other one, for bytes that arrive later. A caller
// that has not emptied a pipe therefore calls [readiness.again].
type readiness struct {
	queue *os.File // from epoll_create1
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

// add starts to watch a pipe, under a number. After close it does nothing.
func (r *readiness) add(pipe *os.File, number int) error {
	return r.control(syscall.EPOLL_CTL_ADD, pipe, interest(number))
}

// again puts a pipe that can still be read at the end of the queue.
func (r *readiness) again(pipe *os.File, number int) error {
	return r.control(syscall.EPOLL_CTL_MOD, pipe, interest(number))
}

func interest(number int) *syscall.EpollEvent {
	return &syscall.EpollEvent{Events: syscall.EPOLLIN | 1<<31, Fd: int32(number)} // EPOLLET, whose constant is negative
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

// found is a pipe that can be read. If closed is set, no process can write to it any more.
type found struct {
	number int
	closed bool
}

// wait returns the pipes that can be read or have ended. After the deadline it returns
// os.ErrDeadlineExceeded.
func (r *readiness) wait(list *[2]found) (n int, err error) {
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
		list[i] = found{int(e.Fd), e.Events&syscall.EPOLLHUP != 0}
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
