package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
)

// silence is how long a reader waits for the next byte.
const silence = 5 * time.Second

// Source is a file that was read: its bytes, and its name for results and messages.
type Source struct {
	Bytes []byte
	Path  string
}

// Text returns the file for errors about its text.
func (s Source) Text() runerr.Text { return runerr.Text{Name: s.Path, Src: s.Bytes} }

// Read reads a whole file, or standard input for "-". It reads regular files, pipes,
// sockets and character devices, at most one byte more than most, and gives up after five seconds
// without a byte. Its error is a RUN_E001.
func (a *App) Read(ctx context.Context, name string, most int) (Source, error) {
	src := Source{Path: screen.Path(name)}
	for b, err := range a.Chunks(ctx, name, most+1) {
		if err != nil {
			return src, err
		}
		src.Bytes = append(src.Bytes, b...)
	}
	return src, nil
}

// ReadUpTo is Read for a file of at most most bytes. It refuses a larger one, with hint.
func (a *App) ReadUpTo(ctx context.Context, name string, most int, hint string) (Source, error) {
	src, err := a.Read(ctx, name, most)
	if err == nil && len(src.Bytes) > most {
		err = runerr.Unreadable(src.Path, fmt.Sprintf("larger than the limit of %d bytes", most), hint)
	}
	return src, err
}

// Chunks yields the bytes of a file as they arrive, at most most bytes. An error comes
// last. A yielded slice is valid until the next one.
func (a *App) Chunks(ctx context.Context, name string, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		path := screen.Path(name)
		chunks := make(chan chunk, 1)
		done := make(chan struct{})
		defer close(done)
		// The open of a pipe without a writer blocks, like a read does. So the goroutine
		// does both. It is abandoned when the wait is over.
		go a.pump(name, most, chunks, done)
		timer := time.NewTimer(silence)
		defer timer.Stop()
		for {
			c := next(ctx, timer.C, chunks, path)
			if len(c.bytes) > 0 && !yield(c.bytes, nil) || errors.Is(c.err, io.EOF) {
				return
			}
			if c.err != nil {
				if !errors.As(c.err, new(*result.RunError)) {
					c.err = missing(name, c.err)
				}
				yield(nil, c.err)
				return
			}
			timer.Reset(silence)
		}
	}
}

// next returns the next chunk of a file, or one with the reason why the wait for it is over. A
// process that stood still finds the time over and the chunk there: then nobody was silent.
func next(ctx context.Context, over <-chan time.Time, chunks <-chan chunk, path string) chunk {
	select {
	case <-ctx.Done():
		return chunk{err: runerr.Unreadable(path, "interrupted", "run it again")}
	case c := <-chunks:
		return c
	case <-over:
	}
	select {
	case c := <-chunks:
		return c
	default:
		return chunk{err: runerr.Unreadable(path, "no data for 5 seconds", "check that something writes to it")}
	}
}

// Lines yields the lines of a file that are not blank. Numbers count every line, from 1
// on. A line with more than most bytes is yielded without its bytes as soon as the limit
// is passed. The rest of that line is skipped.
func (a *App) Lines(ctx context.Context, name string, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		l := Line{Number: 1}
		end := func() bool {
			told := l
			l = Line{Number: l.Number + 1}
			return told.Long || len(bytes.TrimSpace(told.Bytes)) == 0 || yield(told, nil)
		}
		for b, err := range a.Chunks(ctx, name, math.MaxInt) {
			if err != nil {
				yield(Line{Number: l.Number}, err)
				return
			}
			for {
				text, rest, ended := bytes.Cut(b, []byte{'\n'})
				switch {
				case l.Long:
				case len(l.Bytes)+len(text) > most:
					if l.Bytes, l.Long = nil, true; !yield(l, nil) {
						return
					}
				default:
					l.Bytes = append(l.Bytes, text...)
				}
				if !ended {
					break
				}
				if b = rest; !end() {
					return
				}
			}
		}
		end()
	}
}

// Line is one line of a file without its LF, or the number of one that is too long.
type Line struct {
	Bytes  []byte
	Number int
	Long   bool
}

type chunk struct {
	bytes []byte
	err   error
}

// maxChunk is how many bytes one read takes at most.
const maxChunk = 128 << 10

// pump opens a file and sends at most most bytes of it. The last chunk has the error,
// or io.EOF.
func (a *App) pump(name string, most int, chunks chan<- chunk, done <-chan struct{}) {
	send := func(c chunk) bool {
		select {
		case chunks <- c:
			return c.err == nil
		case <-done:
			return false
		}
	}
	var err error // why the reading ended
	defer func() {
		if p := recover(); p != nil {
			err = runerr.Panicked()
		}
		send(chunk{err: err})
	}()
	f, size, err := a.open(name)
	if err != nil {
		return
	}
	if f != a.Stdin {
		defer f.Close()
	}
	left := most
	length := 32 << 10
	var bufs [3][]byte // one is filled, one waits, and the caller has one
	for i := 0; left > 0; i = (i + 1) % len(bufs) {
		if size > 0 {
			length = min(size+1, maxChunk) // read a regular file at once
		}
		most := min(left, length)
		if cap(bufs[i]) < most {
			bufs[i] = make([]byte, most)
		}
		buf := bufs[i][:most]
		var n int
		n, err = f.Read(buf)
		left -= n
		if size > 0 {
			size = max(size-n, 4<<10) // then read little, to find the end of the file
		}
		if n > 0 && !send(chunk{bytes: buf[:n]}) || err != nil {
			return
		}
	}
	err = io.EOF
}

// missing is the error for a file that cannot be opened or read. It asks for a file of a
// similar name if there is none of that name.
func missing(name string, err error) *result.RunError {
	e := runerr.Unreadable(screen.Path(name), runerr.Reason(err), "")
	if errors.Is(err, fs.ErrNotExist) {
		if near := runerr.NearFile(name); near != "" {
			e.Hint = near + e.Remedy()
		}
	}
	return e
}

// open opens a file that can be read from start to end. It returns the size of a regular
// file in bytes, and 0 for other files.
func (a *App) open(name string) (*os.File, int, error) {
	f := a.Stdin
	if name != "-" {
		if strings.ContainsRune(name, 0) {
			return nil, 0, runerr.Unreadable("", "a file name cannot hold a NUL", "")
		}
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, 0, err
		}
	}
	path := screen.Path(name)
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return f, int(min(info.Size(), 1<<30)), nil
	case mode&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) != 0: // standard input can be a socket
		return f, 0, nil
	case mode.IsDir():
		return nil, 0, runerr.Unreadable(path, "a folder, not a file", "name the file in it")
	}
	return nil, 0, runerr.Unreadable(path, "neither a file nor a pipe nor a character device nor a socket", "")
}
