package align

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
)

const (
	maxEdits     = 200     // of a row
	maxEditBytes = 4 << 10 // of the JSON of a value; a longer one is the hash of this JSON
)

// absent stands for a member that is not there.
type absent struct{}

// back is what comes back to the agent from a unit, or what the agent gives.
func back(k grade.UnitKind) string {
	switch k {
	case grade.UnitRetrieval:
		return "documents"
	case grade.UnitOutput:
		return "content"
	}
	return "payload"
}

// unitEdits returns the members in which two units of one kind differ.
func unitEdits(from, to *grade.Unit) []grade.Edit {
	l := &editList{part: "arguments"}
	l.walk("", orAbsent(from.Args), orAbsent(to.Args))
	l.part = "status"
	l.add("", statusText(from.Status), statusText(to.Status))
	l.part = back(from.Kind)
	l.walk("", orAbsent(from.Payload), orAbsent(to.Payload))
	l.add("", from.Sum, to.Sum)
	return l.edits
}

func statusText(status string) string {
	if status == "" {
		return ""
	}
	return editText(status)
}

// orAbsent returns a member of a unit, or absent if the unit has none.
func orAbsent(v any) any {
	if v == nil {
		return absent{}
	}
	return v
}

type editList struct {
	part  string
	edits []grade.Edit
}

// walk adds what differs in two values: members by code units, elements by their index. A pointer
// is cut, so that long names do not multiply.
func (l *editList) walk(at string, from, to any) {
	if len(l.edits) == maxEdits {
		return
	}
	below := func(token string) string { return canon.Cut(canon.Pointer(at, canon.Cut(token))) }
	switch f := from.(type) {
	case map[string]any:
		if t, ok := to.(map[string]any); ok {
			for _, name := range canon.Names(f, t) {
				l.walk(below(name), member(f, name), member(t, name))
			}
			return
		}
	case []any:
		if t, ok := to.([]any); ok {
			for i := range max(len(f), len(t)) {
				l.walk(below(strconv.Itoa(i)), element(f, i), element(t, i))
			}
			return
		}
	}
	l.add(at, editText(from), editText(to))
}

func (l *editList) add(at, from, to string) {
	if from != to && len(l.edits) < maxEdits {
		l.edits = append(l.edits, grade.Edit{Part: l.part, Pointer: at, From: from, To: to})
	}
}

func member(o map[string]any, name string) any {
	if v, ok := o[name]; ok {
		return v
	}
	return absent{}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

func editText(v any) string {
	if v == (absent{}) {
		return ""
	}
	text := jsonOf(v)
	if len(text) > maxEditBytes {
		return string(canon.Sum([]byte(text)))
	}
	return text
}

// firstDivergence describes the first row that differs. An event of an unknown type does not count.
func firstDivergence(rows []grade.Row) *grade.Divergence {
	for _, r := range rows {
		u := cmp.Or(r.New, r.Baseline)
		if r.Mark == grade.Equal || u.Kind == grade.UnitOther {
			continue
		}
		d := &grade.Divergence{Kind: string(u.Kind), Tool: canon.Cut(u.Tool)}
		name, verb := string(u.Kind), "given"
		switch {
		case u.Kind == grade.UnitRetrieval:
			verb = "made"
		case u.Kind == grade.UnitCall && u.Place == u.Result:
			name, d.Kind = "result without a call", "tool_"+string(r.Mark)
		case u.Kind == grade.UnitCall:
			name, verb, d.Kind = d.Tool, "called", "tool_"+string(r.Mark)
		}
		switch r.Mark {
		case grade.OnlyOld:
			d.Baseline, d.Headline = &u.Place, name+": not "+verb+" any more ("+u.Place+" of baseline)"
		case grade.OnlyNew:
			d.New, d.Headline = &u.Place, name+": "+verb+" only on new, at "+u.Place
		default:
			firstEdit(d, name, r)
		}
		return d
	}
	return nil
}

// firstEdit describes the first edit of a row. A row without an edit has changed as a whole.
func firstEdit(d *grade.Divergence, name string, r grade.Row) {
	e := grade.Edit{Part: back(r.New.Kind)}
	if len(r.Changes) > 0 {
		e = r.Changes[0]
	}
	d.Pointer, d.From, d.To = e.Pointer, canon.Cut(e.From), canon.Cut(e.To)
	d.Baseline, d.New = &r.Baseline.Place, &r.New.Place
	what, at := " "+e.Part, ""
	switch e.Part {
	case "content":
		what = ""
	case "arguments":
		if r.New.Kind == grade.UnitRetrieval {
			what = " query"
		} else if d.Kind = e.Part; e.Pointer != "" {
			what = " argument"
		}
	case "status", "payload":
		d.Kind = e.Part
		d.Baseline, d.New = resultPlace(r.Baseline), resultPlace(r.New)
	}
	if *d.New != finalPlace {
		at = " at " + *d.New
	}
	if e.Part == "status" {
		d.Kind = "result_status"
		d.Headline = name + ": result went from " + statusWord(r.Baseline) + " to " + statusWord(r.New) + at
		return
	}
	d.Headline = name + ":" + what + strings.TrimSuffix(" "+e.Pointer, " ") + " changed" + at
}

// resultPlace returns the place of the result of a call, or that of the call if it has none.
func resultPlace(u *grade.Unit) *string {
	if u.Result == "" {
		return &u.Place
	}
	return &u.Result
}

func statusWord(u *grade.Unit) string { return cmp.Or(canon.Cut(u.Status), "none") }
