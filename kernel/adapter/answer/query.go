package answer

import (
	"fmt"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"github.com/fiador/fiador/kernel/canon"
)

// query is a query of RFC 9535. The library reads it and judges its filters; the walk here
// visits members in the order of canon.Names, so that a query has one answer on every
// machine, and stops after maxSteps.
type query struct {
	segments []*spec.Segment
	singular bool
}

// maxSteps limits the work of one query. A step is about one value that is looked at.
const maxSteps = 5_000_000

const maxQueryBytes = 4096

func readQuery(text string) (q *query, err error) {
	defer func() {
		if p := recover(); p != nil {
			q, err = nil, failure("the query stops its reader")
		}
	}()
	if len(text) > maxQueryBytes {
		return nil, failure("the query has more than 4096 bytes")
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return nil, failure("not a query: " + canon.Clean(canon.Cut(strings.TrimPrefix(err.Error(), "jsonpath: "))))
	}
	return &query{path.Query().Segments(), path.Query().Singular() != nil}, nil
}

// selectFrom returns what the query selects, never nil.
func (q *query) selectFrom(root any) (found []any, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, failure("a filter of the query cannot judge this answer; match and search need a value: test for it first, as in $[?@.a && match(@.a, 'x')]")
		}
	}()
	w := &queryWalk{root: root, left: maxSteps}
	found = []any{root}
	for _, s := range q.segments {
		next := []any{}
		for _, v := range found {
			next = w.segment(s, v, next)
		}
		found = next
	}
	if w.left < 0 {
		return nil, failure(fmt.Sprintf("the query takes more than %d steps", maxSteps))
	}
	return found, nil
}

type queryWalk struct {
	root any
	size int // of root, 0 if it is not known yet
	left int
}

func (w *queryWalk) segment(s *spec.Segment, v any, out []any) []any {
	for _, sel := range s.Selectors() {
		if w.left--; w.left < 0 {
			return out
		}
		out = w.selector(sel, v, out)
	}
	if s.IsDescendant() {
		w.each(v, func(inner any) { out = w.segment(s, inner, out) })
	}
	return out
}

// each calls do for the elements, or for the members in order, until no step is left.
func (w *queryWalk) each(v any, do func(any)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if w.left--; w.left < 0 {
				return
			}
			do(one)
		}
	case map[string]any:
		for _, name := range canon.Names(v) {
			if w.left--; w.left < 0 {
				return
			}
			do(v[name])
		}
	}
}

func (w *queryWalk) selector(sel spec.Selector, v any, out []any) []any {
	switch sel := sel.(type) {
	case spec.WildcardSelector:
		w.each(v, func(one any) { out = append(out, one) })
	case *spec.FilterSelector:
		f := w.filter(sel)
		w.each(v, func(one any) {
			if w.left -= f.cost(w, one); w.left >= 0 && sel.Eval(one, w.root) {
				out = append(out, one)
			}
		})
	default: // a name, an index or a slice
		found := sel.Select(v, w.root)
		w.left -= len(found)
		out = append(out, found...)
	}
	return out
}

// filterCost is an upper bound of the work of a filter on one value, read from its text:
// every selector that can give several values multiplies it by the size of the value.
type filterCost struct {
	base  int  // for the length of the text, and for each union
	many  int  // selectors that give as many values as there are
	wide  bool // the filter looks at the whole answer
	match int  // for a pattern, 0 if there is none
	given bool // the answer has the pattern, or the pattern repeats
}

func (w *queryWalk) filter(sel *spec.FilterSelector) filterCost {
	whole := sel.String()
	text := unquoted(whole)
	f := filterCost{base: 1 + len(text)/16, many: strings.Count(text, "*") + strings.Count(text, "..") + strings.Count(text, ":") + strings.Count(text, "?")}
	f.base <<= min(16, strings.Count(text, ","))
	f.wide = strings.Contains(text, "$")
	patterns := strings.Count(text, "match(") + strings.Count(text, "search(")
	if patterns > 0 {
		f.match = 16 + 2*(len(whole)-len(text))
	}
	f.given = patterns > strings.Count(text, ", )") || strings.Contains(whole, "{")
	return f
}

// cost is more than maxSteps where it would be too large to count.
func (f filterCost) cost(w *queryWalk, v any) int {
	size := sizeOf(v)
	if f.wide {
		if w.size == 0 {
			w.size = sizeOf(w.root)
		}
		size = w.size
	}
	n := f.base * size
	for range f.many - 1 {
		if n > maxSteps {
			return n
		}
		n *= size
	}
	if f.given {
		n = min(n, maxSteps+1) * min(50, 1+size)
	}
	return min(n, maxSteps+1) * max(1, f.match)
}

// sizeOf returns the number of values in a value, where 64 bytes of a text count as one.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 64
	case []any:
		for _, one := range v {
			n += sizeOf(one)
		}
	case map[string]any:
		for _, one := range v {
			n += sizeOf(one)
		}
	}
	return n
}

// unquoted returns a text of the library without its quoted parts, which are those of Go.
func unquoted(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		for i++; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
	}
	return b.String()
}
