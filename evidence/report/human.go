package report

import (
	"bytes"
	"cmp"
	"io"
	"strings"

	"github.com/fiador/fiador/kernel"
)

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

// wholeIntent stands for the empty JSON Pointer.
const wholeIntent = "(the intent)"

// human writes a few lines for each intent, and the counts where they say more
// than the lines.
type human struct {
	w     io.Writer
	color bool
}

func (h *human) Item(i Item) error { return Human(h.w, h.color, i) }

func (h *human) Close(s Summary) error {
	p := page{color: h.color}
	if s.Counts.Total() != 1 {
		fields := s.Counts.fields()
		for k, n := range []int{s.Counts.Bundle, s.Counts.Clarify, s.Counts.Refuse, s.Counts.Errors} {
			if n > 0 {
				fields[k+1] = p.paint([]string{green, yellow, red, red}[k], fields[k+1])
			}
		}
		if s.Profile != "" {
			fields = append(fields, "profile "+Plain(s.Profile))
		}
		p.line(append([]string{p.paint(bold, "TOTAL")}, fields...)...)
	}
	if s.ReportOnly {
		p.line(p.paint(bold, "REPORT ONLY"), reportOnly)
	}
	_, err := h.w.Write(p.Bytes())
	return err
}

// Human writes in a few lines how one intent ended and why, with ANSI colours if
// color says so.
func Human(w io.Writer, color bool, i Item) error {
	p := page{color: color}
	if i.Outcome() == OutcomeError {
		p.fault(i)
	} else {
		p.decision(i.Name(), i.Decision)
	}
	_, err := w.Write(p.Bytes())
	return err
}

// page collects lines for people.
type page struct {
	bytes.Buffer
	color bool
}

func (p *page) paint(style, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func (p *page) line(fields ...string) {
	p.WriteString(strings.Join(fields, "  ") + "\n")
}

func (p *page) hint(text string) {
	if text != "" {
		p.WriteString(p.paint(dim, "hint:") + " " + Plain(text) + "\n")
	}
}

func (p *page) decision(name string, d kernel.Decision) {
	switch d.Outcome {
	case kernel.OutcomeBundle:
		id := ""
		if d.Bundle != nil {
			id = d.Bundle.ID
		}
		p.line(p.paint(green, string(d.Outcome)), Plain(name), id)
	case kernel.OutcomeClarify:
		open := len(d.Findings)
		if d.Bundle != nil {
			open = len(d.Bundle.UnresolvedQuestions)
		}
		p.line(p.paint(yellow, string(d.Outcome)), Plain(name), count(open, "question"))
	case kernel.OutcomeRefuse:
		p.line(p.paint(red, string(d.Outcome)), Plain(name), count(len(d.Findings), "finding"))
	}
	hinted := map[string]bool{}
	for _, f := range d.Findings {
		p.line(p.paint(bold, f.ID), Plain(cmp.Or(f.Path, wholeIntent)), Plain(f.Text))
		hint := f.Fix
		if len(f.Options) > 0 {
			hint = "answers: " + strings.Join(f.Options, ", ")
		}
		if !hinted[hint] {
			p.hint(hint)
			hinted[hint] = true
		}
	}
	for _, n := range d.Notes {
		p.line(p.paint(dim, "note: "+n.ID), Plain(cmp.Or(n.Path, wholeIntent)), Plain(n.Text))
	}
}

// fault writes an error with its own words, and the violations that its message
// only counts.
func (p *page) fault(i Item) {
	list := faults(i)
	text := list[0].text
	if i.Err != nil {
		text = withoutFile(i, i.Err)
	}
	p.line(p.paint(red, OutcomeError), Plain(i.Name()), list[0].id, Plain(text))
	for _, f := range list[1:] {
		p.line(p.paint(bold, f.id), Plain(f.pointer), Plain(f.text))
	}
	p.hint(list[0].fix)
}
