package settings

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

const space = " \t\r\n" // white space of JSON

// document is a JSON text and its value, or why there is none.
type document struct {
	text  string
	value any
	err   error     // the first one; after it nothing changes
	old   *document // the backup, or nil
}

func parse(text string) document {
	doc, err := canon.Parse([]byte(text), maxBytes)
	if e, ok := errors.AsType[*canon.Error](err); ok {
		err = &Refused{Pointer: e.Pointer, At: canon.Positions([]byte(text), []int{int(e.Offset)})[0], Msg: e.Msg}
	}
	return document{text: text, value: doc.Value(), err: err}
}

// failed returns the document with an error, if it is not nil.
func (d document) failed(err error) document {
	d.err = cmp.Or(d.err, err)
	return d
}

// refuse returns the error for the value at a path.
func (d document) refuse(msg string, path ...string) error {
	at := pointer(path)
	return &Refused{Pointer: canon.Cut(at), At: canon.Places([]byte(d.text), []string{at})[0], Msg: msg}
}

func (d document) spans(pointers ...string) []canon.Span {
	return canon.Locate([]byte(d.text), pointers)
}

func pointer(path []string) (at string) {
	for _, name := range path {
		at = canon.Pointer(at, name)
	}
	return at
}

// walk follows a path as far as it exists. It returns how far, and what stands there.
func (d document) walk(path []string) (int, any, error) {
	at := d.value
	for i, name := range path {
		members, ok := at.(map[string]any)
		if !ok {
			return i, at, d.refuse("an object must stand here", path[:i]...)
		}
		next, ok := members[name]
		if !ok {
			return i, at, nil
		}
		at = next
	}
	return len(path), at, nil
}

// item is a member, with its name, or an element.
type item struct {
	name string
	canon.Span
}

// items returns the span of an object or array, and its items in the order of the text.
func (d document) items(path []string) (canon.Span, []item) {
	pointers, list := []string{pointer(path)}, []item{}
	_, at, _ := d.walk(path)
	members, isObject := at.(map[string]any)
	for _, name := range canon.Names(members) {
		pointers, list = append(pointers, canon.Pointer(pointers[0], name)), append(list, item{name: name})
	}
	elements, _ := at.([]any)
	for i := range elements {
		pointers, list = append(pointers, canon.Pointer(pointers[0], strconv.Itoa(i))), append(list, item{})
	}
	spans := d.spans(pointers...)
	for i := range list {
		if list[i].Span = spans[i+1]; isObject {
			list[i].Start = d.nameOf(spans[i+1])
		}
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Compare(a.Start, b.Start) })
	return spans[0], list
}

// nameOf returns where the name of a member's value begins. A quote in a name has a
// backslash before it, and the one that begins it has none.
func (d document) nameOf(value canon.Span) int {
	at := strings.LastIndexByte(d.text[:value.Start], ':')
	at = strings.LastIndexByte(d.text[:at], '"')
	for at = strings.LastIndexByte(d.text[:at], '"'); d.text[at-1] == '\\'; {
		at = strings.LastIndexByte(d.text[:at], '"')
	}
	return at
}

// insert puts a member in as the last one, or elements as the first or last ones.
func (d document) insert(path []string, name string, first bool, add ...any) document {
	if d.err != nil {
		return d
	}
	span, list := d.items(path)
	_, unit := d.style()
	last := len(list) - 1
	from := span.Start + 1
	var before, between, after, brk string
	if last < 0 {
		brk, after = d.inside(span, len(path) == 0)
		before, between = brk, brk
	} else {
		neighbour := last
		if first {
			neighbour = min(1, last)
		}
		gap := d.gap(list[neighbour].Start)
		brk = lineBreak(gap)
		between = cmp.Or(brk, gap)
		if from, after = list[0].Start, ","+between; !first {
			from, before, after = list[last].End, after, ""
		}
	}
	texts := make([]string, len(add))
	for i, v := range add {
		texts[i] = write(name, v, brk, unit)
	}
	return d.replace(from, from, before+strings.Join(texts, ","+between)+after, path, func(at any) any {
		if members, ok := at.(map[string]any); ok {
			members = maps.Clone(members)
			members[name] = add[0]
			return members
		}
		if first {
			return slices.Concat(add, at.([]any))
		}
		return slices.Concat(at.([]any), add)
	})
}

// cut removes a member, or n elements from the i-th on. An object or array that holds
// nothing else goes with them, unless it is empty in the backup: then it gets that text.
func (d document) cut(path []string, name string, i, n int) document {
	if d.err != nil {
		return d
	}
	span, list := d.items(path)
	for len(list) == n {
		empty := any([]any{})
		if name != "" {
			empty = map[string]any{}
		}
		if text := d.before(path, empty); text != "" {
			return d.replace(span.Start, span.End, text, path, func(any) any { return empty })
		}
		last := len(path) - 1
		if last < 0 {
			break
		}
		path, name, n = path[:last], path[last], 1
		span, list = d.items(path)
	}
	if name != "" {
		i = slices.IndexFunc(list, func(one item) bool { return one.name == name })
	}
	from, to := span.Start+1, span.End-1
	switch {
	case i > 0:
		from, to = list[i-1].End, list[i+n-1].End
	case n < len(list):
		from, to = list[0].Start, list[n].Start
	}
	return d.replace(from, to, "", path, func(at any) any {
		if members, ok := at.(map[string]any); ok {
			members = maps.Clone(members)
			delete(members, name)
			return members
		}
		return slices.Delete(slices.Clone(at.([]any)), i, i+n)
	})
}

// set gives a member that is there another text, spelled as in the backup if it is there.
func (d document) set(path []string, text string) document {
	if d.err != nil {
		return d
	}
	at := d.spans(pointer(path))[0]
	put := cmp.Or(d.before(path, text), string(compact(text)))
	return d.replace(at.Start, at.End, put, path, func(any) any { return text })
}

// before returns the text of a value in the backup, or "" if the backup has another value
// at the path.
func (d document) before(path []string, v any) string {
	if d.old != nil {
		if depth, at, err := d.old.walk(path); err == nil && depth == len(path) && equal(at, v) {
			span := d.old.spans(pointer(path))[0]
			return d.old.text[span.Start:span.End]
		}
	}
	return ""
}

// replace replaces a range of the text. The new text is read, and its value has to be the
// old one with the value at the path changed.
func (d document) replace(from, to int, text string, path []string, change func(any) any) document {
	changed := parse(d.text[:from] + text + d.text[to:])
	changed.old = d.old
	if changed.err == nil && !equal(changed.value, within(d.value, path, change)) {
		changed.err = errors.New("the changed text has another value than it should have")
	}
	return changed
}

func within(v any, path []string, change func(any) any) any {
	if len(path) == 0 {
		return change(v)
	}
	members := maps.Clone(v.(map[string]any))
	members[path[0]] = within(members[path[0]], path[1:], change)
	return members
}

// gap returns the white space before an offset.
func (d document) gap(at int) string {
	return d.text[len(strings.TrimRight(d.text[:at], space)):at]
}

// lineBreak returns the last line break in white space with the indentation after it, or
// "".
func lineBreak(gap string) string {
	i := strings.LastIndexByte(gap, '\n')
	switch {
	case i < 0:
		return ""
	case i > 0 && gap[i-1] == '\r':
		i--
	}
	return gap[i:]
}

// style returns the line break and the unit of indentation, as the first line and the first
// member have them.
func (d document) style() (newline, unit string) {
	newline, unit = "\n", "  "
	if i := strings.IndexByte(d.text, '\n'); i > 0 && d.text[i-1] == '\r' {
		newline = "\r\n"
	}
	if _, list := d.items(nil); len(list) > 0 {
		unit = cmp.Or(strings.Trim(lineBreak(d.gap(list[0].Start)), "\r\n"), unit)
	}
	return newline, unit
}

// inside returns the line break before the items of an empty object or array, and the one
// that has to stand behind them. Both are empty if the items stand in its line.
func (d document) inside(span canon.Span, root bool) (before, after string) {
	newline, unit := d.style()
	if closing := lineBreak(d.text[span.Start+1 : span.End-1]); closing != "" {
		return closing + unit, ""
	}
	if !root {
		newline = lineBreak(d.gap(d.nameOf(span)))
	}
	if newline == "" {
		return "", ""
	}
	return newline + unit, newline
}

// write returns the text of a member, or of an element without a name. brk is the line
// break before it; if it is empty, there is none within it.
func write(name string, v any, brk, unit string) string {
	var list []string
	text, colon := string(compact(v)), ":"
	if brk != "" {
		colon = ": "
		switch v := v.(type) {
		case map[string]any:
			for _, name := range canon.Names(v) {
				list = append(list, write(name, v[name], brk+unit, unit))
			}
		case []any:
			for _, one := range v {
				list = append(list, write("", one, brk+unit, unit))
			}
		}
	}
	if len(list) > 0 {
		text = text[:1] + brk + unit + strings.Join(list, ","+brk+unit) + brk + text[len(text)-1:]
	}
	if name != "" {
		text = string(compact(name)) + colon + text
	}
	return text
}

// compact returns the canonical form of a decoded value.
func compact(v any) []byte {
	text, _ := canon.Canonical(v) // a decoded value always has one
	return text
}

func equal(a, b any) bool { return bytes.Equal(compact(a), compact(b)) }
