package prose

import (
	"cmp"
	"maps"
	"slices"
)

// Clash is a pair of constraints that contradict each other, by index, with I < J.
type Clash struct {
	I, J int
	Text string
}

// maxClashes is how many pairs are listed one by one.
const maxClashes = 1000

// pairs collects clashes, with each pair of constraints once. If a pair has several
// clashes, pairs keeps the one whose opposite comes first in the list of terms. Plain
// statements have a negative index and come last.
type pairs struct {
	texts []string               // the constraints
	all   map[[2]int]rankedClash // nil if there are too many
	first map[int]rankedClash    // for each constraint, its clash with the first later one
}

type rankedClash struct {
	Clash
	rank uint
}

func newPairs(texts []string) *pairs {
	return &pairs{texts: texts, all: map[[2]int]rankedClash{}, first: map[int]rankedClash{}}
}

// addAll adds the clashes of two groups of statements on one topic. Each group is
// sorted by constraint. Once there are too many pairs, addAll takes one step for each
// statement.
func (p *pairs) addAll(opp int, as, bs []statement) {
	if len(as) == 0 || len(bs) == 0 || !clashes(as[0], bs[0]) {
		return
	}
	p.addFirst(opp, as, bs)
	p.addFirst(opp, bs, as)
	for _, a := range as {
		for _, b := range bs {
			if p.all == nil {
				return
			}
			if p.texts[a.constraint] != p.texts[b.constraint] {
				c := newClash(opp, a, b)
				keep(p.all, [2]int{c.I, c.J}, c)
			}
			if len(p.all) > maxClashes {
				p.all = nil
			}
		}
	}
}

// addFirst adds, for each statement of as, the clash with the first later statement of
// bs.
func (p *pairs) addFirst(opp int, as, bs []statement) {
	next := 0
	for _, a := range as {
		for next < len(bs) && bs[next].constraint <= a.constraint {
			next++
		}
		k := next
		for k < len(bs) && p.texts[bs[k].constraint] == p.texts[a.constraint] {
			k++
		}
		if k < len(bs) {
			keep(p.first, a.constraint, newClash(opp, a, bs[k]))
		}
	}
}

func newClash(opp int, a, b statement) rankedClash {
	i, j := min(a.constraint, b.constraint), max(a.constraint, b.constraint)
	return rankedClash{Clash{i, j, clashText(opp, a, b)}, uint(opp)}
}

func keep[K comparable](m map[K]rankedClash, key K, c rankedClash) {
	if old, known := m[key]; !known || c.before(old) {
		m[key] = c
	}
}

func (c rankedClash) before(d rankedClash) bool {
	return cmp.Or(cmp.Compare(c.J, d.J), cmp.Compare(c.rank, d.rank), cmp.Compare(c.Clash.Text, d.Clash.Text)) < 0
}

func (p *pairs) list() []Clash {
	list := slices.Collect(maps.Values(p.all))
	if p.all == nil {
		list = slices.Collect(maps.Values(p.first))
	}
	slices.SortFunc(list, func(c, d rankedClash) int { return cmp.Or(cmp.Compare(c.I, d.I), cmp.Compare(c.J, d.J)) })
	var found []Clash
	for _, c := range list {
		found = append(found, c.Clash)
	}
	return found
}
