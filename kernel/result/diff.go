package result

import (
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// Difference is the first place at which two documents differ. A side without a value
// at that place is marked absent.
type Difference struct {
	Pointer              string
	A, B                 any
	AbsentInA, AbsentInB bool
}

// Compare finds the first difference of two decoded values in the order of their
// canonical bytes: members by code unit, list items by position. The second result is
// false if the values are equal.
func Compare(a, b any) (Difference, bool) { return compare("", a, b) }

func compare(at string, a, b any) (Difference, bool) {
	switch av := a.(type) {
	case map[string]any:
		if bv, ok := b.(map[string]any); ok {
			return compareObjects(at, av, bv)
		}
	case []any:
		if bv, ok := b.([]any); ok {
			return compareLists(at, av, bv)
		}
	default:
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return Difference{}, false
			}
		}
	}
	return Difference{Pointer: at, A: a, B: b}, true
}

func compareObjects(at string, a, b map[string]any) (Difference, bool) {
	for _, name := range canon.Names(a, b) {
		av, inA := a[name]
		bv, inB := b[name]
		p := canon.Pointer(at, name)
		if !inA || !inB {
			return Difference{Pointer: p, A: av, B: bv, AbsentInA: !inA, AbsentInB: !inB}, true
		}
		if d, differs := compare(p, av, bv); differs {
			return d, true
		}
	}
	return Difference{}, false
}

func compareLists(at string, a, b []any) (Difference, bool) {
	for i := range min(len(a), len(b)) {
		if d, differs := compare(at+"/"+strconv.Itoa(i), a[i], b[i]); differs {
			return d, true
		}
	}
	if len(a) == len(b) {
		return Difference{}, false
	}
	d := Difference{Pointer: at + "/" + strconv.Itoa(min(len(a), len(b)))}
	if len(a) > len(b) {
		d.A, d.AbsentInB = a[len(b)], true
	} else {
		d.B, d.AbsentInA = b[len(a)], true
	}
	return d, true
}

// ValueText returns a value of a document for a message, shortened to few bytes.
func ValueText(v any, absent bool) string {
	if absent {
		return "absent"
	}
	text, err := canon.Canonical(v)
	if err != nil {
		return "unwritable"
	}
	return canon.Cut(string(text))
}
