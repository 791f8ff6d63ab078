package pack

import (
	"path"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// InOrder gives the operations of a patch their order, and sorts them by it and by path.
// Everything that is deleted goes ahead of everything else where that matters: where
// something stands at or beneath a path that is deleted, case not told apart.
func InOrder(list []Operation) {
	apart := makesRoom(list)
	for i := range list {
		list[i].Order = 0
		if apart && list[i].Op != OpDelete {
			list[i].Order = 1
		}
	}
	slices.SortStableFunc(list, func(a, b Operation) int {
		if a.Order != b.Order {
			return a.Order - b.Order
		}
		return canon.Compare(a.Path, b.Path)
	})
}

// makesRoom says whether something is put where something is deleted.
func makesRoom(list []Operation) bool {
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
