package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// fault looks at the ids of a plan, and drops a dependency that is listed twice.
func (p *Plan) fault() error {
	first := map[string]int{}
	for i, item := range p.Items {
		folded := strings.ToLower(item.ID)
		if k, taken := first[folded]; taken {
			return fault(item.at+"/id", canon.Quote(item.ID)+" is the id of "+p.Items[k].where()+" too; case does not count", "give every item an id of its own")
		}
		first[folded] = i
	}
	for i := range p.Items {
		item, known := &p.Items[i], map[string]bool{}
		var once []string
		for k, id := range item.Dependencies {
			if j, ok := first[strings.ToLower(id)]; ok && p.Items[j].ID != id {
				return fault(element(item.at+"/dependencies", k), canon.Quote(id)+" differs from the id "+canon.Quote(p.Items[j].ID)+" in case alone", "write the id as the item has it")
			}
			if !known[id] {
				known[id] = true
				once = append(once, id)
			}
		}
		item.Dependencies = append([]string{}, once...)
	}
	return nil
}

func (i Item) where() string {
	if i.at == "" {
		return "the item"
	}
	return i.at
}

// positions returns where the items stand in the plan, by id.
func (p Plan) positions() map[string]int {
	at := make(map[string]int, len(p.Items))
	for i, item := range p.Items {
		at[item.ID] = i
	}
	return at
}

// Outside returns the dependencies of an item that no item of the plan has as its id.
func (p Plan) Outside(i int) []string {
	at := p.positions()
	return slices.DeleteFunc(slices.Clone(p.Items[i].Dependencies), func(id string) bool { _, in := at[id]; return in })
}

// Levels returns the positions of the items by level. An item's level is one more than the
// greatest of its dependencies in the plan, and 0 without one. A level is sorted by id. The
// error is a *Fault that names a cycle.
func (p Plan) Levels() ([][]int, error) {
	at := p.positions()
	waiting, after, level := make([]int, len(p.Items)), make([][]int, len(p.Items)), make([]int, len(p.Items))
	var ready []int
	for i, item := range p.Items {
		for _, id := range item.Dependencies {
			if j, in := at[id]; in {
				waiting[i]++
				after[j] = append(after[j], i)
			}
		}
		if waiting[i] == 0 {
			ready = append(ready, i)
		}
	}
	var levels [][]int
	for done := 0; done < len(ready); done++ {
		i := ready[done]
		if level[i] == len(levels) {
			levels = append(levels, nil)
		}
		levels[level[i]] = append(levels[level[i]], i)
		for _, j := range after[i] {
			level[j] = max(level[j], level[i]+1)
			if waiting[j]--; waiting[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if len(ready) < len(p.Items) {
		return nil, p.cycle(at, waiting)
	}
	for _, list := range levels {
		slices.SortFunc(list, p.byID)
	}
	return levels, nil
}

func (p Plan) byID(a, b int) int { return canon.Compare(p.Items[a].ID, p.Items[b].ID) }

// cycle returns the fault for items of which each waits. It follows, from the item with the
// least id, the first dependency that waits, until an item comes again.
func (p Plan) cycle(at map[string]int, waiting []int) *Fault {
	var stuck []int
	for i := range p.Items {
		if waiting[i] > 0 {
			stuck = append(stuck, i)
		}
	}
	next := func(i int) (position, j int) {
		for k, id := range p.Items[i].Dependencies {
			if j, in := at[id]; in && waiting[j] > 0 {
				return k, j
			}
		}
		return 0, i // not reached: an item that waits has a dependency that waits
	}
	var path []int
	seen := make([]bool, len(p.Items))
	i := slices.MinFunc(stuck, p.byID)
	for !seen[i] {
		seen[i] = true
		path = append(path, i)
		_, i = next(i)
	}
	path = path[slices.Index(path, i):]
	least := slices.Index(path, slices.MinFunc(path, p.byID))
	path = append(slices.Clone(path[least:]), path[:least]...)
	const named = 10
	var ids []string
	for _, i := range path[:min(len(path), named)] {
		ids = append(ids, p.Items[i].ID)
	}
	if len(path) > named {
		ids = append(ids, "… ("+strconv.Itoa(len(path))+" items)")
	}
	ids = append(ids, p.Items[path[0]].ID)
	k, _ := next(path[0])
	return fault(element(p.Items[path[0]].at+"/dependencies", k), "items wait for each other: "+strings.Join(ids, " → "), "leave one of these dependencies out")
}
