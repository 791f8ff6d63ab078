package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// idFault returns what is wrong with the ids of a plan. It drops a dependency that is listed
// twice.
func (p Plan) idFault() error {
	first := map[string]int{}
	for i, item := range p.Items {
		folded := strings.ToLower(item.ID)
		if _, taken := first[folded]; taken {
			return fault(item.at+"/id", "another item has the id "+canon.Quote(item.ID)+"; case does not count", "give every item an id of its own")
		}
		first[folded] = i
	}
	for i := range p.Items {
		item := &p.Items[i]
		known, once := map[string]bool{}, []string{}
		for k, id := range item.Dependencies {
			j, in := first[strings.ToLower(id)]
			switch {
			case in && j == i:
				return fault(element(item.at+"/dependencies", k), "the item waits for itself", "leave the dependency out")
			case in && p.Items[j].ID != id:
				return fault(element(item.at+"/dependencies", k), canon.Quote(id)+" is the id "+canon.Quote(p.Items[j].ID)+" in another case", "write the id as the item has it")
			case !known[id]:
				known[id], once = true, append(once, id)
			}
		}
		item.Dependencies = once
	}
	return nil
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
		slices.SortFunc(list, func(a, b int) int { return canon.Compare(p.Items[a].ID, p.Items[b].ID) })
	}
	return levels, nil
}

// cycle returns the fault for items that wait for each other. From the first item that waits, it
// follows the first dependency that waits, which ends in a cycle.
func (p Plan) cycle(at map[string]int, waiting []int) *Fault {
	next := func(i int) (position, j int) {
		for k, id := range p.Items[i].Dependencies {
			if j, in := at[id]; in && waiting[j] > 0 {
				return k, j
			}
		}
		return 0, i // not reached: an item that waits has a dependency that waits
	}
	i := slices.IndexFunc(waiting, func(n int) bool { return n > 0 })
	for range p.Items {
		_, i = next(i)
	}
	path := []int{i}
	for _, j := next(i); j != i; _, j = next(j) {
		path = append(path, j)
	}
	first := slices.Index(path, slices.Min(path))
	path = slices.Concat(path[first:], path[:first])
	text := ""
	for _, i := range path {
		text += p.Items[i].ID + " → "
	}
	k, _ := next(path[0])
	return fault(element(p.Items[path[0]].at+"/dependencies", k), strconv.Itoa(len(path))+" items wait for each other: "+canon.Cut(text+p.Items[path[0]].ID), "leave one of these dependencies out")
}
