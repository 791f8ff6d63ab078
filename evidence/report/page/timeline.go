package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fiador/fiador/kernel/grade"
)

const (
	maxRows   = 400 // of a timeline
	maxFolded = 3   // equal rows that stand beside each other without a fold
	maxEdits  = 20  // of a row
	maxFull   = 50  // changed rows of a timeline that shows long texts
)

// timeline is two traces beside each other.
type timeline struct {
	Rows        []row
	Approximate bool
	Hidden      int // changed rows that are not shown
}

// row is a row of two traces, or a fold of equal ones.
type row struct {
	grade.Row
	First bool // the first divergence
	Title string
	Fold  []grade.Row
	More  int // equal rows that are not shown
	most  int // bytes of a text
}

// newTimeline returns at most 400 rows, the changed ones first.
func newTimeline(a *grade.Alignment) *timeline {
	if a == nil {
		return nil
	}
	changed := 0
	for _, r := range a.Rows {
		if r.Mark != grade.Equal {
			changed++
		}
	}
	t := &timeline{Approximate: a.Approximate, Hidden: max(0, changed-maxRows)}
	left, equal, seen := min(changed, maxRows), max(0, maxRows-changed), false
	for rows := a.Rows; len(rows) > 0; {
		n := 0
		for n < len(rows) && rows[n].Mark == grade.Equal && rows[n].New.Place != "final_output" {
			n++
		}
		if show := max(0, min(n, equal)); n > maxFolded || n > show {
			t.Rows = append(t.Rows, row{Title: title(rows[:n]), Fold: rows[:show], More: n - show})
			equal, rows = equal-show, rows[n:]
			continue
		}
		r := row{Row: rows[0], most: maxText}
		if rows = rows[1:]; r.Mark == grade.Equal || changed > maxFull {
			r.most = maxFew
		}
		if r.Mark == grade.Equal {
			equal--
		} else if left--; left < 0 {
			continue
		}
		unknown := func(u *grade.Unit) bool { return u == nil || u.Kind == grade.UnitOther }
		if r.Mark != grade.Equal && !seen && !(unknown(r.Baseline) && unknown(r.New)) {
			r.First, seen = true, true
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// title counts the events of equal rows.
func title(rows []grade.Row) string {
	events := len(rows)
	for _, r := range rows {
		if r.New.Result != "" {
			events++
		}
	}
	last := rows[len(rows)-1].New
	return fmt.Sprintf("%d equal events (%s–%s)", events, number(rows[0].New.Place), number(cmp.Or(last.Result, last.Place)))
}

// number returns the number of an event.
func number(place string) string {
	if place == "final_output" {
		return "out"
	}
	return strings.TrimSuffix(strings.TrimPrefix(place, "events["), "]")
}

// cell is the step of one side in a row.
type cell struct {
	*grade.Unit
	Side  string
	Edits []grade.Edit // with the value of this side in To
	More  int          // edits that are not shown
	most  int
}

// newCell returns a cell of a row; nil if the side has none. An equal row has one cell.
func newCell(r row, side string) *cell {
	c := &cell{Unit: r.New, Side: side, most: r.most}
	if side == "baseline" {
		c.Unit = r.Baseline
	}
	if c.Unit == nil || r.Mark == grade.Equal && side == "baseline" {
		return nil
	}
	if c.Place == "final_output" {
		return c // the page compares outputs by their lines
	}
	for _, e := range r.Changes[:min(len(r.Changes), maxEdits)] {
		if side == "baseline" {
			e.To = e.From
		}
		c.Edits = append(c.Edits, e)
	}
	c.More = len(r.Changes) - len(c.Edits)
	return c
}

// Show returns a value of the step on one line.
func (c *cell) Show(v any) text { return short(word(v), c.most) }
