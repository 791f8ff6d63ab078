package pack

import (
	"cmp"
	"path"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// InOrder sets the order of the operations of a patch, and sorts them by order and path.
// If something is created at or beneath a deleted path, ignoring case, all deletes come
// first.
func InOrder(list []Operation) {
	apart := MakesRoom(list)
	for i := range list {
		list[i].Order = 0
		if apart && list[i].Op != OpDelete {
			list[i].Order = 1
		}
	}
	slices.SortStableFunc(list, func(a, b Operation) int {
		return cmp.Or(a.Order-b.Order, canon.Compare(a.Path, b.Path))
	})
}

// MakesRoom says whether an operation creates something where another one deletes
// something.
func MakesRoom(list []Operation) bool {
	deleted := map[string]bool{}
	for _, o := range list {
		if o.Op == OpDelete {
			deleted[pathname.Inspect(o.Path).Folded] = true
		}
	}
	if len(deleted) == 0 {
		return false
	}
	for _, o := range list {
		if o.Op == OpDelete {
			continue
		}
		for p := pathname.Inspect(o.Path).Folded; p != "." && p != "/"; p = path.Dir(p) {
			if deleted[p] {
				return true
			}
		}
	}
	return false
}
