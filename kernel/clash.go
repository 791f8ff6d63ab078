package kernel

import (
	"cmp"
	"maps"
	"slices"
)

// clash is a pair of constraints that contradict each other, by index, i < j.
type clash struct {
	i, j  int
	clash string
}

// maxClashes is how many pairs are listed one by one.
const maxClashes = 1000

// pairs collects clashes, each pair of constraints once. Of several clashes of a
// pair it keeps the one whose opposite comes first in the list of terms; plain
// statements, whose index is negative, come last.
type pairs struct {
	all   map[[2]int]rankedClash // nil when there are too many
	first map[int]rankedClash    // for each constraint, with the first later one
}

type rankedClash struct {
	clash
	rank uint
}

func newPairs() *pairs {
	return &pairs{all: map[[2]int]rankedClash{}, first: map[int]rankedClash{}}
}

func (p *pairs) add(opp int, a, b statement) {
	c := rankedClash{clash{i: min(a.constraint, b.constraint), j: max(a.constraint, b.constraint)}, uint(opp)}
	old, known := p.first[c.i]
	if p.all == nil && known && c.j > old.j {
		return
	}
	c.clash.clash = clashText(opp, a, b)
	if !known || c.before(old) {
		p.first[c.i] = c
	}
	if p.all == nil {
		return
	}
	key := [2]int{c.i, c.j}
	if old, known := p.all[key]; !known || c.before(old) {
		p.all[key] = c
	}
	if len(p.all) > maxClashes {
		p.all = nil
	}
}

func (c rankedClash) before(d rankedClash) bool {
	return cmp.Or(cmp.Compare(c.j, d.j), cmp.Compare(c.rank, d.rank), cmp.Compare(c.clash.clash, d.clash.clash)) < 0
}

func (p *pairs) list() []clash {
	list := slices.Collect(maps.Values(p.all))
	if p.all == nil {
		list = slices.Collect(maps.Values(p.first))
	}
	slices.SortFunc(list, func(c, d rankedClash) int { return cmp.Or(cmp.Compare(c.i, d.i), cmp.Compare(c.j, d.j)) })
	var found []clash
	for _, c := range list {
		found = append(found, c.clash)
	}
	return found
}
