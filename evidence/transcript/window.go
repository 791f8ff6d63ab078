package transcript

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"
)

// window holds a piece of its source in memory.
type window struct {
	r    io.ReaderAt
	size int64
	most int    // maximum bytes in memory
	name string // for errors
	base int64  // offset where held begins
	held []byte
	room []byte
}

// at returns at least one byte from off on; off is less than size. The bytes are valid
// until the next call.
func (w *window) at(off int64) ([]byte, error) {
	if i := off - w.base; i >= 0 && i < int64(len(w.held)) {
		return w.held[i:], nil
	}
	if w.room == nil {
		w.room = make([]byte, min(w.size, int64(w.most)))
	}
	want := w.room[:min(int64(len(w.room)), w.size-off)]
	if err := readAt(w.r, want, off, w.name); err != nil {
		w.held = nil
		return nil, err
	}
	w.base, w.held = off, want
	return want, nil
}

// readAt fills b.
func readAt(r io.ReaderAt, b []byte, off int64, name string) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, off)
	if n < len(b) {
		return readError(name, off+int64(n), err)
	}
	return nil
}

// readError is the error of a failed read. An end before the given size is an error of
// its own.
func readError(name string, off int64, err error) error {
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at byte %d: %w", name, off, err)
}

// has returns the bytes of a range if they are all in memory.
func (w *window) has(from, to int64) ([]byte, bool) {
	if from < w.base || to > w.base+int64(len(w.held)) {
		return nil, false
	}
	return w.held[from-w.base : to-w.base], true
}

// pieces returns the bytes of a range, one piece after another.
func (w *window) pieces(from, to int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from < to {
			b, err := w.at(from)
			if err != nil {
				yield(nil, err)
				return
			}
			b = b[:min(int64(len(b)), to-from)]
			if from += int64(len(b)); !yield(b, nil) {
				return
			}
		}
	}
}

// next returns the length of the line at the position of the walk, its LF included.
func (c *cursor) next() (n int64, err error) {
	for c.pos < c.size {
		b, err := c.at(c.pos)
		if err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			c.pos += int64(i) + 1
			return n + int64(i) + 1, nil
		}
		c.pos += int64(len(b))
		n += int64(len(b))
	}
	return n, nil
}

// checker says whether pieces together are valid UTF-8.
type checker struct {
	cut [utf8.UTFMax]byte // a sequence that began in the last piece
	n   int
	bad bool
}

func (c *checker) add(p []byte) {
	for c.n > 0 && len(p) > 0 && !c.bad {
		c.cut[c.n], p = p[0], p[1:]
		c.n++
		if utf8.FullRune(c.cut[:c.n]) {
			c.bad, c.n = !utf8.Valid(c.cut[:c.n]), 0
		}
	}
	if c.bad || len(p) == 0 {
		return
	}
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				c.n = copy(c.cut[:], p[i:])
				p = p[:i]
			}
			break
		}
	}
	c.bad = !utf8.Valid(p)
}

func (c *checker) valid() bool { return !c.bad && c.n == 0 }
