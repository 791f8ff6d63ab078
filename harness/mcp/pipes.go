package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/fiador/fiador/kernel/rpc"
)

// pipes is a link to a process: each message is one line. Goroutines read and write, because a
// pipe knows no deadline.
type pipes struct {
	out     io.Writer
	lines   chan line
	waiting []line // read while a message was being written
	done    chan struct{}
}

// line is a line of the server, without its line feed, or the end.
type line struct {
	text []byte
	err  error
}

// Pipes returns the link to a process by its standard output and its standard input. The
// caller closes both when the conversation is over.
func Pipes(in io.Reader, out io.Writer) Link {
	p := &pipes{out: out, lines: make(chan line), done: make(chan struct{})}
	go p.read(in)
	return p
}

// read hands on the lines. A last line that has no line feed is none: its writer has ended in
// the middle.
func (p *pipes) read(in io.Reader) {
	s := bufio.NewScanner(&meter{in, new(int)})
	s.Buffer(nil, rpc.MaxMessageBytes+2)
	s.Split(func(data []byte, _ bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for s.Scan() {
		if !p.hand(line{text: bytes.Clone(s.Bytes())}) {
			return
		}
	}
	err := error(io.EOF)
	if errors.Is(s.Err(), bufio.ErrTooLong) || errors.Is(s.Err(), errTooMuch.Get()) {
		err = unreadable(errTooMuch.Get())
	}
	for p.hand(line{err: err}) {
	}
}

// hand hands on a line, and says whether the conversation goes on.
func (p *pipes) hand(l line) bool {
	select {
	case p.lines <- l:
		return true
	case <-p.done:
		return false
	}
}

func (p *pipes) next(ctx context.Context) ([]byte, error) {
	if len(p.waiting) > 0 {
		l := p.waiting[0]
		p.waiting = p.waiting[1:]
		return l.text, l.err
	}
	select {
	case l := <-p.lines:
		return l.text, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) ask(ctx context.Context, message []byte) error { return p.tell(ctx, message) }

// tell writes a message. It reads on in the meantime, so that a server that writes before it
// reads does not wait for ever. A message that cannot be written is no error here: the end
// of the server's output will follow, or the deadline.
func (p *pipes) tell(ctx context.Context, message []byte) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		p.out.Write(append(message, '\n'))
	}()
	lines := p.lines
	for {
		select {
		case <-written:
			return nil
		case l := <-lines:
			if p.waiting = append(p.waiting, l); l.err != nil {
				lines = nil
			}
			if len(p.waiting) > MaxMessages {
				return tooMany()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipes) agree(string) {}

func (p *pipes) finish(context.Context) {
	if c, ok := p.out.(io.Closer); ok {
		c.Close()
	}
}

func (p *pipes) close(context.Context) { close(p.done) }
