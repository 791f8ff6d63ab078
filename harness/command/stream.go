package command

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	chunkSize = 64 << 10 // what a pipe holds by default
	maxPipe   = 1 << 20  // the most a pipe holds, unless the system was told otherwise
)

// stream reads one output of the command. Its own goroutine does so, and passes
// each chunk on, until the pipe ends or its deadline has passed; if that
// goroutine is stuck in a caller's function then, finish reads the rest instead.
type stream struct {
	number int // 1 or 2
	pipe   *os.File
	keep   int64
	tee    io.Writer
	events func(stream int, at time.Time, chunk []byte)
	order  *sync.Mutex // held during events, by either stream
	now    func() time.Time
	done   chan struct{} // closed when the goroutine has ended

	// For whoever reads the pipe, and for everybody afterwards.
	held bool
	err  error

	mu      sync.Mutex // guards the rest
	kept    []byte
	size    int64
	teeErr  error
	outside bool // the goroutine is in a caller's function
	mute    bool // no caller's function is entered any more
	taken   bool // finish reads the pipe: the goroutine touches nothing more
}

func newStream(number int, pipe *os.File, s Stream, spec Spec, order *sync.Mutex) *stream {
	return &stream{
		number: number, pipe: pipe, keep: s.Keep, tee: s.Tee,
		events: spec.Events, order: order, now: spec.Now, done: make(chan struct{}),
	}
}

func (s *stream) read() {
	defer close(s.done)
	buf := make([]byte, chunkSize)
	for {
		n, err := s.pipe.Read(buf)
		if n > 0 && !s.take(buf[:n]) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.sweep(buf, s.take)
			return
		default:
			if err != io.EOF {
				s.err = err
			}
			return
		}
	}
}

// sweep reads what the pipe holds, without waiting. The deadline of a pipe cuts
// off bytes that were there in time when the goroutine was held up by a Tee.
func (s *stream) sweep(buf []byte, take func([]byte) bool) {
	for left := maxPipe; left > 0; {
		n, empty, err := readNow(s.pipe, buf)
		if err != nil {
			s.err = err
			return
		}
		if empty {
			break
		}
		if n == 0 {
			return
		}
		left -= n
		if !take(buf[:n]) {
			return
		}
	}
	s.held = true
}

// take keeps a chunk and passes it on. It is false when the goroutine has lost
// the pipe meanwhile.
func (s *stream) take(chunk []byte) bool {
	s.capture(chunk)
	if s.tee == nil && s.events == nil {
		return true
	}
	if !s.enter() {
		return true
	}
	err := s.pass(chunk)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.outside = false
	if s.teeErr == nil {
		s.teeErr = err
	}
	return true
}

func (s *stream) capture(chunk []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += int64(len(chunk))
	if room := s.keep - int64(len(s.kept)); room > 0 {
		s.kept = append(s.kept, chunk[:min(room, int64(len(chunk)))]...)
	}
	return true
}

// enter is false when the chunk is not passed on.
func (s *stream) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		if s.teeErr == nil {
			s.teeErr = ErrBlocked
		}
		return false
	}
	s.outside = true
	return true
}

func (s *stream) pass(chunk []byte) error {
	if s.events != nil {
		s.order.Lock()
		if s.lost() {
			s.order.Unlock()
			return nil
		}
		s.events(s.number, s.now(), chunk)
		s.order.Unlock()
	}
	if s.tee == nil || s.failed() {
		return nil
	}
	n, err := s.tee.Write(chunk)
	if err == nil && n < len(chunk) {
		err = io.ErrShortWrite
	}
	return err
}

func (s *stream) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken || s.teeErr != nil
}

// finish returns when nobody reads the pipe any more. The pipe's deadline has
// passed or the goroutine has ended.
func (s *stream) finish() {
	select {
	case <-s.done:
		return
	case <-time.After(patience):
	}
	s.mu.Lock()
	s.mute = true
	s.taken = s.outside
	if s.taken && s.teeErr == nil {
		s.teeErr = ErrBlocked
	}
	taken := s.taken
	s.mu.Unlock()
	if !taken {
		<-s.done
		return
	}
	s.sweep(make([]byte, chunkSize), s.capture)
}

// captured is what has come out by now, which is everything after finish.
func (s *stream) captured() Captured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Captured{
		Bytes:     s.kept,
		SHA256:    sha256.Sum256(s.kept),
		Size:      s.size,
		Truncated: s.size > int64(len(s.kept)),
		TeeErr:    s.teeErr,
	}
}
