package ledgercmd

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// entryWriter writes entries in one format, as they come.
type entryWriter interface {
	begin() error
	entry(index int64, e ledger.Entry) error
	end(open ledger.Open) error
}

// jsonlWriter writes one canonical object a line: the record and its index.
type jsonlWriter struct{ out *bufio.Writer }

func (jsonlWriter) begin() error          { return nil }
func (jsonlWriter) end(ledger.Open) error { return nil }

func (w jsonlWriter) entry(index int64, e ledger.Entry) error {
	_, err := w.out.Write(append(ledger.Indexed(e.Record.Kind, e.Line.Entry, index), '\n'))
	return err
}

// jsonWriter writes one canonical document, without having it all in memory.
type jsonWriter struct {
	out        *bufio.Writer
	checkpoint ledger.Checkpoint
	separator  string // empty before the first entry
}

func (w *jsonWriter) begin() error {
	b, err := canon.Canonical(w.checkpoint)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.out, `{"checkpoint":%s,"entries":[`, b)
	return err
}

func (w *jsonWriter) entry(index int64, e ledger.Entry) error {
	w.out.WriteString(w.separator) // after a failed write, the next one fails too
	w.separator = ","
	_, err := w.out.Write(ledger.Indexed(e.Record.Kind, e.Line.Entry, index))
	return err
}

func (w *jsonWriter) end(open ledger.Open) error {
	b, err := canon.Canonical(openRuns(open))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.out, `],"open":%s}`+"\n", b)
	return err
}

// openRuns returns the ids of open runs, in the order of their beginning.
func openRuns(open ledger.Open) []string {
	byIndex := func(a, b string) int { return int(open[a] - open[b]) }
	return cli.OrEmpty(slices.SortedFunc(maps.Keys(open), byIndex))
}

// csvWriter writes a table (RFC 4180) with a header.
type csvWriter struct{ out *csv.Writer }

// newCSVWriter ends each row with CRLF, as RFC 4180 demands.
func newCSVWriter(out *bufio.Writer) csvWriter {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return csvWriter{w}
}

func (w csvWriter) begin() error { return w.out.Write(ledger.Columns()) }

func (w csvWriter) entry(index int64, e ledger.Entry) error {
	return w.out.Write(e.Record.Row(index))
}

func (w csvWriter) end(ledger.Open) error {
	w.out.Flush()
	return w.out.Error()
}

// listWriter writes columns for people. The widths are fixed, because later entries are
// not known yet. Texts of a record are printable ASCII.
type listWriter struct {
	out      *bufio.Writer
	t        cli.Terminal
	layout   screen.Layout
	digits   int // digits of an index
	relative bool
	now      time.Time
	isOpen   func(index int64, runID string) (bool, error)
	some     bool
}

// The widths of columns. A terminal that is narrower than wideTerminal does not show the
// run.
const (
	wideTime     = len("2006-01-02 15:04:05Z")
	wideAgo      = len("100d ago")
	wideOutcome  = len("CLARIFY")
	wideProfile  = 10
	wideIntent   = 12
	wideRun      = len(result.RunIDLayout) + 16
	wideTerminal = 120
)

func (w *listWriter) begin() error        { return nil }
func (*listWriter) end(ledger.Open) error { return nil }

func (w *listWriter) entry(index int64, e ledger.Entry) error {
	r := e.Record
	if !w.some {
		w.some = true
		if err := w.line("INDEX", "TIME", "OUTCOME", "PROFILE", "INTENT", "RUN", "WHY", screen.Dim, screen.Dim); err != nil {
			return err
		}
	}
	outcome, style := listOutcome(r)
	if r.Kind == ledger.KindBegun {
		open, err := w.isOpen(index, r.RunID)
		if err != nil {
			return err
		}
		if open {
			outcome, style = "open", screen.Yellow
		}
	}
	when := r.Time().Format("2006-01-02 15:04:05Z")
	if w.relative {
		when = ago(w.now.Sub(r.Time()))
	}
	intent := r.IntentSHA256.Hex()
	return w.line(strconv.FormatInt(index, 10), when, outcome, r.Policy, intent[:min(len(intent), wideIntent)], r.RunID, listWhy(r), style, "")
}

// line writes one line. On a narrow terminal it goes on in the next one.
func (w *listWriter) line(index, when, outcome, profile, intent, run, why, style, rest string) error {
	timeWidth := wideTime
	if w.relative {
		timeWidth = wideAgo
	}
	type cell struct{ text, style string }
	cells := []cell{
		{fmt.Sprintf("%*s", max(w.digits, len("INDEX")), index), rest}, {fmt.Sprintf("%-*s", timeWidth, when), rest},
		{fmt.Sprintf("%-*s", wideOutcome, outcome), style}, {fmt.Sprintf("%-*s", wideProfile, profile), rest},
		{fmt.Sprintf("%-*s", wideIntent, intent), rest},
	}
	if w.layout.Columns == 0 || w.layout.Columns >= wideTerminal {
		cells = append(cells, cell{fmt.Sprintf("%-*s", wideRun, run), rest})
	}
	cells = append(cells, cell{why, rest})
	for last := len(cells) - 1; last > 0 && strings.TrimRight(cells[last].text, " ") == ""; last-- {
		cells = cells[:last]
	}
	cells[len(cells)-1].text = strings.TrimRight(cells[len(cells)-1].text, " ")
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(w.t.Paint(c.style, c.text))
	}
	_, err := w.out.WriteString(w.layout.Text(b.String()) + "\n")
	return err
}

// listOutcome returns the word for the outcome of a record, and its colour.
func listOutcome(r ledger.Record) (word, style string) {
	switch r.Kind {
	case ledger.KindDecision:
		switch {
		case r.Accepted:
			return r.ResultKind, screen.Green
		case r.ResultKind == "BUNDLE":
			return report.OutcomeFailed, screen.Red
		case r.ResultKind == "CLARIFY":
			return r.ResultKind, screen.Yellow
		}
		return r.ResultKind, screen.Red
	case ledger.KindError:
		return report.OutcomeError, screen.Red
	case ledger.KindKeyRotation:
		return "new key", screen.Dim
	}
	return string(r.Kind), screen.Dim
}

// listWhy returns further facts about a record for people.
func listWhy(r ledger.Record) string {
	switch r.Kind {
	case ledger.KindDecision:
		return strings.Join(r.Reasons, ", ")
	case ledger.KindError:
		return strings.TrimSpace(r.Code + " " + r.RuleID)
	case ledger.KindGenesis:
		return r.Origin
	case ledger.KindKeyRotation:
		return r.Key
	case ledger.KindRepair:
		var what []string
		for _, p := range r.Repairs {
			what = append(what, p.What)
		}
		return strings.Join(what, ", ")
	}
	return ""
}

// ago formats a time before now for people.
func ago(d time.Duration) string {
	d = max(d, 0)
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= u.size {
			return fmt.Sprintf("%d%s ago", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%ds ago", d/time.Second)
}
