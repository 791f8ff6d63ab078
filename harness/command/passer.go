package command

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// buffers is how many chunks may wait for a Tee; then its stream is not read, and
// the command waits too.
const buffers = 4

// passer hands chunks to their Tees, on a goroutine of its own, so that a Tee that
// blocks holds up its stream and no other. Both streams have the same passer when
// their Tees lead to one place.
type passer struct {
	outlets []*outlet
	chunks  chan chunk    // to be passed on, in order
	spare   chan []byte   // buffers that can be read into
	made    int           // how many buffers there are; the reader's
	open    int           // outlets that have not ended; the reader's
	done    chan struct{} // closed when the goroutine has ended
	muted   atomic.Bool   // no Tee is called any more
}

type chunk struct {
	to    *outlet
	bytes []byte
}

// outlet is the way of one stream to its Tee.
type outlet struct {
	by      *passer
	tee     io.Writer
	resume  func()       // has the stream read again
	awaited atomic.Bool  // the stream is not read until a buffer is spare
	closed  bool         // nothing more comes; the reader's
	pending atomic.Int32 // chunks on their way

	mu  sync.Mutex
	err error
}

func newPasser() *passer {
	return &passer{chunks: make(chan chunk, buffers), spare: make(chan []byte, buffers), done: make(chan struct{})}
}

// outlet is called before run.
func (p *passer) outlet(tee io.Writer, resume func()) *outlet {
	o := &outlet{by: p, tee: tee, resume: resume}
	p.outlets = append(p.outlets, o)
	p.open++
	return o
}

func (p *passer) run() {
	defer close(p.done)
	for c := range p.chunks {
		c.to.write(c.bytes)
		c.to.pending.Add(-1)
		p.spare <- c.bytes[:cap(c.bytes)]
		for _, o := range p.outlets {
			if o.awaited.CompareAndSwap(true, false) {
				o.resume()
			}
		}
	}
}

func (o *outlet) write(b []byte) {
	if o.result() != nil {
		return
	}
	if o.by.muted.Load() {
		o.fail(ErrBlocked)
		return
	}
	n, err := o.tee.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		o.fail(err)
	}
}

// buffer is a buffer that nobody uses; nil: they all wait for a Tee.
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
func (o *outlet) await() {
	o.awaited.Store(true)
	if len(o.by.spare) > 0 && o.awaited.CompareAndSwap(true, false) {
		o.resume()
	}
}

func (o *outlet) pass(b []byte) {
	o.pending.Add(1)
	o.by.chunks <- chunk{o, b} // there is room for all buffers
}

// close says that nothing more comes.
func (o *outlet) close() {
	if o.closed {
		return
	}
	o.closed = true
	if o.by.open--; o.by.open == 0 {
		close(o.by.chunks)
	}
}

// mute ends the use of Tees one of which has not returned in time.
func (p *passer) mute() {
	p.muted.Store(true)
	for _, o := range p.outlets {
		if o.pending.Load() > 0 {
			o.fail(ErrBlocked)
		}
	}
}

// fail takes down the first error.
func (o *outlet) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

func (o *outlet) result() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
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
