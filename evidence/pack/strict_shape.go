package pack

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// shape reads a decoded document member by member into a Go value, and notes everything
// that is not as it must be: a member that is missing, of another type, out of its bounds
// or not known. It does what a schema does, at a fraction of the cost
// (TestShapeAgreesWithSchema).
type shape struct {
	level *strictLevel
	rule  string
	file  string
	path  []step
	bad   bool // something was noted
}

// step is a member, or with an empty name an element.
type step struct {
	name  string
	index int
}

// shape begins the reading of a file.
func (s *strictLevel) shape(rule, file string) *shape {
	return &shape{level: s, rule: rule, file: file}
}

// fault notes a violation at the value that is being read.
func (r *shape) fault(format string, args ...any) {
	r.bad = true
	if r.level.counts[r.rule] > maxOfRule {
		r.level.fault(r.rule, "", "") // counted, and not named
		return
	}
	pointer := ""
	for _, p := range r.path {
		if p.name != "" {
			pointer = canon.Pointer(pointer, p.name)
		} else {
			pointer += "/" + strconv.Itoa(p.index)
		}
	}
	r.level.fault(r.rule, r.file+"#"+pointer, format, args...)
}

func (r *shape) enter(s step) { r.path = append(r.path, s) }
func (r *shape) leave()       { r.path = r.path[:len(r.path)-1] }

// members is an object while it is read. Every member is asked for once; done notes
// those that nobody asked for.
type members struct {
	r     *shape
	of    map[string]any
	seen  int
	asked [32]string
	n     int
}

// object reads a value that has to be an object.
func (r *shape) object(v any) members {
	m, ok := v.(map[string]any)
	if !ok {
		r.fault("not an object")
	}
	return members{r: r, of: m}
}

// done ends the reading: there is no other member.
func (o *members) done() {
	if o.seen == len(o.of) {
		return
	}
	var extra []string
	for name := range o.of {
		if !slices.Contains(o.asked[:o.n], name) {
			extra = append(extra, name)
		}
	}
	slices.SortFunc(extra, canon.Compare)
	for _, name := range extra[:min(len(extra), maxOfRule+1)] {
		o.r.enter(step{name: name})
		o.r.fault("unknown member %s", quoted(name))
		o.r.leave()
	}
}

// get is a member, there or not.
func (o *members) get(name string) (any, bool) {
	v, there := o.of[name]
	if there {
		o.seen++
	}
	o.asked[o.n] = name
	o.n++
	return v, there
}

// must is a member that has to be there. One of no object is missed nowhere.
func (o *members) must(name string) (any, bool) {
	v, there := o.get(name)
	if !there && o.of != nil {
		o.fault(name, "missing")
	}
	return v, there
}

// fault notes a violation at a member.
func (o *members) fault(name, format string, args ...any) {
	o.r.enter(step{name: name})
	o.r.fault(format, args...)
	o.r.leave()
}

// has says whether an optional member is there. One that is not counts as asked for.
func (o *members) has(name string) bool {
	_, there := o.of[name]
	if !there {
		o.asked[o.n] = name
		o.n++
	}
	return there
}

// text is a string of at least low and at most high characters.
func (o *members) text(name string, low, high int) string {
	v, there := o.must(name)
	if !there {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		o.fault(name, "not a string")
	case len(s) < low || len(s) > high && utf8.RuneCountInString(s) > high || low > 1 && utf8.RuneCountInString(s) < low:
		o.fault(name, "not a string of %d to %d characters", low, high)
	}
	return s
}

// form is a string that a function accepts; what says which strings these are.
func (o *members) form(name string, ok func(string) bool, what string) string {
	v, there := o.must(name)
	if !there {
		return ""
	}
	s, is := v.(string)
	if !is || !ok(s) {
		o.fault(name, "not %s", what)
	}
	return s
}

func (o *members) hash(name string) canon.ContentHash {
	v, there := o.must(name)
	if !there {
		return ""
	}
	s, _ := v.(string)
	if !canon.ContentHash(s).Valid() {
		o.fault(name, `not "sha256:" and 64 lower-case hex digits`)
	}
	return canon.ContentHash(s)
}

// one is one of the strings given.
func (o *members) one(name string, of ...string) string {
	v, there := o.must(name)
	if !there {
		return ""
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(of, s) {
		o.fault(name, "not one of %s", listed(of))
	}
	return s
}

func (o *members) yes(name string) bool {
	v, there := o.must(name)
	if !there {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		o.fault(name, "neither true nor false")
	}
	return b
}

// whole is an integer from low to high.
func (o *members) whole(name string, low, high int64) int64 {
	v, there := o.must(name)
	if !there {
		return 0
	}
	n, ok := wholeNumber(v)
	if !ok || n < low || n > high {
		o.fault(name, "not a whole number from %d to %d", low, high)
		return 0
	}
	return n
}

// list is an array of at most high elements, which each reads one by one.
func (o *members) list(name string, high int, each func(v any)) {
	v, there := o.must(name)
	if !there {
		return
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		o.fault(name, "not an array")
		return
	case len(list) > high:
		o.fault(name, "more than %d elements", high)
		return
	}
	r := o.r
	r.enter(step{name: name})
	for i, v := range list {
		r.enter(step{index: i})
		each(v)
		r.leave()
	}
	r.leave()
}

// texts is an array of at most high strings that a function accepts.
func (o *members) texts(name string, high int, ok func(string) bool, what string) []string {
	out := []string{}
	o.list(name, high, func(v any) {
		s, is := v.(string)
		if !is || !ok(s) {
			o.r.fault("not %s", what)
		}
		out = append(out, s)
	})
	return out
}

// within reads a member that is a value of its own.
func (o *members) within(name string, read func(v any)) {
	v, there := o.must(name)
	if !there {
		return
	}
	o.r.enter(step{name: name})
	read(v)
	o.r.leave()
}

// null says whether a member is there and null, which is then all that is to be read
// of it.
func (o *members) null(name string) bool {
	v, there := o.of[name]
	if there && v == nil {
		o.get(name)
		return true
	}
	return false
}
