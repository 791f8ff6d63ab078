package command

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// buffers is the number of chunks that may wait for a Tee. When all wait, the stream is not
// read, and the command waits too.
const buffers = 4

// passer passes chunks to their Tees on a goroutine of its own, so that a Tee that blocks
// stops only its own stream. Both streams share a passer when their Tees write to one place.
type passer struct {
	outlets []*outlet
	chunks  chan chunk    // chunks to pass on, in order
	spare   chan []byte   // free buffers
	made    int           // number of buffers; used by the reader only
	open    int           // outlets that have not ended; used by the reader only
	done    chan struct{} // closed when the goroutine has ended
	muted   atomic.Bool   // no Tee is called again
}

type chunk struct {
	to    *outlet
	bytes []byte
}

// outlet connects one stream to its Tee.
type outlet struct {
	by      *passer
	tee     io.Writer
	resume  func()       // makes the reader read the stream again
	awaited atomic.Bool  // the stream is not read until a buffer is free
	closed  bool         // no more chunks follow; used by the reader only
	pending atomic.Int32 // chunks that the Tee has not yet received

	mu  sync.Mutex
	err error
}

func newPasser() *passer {
	return &passer{chunks: make(chan chunk, buffers), spare: make(chan []byte, buffers), done: make(chan struct{})}
}

// outlet adds an outlet. It must be called before run.
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

// buffer returns a free buffer; nil: all buffers wait for a Tee.
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

// await makes the reader read the stream again when a buffer is free. The stream is not read
// when await is called.
func (o *outlet) await() {
	o.awaited.Store(true)
	if len(o.by.spare) > 0 && o.awaited.CompareAndSwap(true, false) {
		o.resume()
	}
}

func (o *outlet) pass(b []byte) {
	o.pending.Add(1)
	o.by.chunks <- chunk{o, b} // the channel has room for all buffers
}

// close says that no more chunks follow.
func (o *outlet) close() {
	if o.closed {
		return
	}
	o.closed = true
	if o.by.open--; o.by.open == 0 {
		close(o.by.chunks)
	}
}

// mute stops the use of all Tees of the passer, because one of them has not returned in
// time.
func (p *passer) mute() {
	p.muted.Store(true)
	for _, o := range p.outlets {
		if o.pending.Load() > 0 {
			o.fail(ErrBlocked)
		}
	}
}

// fail records the first error.
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

// ended waits for the last Write for at most patience, because it may never return.
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
