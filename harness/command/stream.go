package command

import (
	"crypto/sha256"
	"errors"
	"os"
	"time"
)

const (
	chunkSize = 64 << 10 // default capacity of a pipe
	maxPipe   = 1 << 20  // largest capacity of a pipe, unless the system is configured otherwise
)

// reader reads both outputs of a command on one goroutine, so that it first reads the stream
// that became readable first. It calls no function of the caller except Events. It therefore
// ends when the streams have ended, or soon after their deadline.
type reader struct {
	spec    Spec
	ready   *readiness
	streams [2]*stream
	passers []*passer
	hurry   chan struct{} // closed: reader no longer waits for a Tee
	done    chan struct{} // closed when the goroutine has ended
}

// stream is one output of the command. It belongs to the reader until the reader is done.
type stream struct {
	number int // 1 or 2
	pipe   *os.File
	keep   int64
	own    []byte  // buffer when nothing is passed on
	tee    *outlet // nil: there is no Tee
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
		r.streams[i] = s
		if of.Tee == nil {
			continue
		}
		if len(r.passers) == 0 || !spec.OnePlace {
			r.passers = append(r.passers, newPasser())
		}
		s.tee = r.passers[len(r.passers)-1].outlet(of.Tee, func() {
			if ready.add(s.pipe, i) != nil {
				ready.deadline(time.Now()) // the rest is read as after the end of the process
			}
		})
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
	// A stream that waits for a Tee comes last, so that the other stream does not wait with
	// it.
	for _, waits := range []bool{false, true} {
		for _, s := range r.streams {
			if !s.ended && waits == (s.tee != nil && s.tee.by.full()) {
				r.sweep(s)
			}
		}
	}
}

// follow reads the streams as they become readable, until both have ended or their deadline
// has passed.
func (r *reader) follow() error {
	var list [2]found
	for !r.streams[0].ended || !r.streams[1].ended {
		n, err := r.ready.wait(&list)
		if err != nil {
			return err
		}
		for _, f := range list[:n] {
			if err := r.step(r.streams[f.number], f); err != nil {
				return err
			}
		}
	}
	return nil
}

// step reads once from a stream that can be read.
func (r *reader) step(s *stream, f found) error {
	buf := s.buffer()
	if buf == nil {
		err := r.ready.remove(s.pipe)
		s.tee.await()
		return err
	}
	n, empty := r.take(s, buf)
	if s.ended {
		return r.ready.remove(s.pipe)
	}
	// A pipe returns fewer bytes than asked for only if it is then empty.
	if n == len(buf) || f.closed && !empty {
		return r.ready.again(s.pipe, f.number)
	}
	return nil
}

// sweep reads what the pipe contains after the deadline. Otherwise the deadline would cut
// off bytes that arrived in time while a Tee blocked the stream.
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

// patiently returns a buffer to read into. It waits until the Tee returns one, as long as
// there is time. After that nothing is passed on.
func (r *reader) patiently(s *stream) []byte {
	if buf := s.buffer(); buf != nil {
		return buf
	}
	select {
	case buf := <-s.tee.by.spare:
		return buf
	case <-r.hurry:
	}
	select {
	case buf := <-s.tee.by.spare:
		return buf
	case <-time.After(patience):
		s.tee.by.mute()
		s.own = make([]byte, chunkSize)
		return s.own
	}
}

// take reads once into buf, keeps the bytes and passes them on. It sets s.ended when the
// stream has ended; empty is true when there was nothing to read.
func (r *reader) take(s *stream, buf []byte) (n int, empty bool) {
	n, empty, err := readNow(s.pipe, buf)
	if n == 0 {
		if s.own == nil {
			s.tee.by.spare <- buf
		}
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
	switch {
	case s.own == nil:
		s.tee.pass(chunk)
	case s.tee != nil:
		s.tee.fail(ErrBlocked)
	}
	return n, false
}

// buffer returns the buffer for the next chunk; nil: the Tee has all buffers.
func (s *stream) buffer() []byte {
	if s.tee == nil && s.own == nil {
		s.own = make([]byte, chunkSize)
	}
	if s.own != nil {
		return s.own
	}
	return s.tee.by.buffer()
}

func (s *stream) end(err error) {
	s.ended = true
	s.err = err
	s.finish()
}

// finish tells the Tee's outlet that no more chunks follow.
func (s *stream) finish() {
	if s.tee != nil {
		s.tee.close()
	}
}

// captured returns the output of the stream. It is called when the reader is done.
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
