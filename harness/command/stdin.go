package command

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

// feeder copies a reader to the command's standard input. It closes standard input when the
// reader or the command ends.
type feeder struct {
	pipe    *os.File
	from    io.Reader
	stopped atomic.Bool
	done    chan struct{}
	err     error // error of from; may be read after done
}

func (f *feeder) feed() {
	defer close(f.done)
	defer f.pipe.Close()
	buf := make([]byte, chunkSize)
	for f.ready() {
		n, err := f.from.Read(buf)
		if n > 0 {
			// EPIPE, or closed by stop: the command reads no more.
			if _, err := f.pipe.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				f.err = err
			}
			return
		}
	}
}

// ready says whether the next Read may begin.
func (f *feeder) ready() bool {
	file, ok := f.from.(*os.File)
	for !f.stopped.Load() {
		if !ok {
			return true
		}
		switch readable, wanted := poll(file, f.pipe, patience/2); {
		case !wanted:
			return false
		case readable:
			return true
		}
	}
	return false
}

// stop closes the command's standard input. It returns the error of the reader, unless a
// Read of it is blocked.
func (f *feeder) stop() error {
	f.stopped.Store(true)
	f.pipe.Close()
	select {
	case <-f.done:
		return f.err
	case <-time.After(patience):
		return nil
	}
}
