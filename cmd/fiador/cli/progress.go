package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/fiador/fiador/evidence/screen"
)

// Progress shows on a terminal how many entries were read. It is one line that
// overwrites itself, for work that takes longer than a moment.
type Progress struct {
	app   *App
	Total int64
	Read  int64
	began time.Time
	last  time.Time // when the line was shown last
	shown bool
}

// NewProgress returns a line that shows the progress towards total.
func NewProgress(a *App, total int64) *Progress {
	return &Progress{app: a, Total: total, began: a.Now()}
}

// Tell counts an entry that was read. Every 1024th call may redraw the line.
func (p *Progress) Tell() {
	if p.Read++; p.Read%1024 == 0 {
		p.Show(fmt.Sprintf("read %d of %d entries", min(p.Read, p.Total), p.Total))
	}
}

// Show shows a text, unless the work has just begun or the line has just changed.
func (p *Progress) Show(text string) {
	if !p.app.Redraws() {
		return
	}
	now := p.app.Now()
	if now.Sub(p.began) < 500*time.Millisecond || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.app.Stderr, "\r\x1b[K%s", p.app.Term.Paint(screen.Dim, text))
}

// Redraws reports whether stderr is a terminal that can write a line again.
func (a *App) Redraws() bool { return a.TTY && a.Env("TERM") != "dumb" }

// Clear takes the line from the terminal.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.app.Stderr, "\r\x1b[K")
		p.shown = false
	}
}

// Before returns a writer that clears the progress line before each write to w.
func (p *Progress) Before(w io.Writer) io.Writer { return clearing{p, w} }

type clearing struct {
	line *Progress
	w    io.Writer
}

func (c clearing) Write(b []byte) (int, error) {
	c.line.Clear()
	return c.w.Write(b)
}
