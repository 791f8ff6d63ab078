package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/fiador/fiador/kernel/rpc"
	"github.com/fiador/fiador/lazy"
)

// The exit statuses of Stdio.
const (
	exitClient = 0 // the client has ended the session, or ctx has
	exitServer = 1 // the server has: it has ended, or has sent what cannot be accepted
)

// Stdio starts a server and relays between it and a client, until one of them ends. The client
// writes to in and reads from out. The error says why the server could not be started.
//
// When the client has ended, the processes of the server get SIGTERM, and SIGKILL as soon as the
// server has ended, or after two seconds. A goroutine that reads in ends with it.
func Stdio(ctx context.Context, o Options, in io.Reader, out io.Writer, command []string) (exit int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(ctx, o)
	p, err := start(command, s.log)
	if err != nil {
		return 0, err
	}
	toServer, toClient := newQueue(p.in), &writer{to: out, gone: make(chan struct{})}
	s.send = func(line []byte, _ *flight) bool { return toServer.offer(line) }
	go toServer.drain()
	go func() {
		relayClient(s, in, toServer, toClient)
		toClient.leave()
	}()
	served := make(chan struct{})
	go func() {
		defer close(served)
		relayServer(s, p.out, toClient)
	}()
	select {
	case <-served:
		exit = exitServer
	case <-toClient.gone:
	case <-ctx.Done():
	}
	cancel()
	toServer.close()
	answers, last := s.over("the server has ended"), make(chan struct{})
	go func() {
		defer close(last)
		if exit == exitServer {
			toClient.write(answers)
		}
	}()
	p.end()
	select {
	case <-last:
	case <-toClient.gone:
	}
	s.rest()
	return exit, nil
}

// relayClient judges what the client writes, until it ends. Calls are decided beside each other,
// and reach the server in the order in which the client has sent them.
func relayClient(s *session, in io.Reader, toServer *queue, toClient *writer) {
	before := make(chan struct{})
	close(before)
	for r := newReader(in); ; {
		toServer.room()
		text, err := r.next()
		var o outcome
		switch {
		case err == errLong.Get():
			o.toClient = failure(nil, rpc.CodeInvalid, errLong.Get().Error())
		case err != nil:
			return
		default:
			o = s.fromClient(text)
		}
		toServer.push(o.toServer)
		toClient.write(o.toClient)
		if o.begins {
			s.begin()
		}
		if !o.decides() {
			continue
		}
		earlier, done := before, make(chan struct{})
		before = done
		go func() {
			defer s.calls.Done()
			defer close(done)
			a := s.verdict(o.request)
			<-earlier
			toClient.write(s.conclude(o.request, a, toServer.push))
		}()
	}
}

// relayServer judges what the server writes, until it ends or cannot be accepted any more.
func relayServer(s *session, out io.Reader, toClient *writer) {
	for r := newReader(out); ; {
		text, err := r.next()
		var line []byte
		more := true
		switch {
		case err == errLong.Get():
			line, more = s.drop(errLong.Get())
		case err != nil:
			return
		default:
			line, more = s.fromServer(text)
		}
		toClient.write(line)
		if !more {
			s.log.Println("fiador mcp gate: two messages running were dropped: the session ends")
			return
		}
	}
}

// reader reads lines of bounded length.
type reader struct {
	from *bufio.Reader
	line []byte
}

var errLong = lazy.Value[error]{Make: func() error { return fmt.Errorf("the message has more than %d bytes", rpc.MaxMessageBytes) }}

func newReader(from io.Reader) *reader { return &reader{from: bufio.NewReaderSize(from, 64<<10)} }

// next returns the next line that is not blank. It is valid up to the next call. errLong skips
// a line. A last line that has no line feed is none: its writer has ended in the middle.
func (r *reader) next() ([]byte, error) {
	for {
		r.line = r.line[:0]
		long := false
		for {
			part, err := r.from.ReadSlice('\n')
			if long = long || len(r.line)+len(part) > rpc.MaxMessageBytes+1; !long {
				r.line = append(r.line, part...)
			}
			if err == nil {
				break
			}
			if err != bufio.ErrBufferFull {
				return nil, err
			}
		}
		if long {
			return nil, errLong.Get()
		}
		if len(bytes.TrimSpace(r.line)) > 0 {
			return r.line, nil
		}
	}
}

// writer writes lines to the client, each as a whole.
type writer struct {
	mu   sync.Mutex
	to   io.Writer
	gone chan struct{} // closed when the client has ended
	once sync.Once
}

func (w *writer) write(line []byte) {
	if len(line) == 0 {
		return
	}
	w.mu.Lock()
	_, err := w.to.Write(line)
	w.mu.Unlock()
	if err != nil {
		w.leave()
	}
}

func (w *writer) leave() { w.once.Do(func() { close(w.gone) }) }

// queue holds the lines for the server, so that nobody waits for a server that does not read.
type queue struct {
	to     io.WriteCloser
	now    func(line []byte) int // writes the bytes that to takes without waiting
	mu     sync.Mutex
	change sync.Cond
	lines  [][]byte
	bytes  int // of the lines, and of the one that drain writes
	closed bool
}

// queueBytes is how much waits in a queue before no more is read from the client.
const queueBytes = 2 * rpc.MaxMessageBytes

func newQueue(to io.WriteCloser) *queue {
	q := &queue{to: to, now: atOnce(to)}
	q.change.L = &q.mu
	return q
}

// push appends a line. If no line waits, push writes it, which saves waking drain.
func (q *queue) push(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(line) > 0 && !q.closed && q.bytes == 0 {
		line = line[q.now(line):]
	}
	if len(line) > 0 && !q.closed {
		q.lines = append(q.lines, line)
		q.bytes += len(line)
		q.change.Broadcast()
	}
}

// offer appends a line, unless too much waits already.
func (q *queue) offer(line []byte) bool {
	q.mu.Lock()
	full := q.bytes > 2*queueBytes
	q.mu.Unlock()
	if !full {
		q.push(line)
	}
	return !full
}

// room waits until the queue has room, or is closed.
func (q *queue) room() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > queueBytes && !q.closed {
		q.change.Wait()
	}
}

// close ends the queue. Lines that wait are lost.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.change.Broadcast()
}

// drain writes the lines, until the queue is closed or the server does not read any more.
func (q *queue) drain() {
	defer q.to.Close()
	for {
		q.mu.Lock()
		for len(q.lines) == 0 && !q.closed {
			q.change.Wait()
		}
		if q.closed {
			q.mu.Unlock()
			return
		}
		line := q.lines[0]
		q.lines = q.lines[1:]
		q.mu.Unlock()
		_, err := q.to.Write(line)
		q.mu.Lock()
		q.bytes -= len(line)
		q.change.Broadcast()
		q.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// process is the process of a server.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	ended chan struct{}
}

// start starts a server. Its standard error goes to the log, in lines of bounded length.
func start(command []string, l *log.Logger) (*process, error) {
	if len(command) == 0 {
		return nil, errors.New("the server has no command")
	}
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.SysProcAttr = ownGroup
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	said, toLog, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close(), toUs.Close())
	}
	p.out, p.cmd.Stdout, p.cmd.Stderr = out, toUs, toLog
	err = p.cmd.Start()
	_, _ = toUs.Close(), toLog.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close(), said.Close())
	}
	go func() {
		defer said.Close()
		r := bufio.NewReaderSize(said, 4<<10)
		for {
			text, cut, err := r.ReadLine()
			if err != nil {
				return
			}
			line := string(text)
			if cut {
				line += "…"
			}
			for cut && err == nil {
				_, cut, err = r.ReadLine()
			}
			l.Println(line)
		}
	}()
	go func() {
		_ = p.cmd.Wait()
		// A process that the server has left may hold the pipe.
		_ = p.out.SetReadDeadline(time.Now().Add(ending))
		close(p.ended)
	}()
	return p, nil
}

// end ends the server and all processes of its group.
func (p *process) end() {
	terminate(p.cmd.Process)
	select {
	case <-p.ended:
	case <-time.After(ending):
	}
	kill(p.cmd.Process)
	<-p.ended
	_ = p.out.Close()
}
