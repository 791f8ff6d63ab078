package main

import (
	"fmt"
	"io"
	"time"

	"github.com/fiador/fiador/evidence/screen"
)

// progressLine shows on a terminal how many entries were read. It is one line that
// overwrites itself, for work that takes longer than a moment.
type progressLine struct {
	app   *app
	total int64
	read  int64
	began time.Time
	shown time.Time // zero: the line is not shown
}

func newProgress(a *app, total int64) *progressLine {
	return &progressLine{app: a, total: total, began: a.now()}
}

// tell counts an entry that was read. Every 1024th call may redraw the line.
func (p *progressLine) tell() {
	if p.read++; p.read%1024 == 0 {
		p.show(fmt.Sprintf("read %d of %d entries", min(p.read, p.total), p.total))
	}
}

// show shows a text, unless the work has just begun or the line has just changed.
func (p *progressLine) show(text string) {
	if !p.app.tty {
		return
	}
	now := p.app.now()
	if now.Sub(p.began) < 500*time.Millisecond || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	fmt.Fprintf(p.app.stderr, "\r\x1b[K%s", p.app.term.paint(screen.Dim, text))
}

func (p *progressLine) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.app.stderr, "\r\x1b[K")
		p.shown = time.Time{}
	}
}

// before returns a writer that clears the progress line before each write to w.
func (p *progressLine) before(w io.Writer) io.Writer { return clearing{p, w} }

type clearing struct {
	line *progressLine
	w    io.Writer
}

func (c clearing) Write(b []byte) (int, error) {
	c.line.clear()
	return c.w.Write(b)
}
