// Package page writes report.html: a comparison of two agents on one page that needs no script
// and no other file. Everything that an agent said is text on it.
package page

import (
	"bytes"
	_ "embed" // the template and the stylesheet
	"html/template"
	"io"

	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/lazy"
)

// Report is what the page shows.
type Report struct {
	grade.Comparison
	Details map[string]Case // of each case, by its id
}

// Case is what a person reads about one case.
type Case struct {
	Input         string           // what the agent was asked
	Baseline, New *Shown           // the run of each side that is shown; nil: there is none
	Alignment     *grade.Alignment // of these runs; nil: there are no two traces
}

// Shown is the run of a case that stands for its side: the first failing one of new, the first
// passing one of baseline, else the first.
type Shown struct {
	grade.Run
	Bodies []Body
}

// Body is a kept text of a run: what an attempt received, a payload, standard error.
type Body struct {
	Label  string // "attempt 1", "payload of events[3]"
	Href   string // from the folder of the page, to a file .txt or .bin; empty: the file does not lie beneath it
	Name   string // of the file in its version directory
	SHA256 string
	Size   int64
	Text   []byte // all of it, if it has at most 16 KiB; else nil
}

// The sizes of the page.
const (
	maxText   = 2 << 10  // of a string
	maxFew    = 240      // of a string in a row that is equal, and of a headline
	maxBrief  = 64       // of a string in a row that is folded
	maxInline = 16 << 10 // of a body, and of an output
	maxBodies = 4 << 20  // of all bodies that stand on the page
	maxPage   = 20 << 20 // from here on cases have no details; the cases that have not changed stand last
	maxOpen   = 10       // failing cases that are open
)

var (
	//go:embed page.html
	markup string
	//go:embed page.css
	style string

	templates = lazy.Value[*template.Template]{Make: func() *template.Template {
		return template.Must(template.New("page").Funcs(template.FuncMap{
			"t": func(s any) text { return short(word(s), maxText) }, "few": func(s any) text { return short(word(s), maxFew) }, "brief": brief,
			"body": body, "list": list, "member": member, "count": count, "percent": percent, "points": points, "probability": probability,
			"side": func(s string) trial.Side { return trial.Side(s) }, "classes": classes.Get, "meaning": grade.MeaningOf,
			"href": href, "number": number, "cell": newCell,
		}).Parse(markup))
	}}
)

// Write writes the page. It writes nothing if it returns an error of its own.
func Write(w io.Writer, r Report) error {
	t := templates.Get()
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "head", newHead(&r)); err != nil {
		return err
	}
	m := maker{details: r.Details}
	for _, c := range worstFirst(r.Cases) {
		if err := t.ExecuteTemplate(&b, "case", m.caseView(c, b.Len() > maxPage)); err != nil {
			return err
		}
	}
	if err := t.ExecuteTemplate(&b, "foot", &r); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
