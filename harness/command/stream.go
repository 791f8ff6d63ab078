package command

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 64 << 10 // what a pipe holds by default
	maxPipe   = 1 << 20  // the most a pipe holds, unless the system was told otherwise
	// buffers is how many chunks of a stream may wait for its Tee; then the
	// stream is not read, and the command waits too.
	buffers = 4
)

// reader reads both outputs of a command on one goroutine, so that what became
// readable first is taken first. It enters no caller's function but Events, and
// so ends when the streams have, or soon after their deadline.
type reader struct {
	spec    Spec
	ready   *readiness
	streams [2]*stream
	hurry   chan struct{} // closed: no Tee is waited for any more
	done    chan struct{} // closed when the goroutine has ended
}

// stream is one output of the command. It belongs to the reader until that is done.
type stream struct {
	number int // 1 or 2
	pipe   *os.File
	keep   int64
	own    []byte  // what is read into when nothing is passed on
	tee    *passer // nil: there is no Tee
	ended  bool
	held   bool
	err    error
	kept   []byte
	size   int64
}

func newReader(ready *readiness, pipes [2]*os.File, spec Spec) *reader {
	r := &reader{spec: spec, ready: ready, hurry: make(chan struct{}), done: make(chan struct{})}
	for i, of := range []Stream{spec.Stdout, spec.Stderr} {
		s := &stream{number: i + 1, pipe: pipes[i], keep: of.Keep}
		if of.Tee != nil {
			s.tee = newPasser(of.Tee, func() { ready.add(s.pipe, i) })
		}
		r.streams[i] = s
	}
	return r
}

func (r *reader) read() {
	defer close(r.done)
	defer func() {
		for _, s := range r.streams {
			s.finish()
		}
	}()
	err := r.follow()
	r.ready.close()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		for _, s := range r.streams {
			if !s.ended {
				s.end(err)
			}
		}
	}
	// What waits for a Tee comes last: the other stream need not wait with it.
	for _, waits := range []bool{false, true} {
		for _, s := range r.streams {
			if !s.ended && waits == (s.tee != nil && s.tee.full()) {
				r.sweep(s)
			}
		}
	}
}

// follow reads whatever becomes readable, until both streams have ended or their
// deadline has passed.
func (r *reader) follow() error {
	var found [2]int
	for !r.streams[0].ended || !r.streams[1].ended {
		n, err := r.ready.wait(&found)
		if err != nil {
			return err
		}
		for _, i := range found[:n] {
			r.step(r.streams[i])
		}
	}
	return nil
}

func (r *reader) step(s *stream) {
	buf := s.buffer()
	if buf == nil {
		r.ready.remove(s.pipe)
		s.tee.await()
		return
	}
	if _, empty := r.take(s, buf); s.ended && !empty {
		r.ready.remove(s.pipe)
	}
}

// sweep reads what the pipe holds after the deadline, which cuts off bytes that
// were there in time when a Tee held the stream up.
func (r *reader) sweep(s *stream) {
	for left := maxPipe; left > 0; {
		n, empty := r.take(s, r.patiently(s))
		if s.ended {
			return
		}
		if empty {
			break
		}
		left -= n
	}
	s.held = true
	s.end(nil)
}

// patiently is a buffer to read into. It waits for the Tee to give one back, as
// long as there is time; after that nothing is passed on.
func (r *reader) patiently(s *stream) []byte {
	if buf := s.buffer(); buf != nil {
		return buf
	}
	select {
	case buf := <-s.tee.spare:
		return buf
	case <-r.hurry:
	}
	select {
	case buf := <-s.tee.spare:
		return buf
	case <-time.After(patience):
		s.tee.mute()
		s.own = make([]byte, chunkSize)
		return s.own
	}
}

// take reads once into buf, keeps what came, and passes it on. The stream has
// ended when s.ended is set; empty is true when there was nothing to read.
func (r *reader) take(s *stream, buf []byte) (n int, empty bool) {
	n, empty, err := readNow(s.pipe, buf)
	if n == 0 {
		s.giveBack(buf)
		if !empty {
			s.end(err)
		}
		return 0, empty
	}
	chunk := buf[:n]
	s.size += int64(n)
	if room := s.keep - int64(len(s.kept)); room > 0 {
		s.kept = append(s.kept, chunk[:min(room, int64(n))]...)
	}
	if r.spec.Events != nil {
		r.spec.Events(s.number, r.spec.Now(), chunk)
	}
	if s.own == nil {
		s.tee.pass(chunk)
	}
	return n, false
}

// buffer is what the next chunk is read into; nil: the Tee has all there are.
func (s *stream) buffer() []byte {
	if s.tee == nil && s.own == nil {
		s.own = make([]byte, chunkSize)
	}
	if s.own != nil {
		return s.own
	}
	return s.tee.buffer()
}

func (s *stream) giveBack(buf []byte) {
	if s.own == nil {
		s.tee.spare <- buf
	}
}

func (s *stream) end(err error) {
	s.ended = true
	s.err = err
	s.finish()
}

// finish tells the Tee that nothing more comes.
func (s *stream) finish() {
	if s.tee != nil {
		s.tee.close()
	}
}

// captured is what has come out of the stream. The reader is done.
func (s *stream) captured() Captured {
	c := Captured{
		Bytes:     s.kept,
		SHA256:    sha256.Sum256(s.kept),
		Size:      s.size,
		Truncated: s.size > int64(len(s.kept)),
	}
	if s.tee != nil {
		c.TeeErr = s.tee.result()
	}
	return c
}

// passer hands the chunks of one stream to its Tee, on a goroutine of its own: a
// Tee that blocks holds up its stream and no other.
type passer struct {
	tee    io.Writer
	chunks chan []byte   // to be passed on, in order
	spare  chan []byte   // buffers that can be read into
	made   int           // how many buffers there are; the reader's
	closed bool          // chunks is closed; the reader's
	resume func()        // has the stream read again
	done   chan struct{} // closed when the goroutine has ended

	awaited atomic.Bool // the stream is not read until a buffer is spare
	muted   atomic.Bool // the Tee is not called any more

	mu  sync.Mutex
	err error
}

func newPasser(tee io.Writer, resume func()) *passer {
	return &passer{
		tee: tee, resume: resume, done: make(chan struct{}),
		chunks: make(chan []byte, buffers), spare: make(chan []byte, buffers),
	}
}

func (p *passer) run() {
	defer close(p.done)
	for chunk := range p.chunks {
		p.write(chunk)
		p.spare <- chunk[:cap(chunk)]
		if p.awaited.CompareAndSwap(true, false) {
			p.resume()
		}
	}
}

func (p *passer) write(chunk []byte) {
	if p.result() != nil {
		return
	}
	if p.muted.Load() {
		p.fail(ErrBlocked)
		return
	}
	n, err := p.tee.Write(chunk)
	if err == nil && n < len(chunk) {
		err = io.ErrShortWrite
	}
	if err != nil {
		p.fail(err)
	}
}

// buffer is a buffer that nobody uses; nil: the Tee has them all.
func (p *passer) buffer() []byte {
	select {
	case buf := <-p.spare:
		return buf
	default:
	}
	if p.made == buffers {
		return nil
	}
	p.made++
	return make([]byte, chunkSize)
}

func (p *passer) full() bool { return p.made == buffers && len(p.spare) == 0 }

// await has the stream read again when a buffer is spare. By now it is not read.
func (p *passer) await() {
	p.awaited.Store(true)
	if len(p.spare) > 0 && p.awaited.CompareAndSwap(true, false) {
		p.resume()
	}
}

func (p *passer) pass(chunk []byte) { p.chunks <- chunk } // there is room for all buffers

func (p *passer) close() {
	if !p.closed {
		p.closed = true
		close(p.chunks)
	}
}

// mute ends the use of a Tee that has not returned in time.
func (p *passer) mute() {
	p.muted.Store(true)
	p.fail(ErrBlocked)
}

// fail takes down the first error.
func (p *passer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *passer) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// ended waits for the last Write, which may never return.
func (p *passer) ended() {
	select {
	case <-p.done:
		return
	default:
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.mute()
	}
}
