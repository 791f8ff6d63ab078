package report

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
)

// wholeIntent stands for the empty JSON Pointer.
const wholeIntent = "(the intent)"

// human writes a few lines for each intent. It writes the counts if they add
// information.
type human struct {
	w     io.Writer
	color bool
}

func (h *human) Item(i Item) error { return Human(h.w, h.color, i) }

func (h *human) Close(s Summary) error {
	p := page{color: h.color}
	if s.Counts.Total() != 1 || s.Counts.Unannounced > 0 {
		fields := []string{screen.Count(s.Counts.Total(), "intent")}
		for _, t := range s.Counts.tallies() {
			text := t.String()
			if t.n > 0 {
				text = p.paint(style(t.outcome), text)
			}
			fields = append(fields, text)
		}
		if paths := s.Counts.Paths(); paths != "" {
			fields = append(fields, p.paint(screen.Red, paths))
		}
		if s.Profile != "" {
			fields = append(fields, "profile "+screen.Plain(s.Profile))
		}
		p.line(append([]string{p.paint(screen.Bold, "TOTAL")}, fields...)...)
	}
	p.remark(s.remark())
	_, err := h.w.Write(p.Bytes())
	return err
}

// Human writes in a few lines how one intent ended and why. It uses ANSI colours if
// color is true.
func Human(w io.Writer, color bool, i Item) error {
	p := page{color: color}
	switch i.Outcome() {
	case OutcomeError:
		p.fault(i)
	case OutcomeUnannounced:
		p.line(p.paint(screen.Red, OutcomeUnannounced), screen.Plain(i.Path), i.unannounced())
	default:
		p.decision(i)
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
	if !p.color {
		return s
	}
	return screen.Paint(style, s)
}

// style returns the colour of an outcome.
func style(outcome string) string {
	switch outcome {
	case string(kernel.OutcomeBundle):
		return screen.Green
	case string(kernel.OutcomeClarify):
		return screen.Yellow
	}
	return screen.Red
}

func (p *page) line(fields ...string) {
	p.WriteString(strings.Join(fields, "  ") + "\n")
}

// remark writes the remark of a run that cannot fail.
func (p *page) remark(text string) {
	if text != "" {
		p.line(p.paint(screen.Bold, "REPORT ONLY"), text)
	}
}

func (p *page) hint(text string) {
	if text != "" {
		p.WriteString(p.paint(screen.Dim, "hint:") + " " + screen.Plain(text) + "\n")
	}
}

func (p *page) decision(i Item) {
	d, more := i.Decision, ""
	switch d.Outcome {
	case kernel.OutcomeBundle:
		if d.Bundle != nil {
			more = d.Bundle.ID
		}
	case kernel.OutcomeClarify:
		open := len(d.Findings)
		if d.Bundle != nil {
			open = len(d.Bundle.UnresolvedQuestions)
		}
		more = screen.Count(open, "question")
	case kernel.OutcomeRefuse:
		more = screen.Count(len(d.Findings), "finding")
	}
	p.line(p.paint(style(string(d.Outcome)), string(d.Outcome)), screen.Plain(i.Name()), more)
	if i.Execution != nil {
		p.execution(*i.Execution)
	}
	hinted := map[string]bool{}
	hint := func(text string) {
		if !hinted[text] {
			p.hint(text)
			hinted[text] = true
		}
	}
	for _, f := range d.Findings {
		p.line(p.paint(screen.Bold, f.ID), screen.Plain(cmp.Or(f.Path, wholeIntent)), screen.Plain(f.Text))
		if len(f.Options) > 0 {
			hint("answers: " + Answers(f.Options))
		}
		hint(f.Fix)
	}
	// A question of another line of JSON Lines, of standard input or of an intent that the program
	// made has no file to name.
	answerable := func(r kernel.Result) bool { return r.Needs() == kernel.NeedAnswer }
	if d.Outcome == kernel.OutcomeClarify && i.Line == 0 && i.Path != "-" && !i.Made && slices.ContainsFunc(d.Findings, answerable) {
		hint("an answer settles it: fiador answer " + screen.ShellWord(screen.Plain(i.Path)) + ", with the same --policy if there is one")
	}
	for _, n := range d.Notes {
		p.line(p.paint(screen.Dim, "note: "+n.ID), screen.Plain(cmp.Or(n.Path, wholeIntent)), screen.Plain(n.Text))
		hint(n.Fix)
	}
}

// execution writes the end of an execution: if it was rejected, each reason, and the
// last lines of the command's output.
func (p *page) execution(e Execution) {
	if e.Accepted {
		p.line(e.String())
		return
	}
	p.line(p.paint(screen.Red, e.String()))
	var printed []string
	for _, f := range e.findings() {
		p.line(p.paint(screen.Bold, screen.Plain(f.reason())), f.title)
		printed = append(printed, f.stderr...)
	}
	for _, s := range quoted(printed) {
		p.line("", p.paint(screen.Dim, s))
	}
}

// fault writes an error in its own words, and the violations that its message only
// counts.
func (p *page) fault(i Item) {
	list := faults(i)
	text := list[0].text
	if i.Err != nil {
		text = withoutFile(i, i.Err)
	}
	p.line(p.paint(screen.Red, OutcomeError), screen.Plain(i.Name()), list[0].id, screen.Plain(text))
	for _, f := range list[1:] {
		p.line(p.paint(screen.Bold, f.id), screen.Plain(f.pointer), screen.Plain(f.text))
	}
	p.hint(list[0].fix)
}
