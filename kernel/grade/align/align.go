// Package align puts the traces of two runs beside each other, and names the first place in which
// they differ.
package align

import (
	"slices"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// Align puts the traces of two files of a case beside each other. It returns nil unless both cases
// have an answer. Units are paired in steps, each among those that are still alone:
//
//   - equal units in the same order, as many as there can be;
//   - equal units elsewhere: another order is no difference;
//   - units of the same tool and arguments, first between the same neighbours, then elsewhere;
//   - units of the same tool between the same neighbours.
//
// Rows are in the order of new. What is on baseline alone stands behind what came before it. Units
// in another order are one row, at the place on new.
func Align(baseline, latest map[string]any) *grade.Alignment {
	if baseline["status"] != string(trial.OK) || latest["status"] != string(trial.OK) {
		return nil
	}
	known := make(map[string]int)
	a := &aligner{old: newSide(Units(baseline), known), new: newSide(Units(latest), known)}
	for level := range levels {
		a.pairGaps(level)
		if level != byTool {
			a.pairElsewhere(level)
		}
	}
	rows := a.rows()
	return &grade.Alignment{Rows: rows, Approximate: a.greedy, Divergence: firstDivergence(rows)}
}

// The levels at which units are paired.
const (
	byAll  = iota // equal: kind, tool, arguments, status and payload
	byKey         // kind, tool and arguments
	byTool        // kind and tool
	levels
)

const alone = -1

// maxKnown is how many bytes of a text are kept while units are numbered; of a longer one, its hash.
const maxKnown = 256

type aligner struct {
	old, new side
	myers
}

type side struct {
	units []grade.Unit
	ids   [levels][]int // of each unit: equal numbers, equal units
	to    []int         // the index of the partner on the other side, or alone
	moved []bool        // the partner stands in another order
}

// newSide numbers the units. The member final_output is like itself alone: last answers are held
// against each other, and not against an output on the way.
func newSide(units []grade.Unit, known map[string]int) side {
	s := side{units: units, to: slices.Repeat([]int{alone}, len(units)), moved: make([]bool, len(units))}
	number := func(parts ...any) int {
		text := jsonOf(parts)
		if len(text) > maxKnown {
			text = string(canon.Sum([]byte(text))) // which is no JSON, and so no other text
		}
		if _, ok := known[text]; !ok {
			known[text] = len(known)
		}
		return known[text]
	}
	for _, u := range units {
		tool := number(string(u.Kind), u.Tool, u.Place == finalPlace)
		key := number(tool, u.Args)
		for level, id := range [levels]int{number(key, u.Status, u.Sum, u.Payload), key, tool} {
			s.ids[level] = append(s.ids[level], id)
		}
	}
	return s
}

func (a *aligner) pair(i, j int, moved bool) {
	a.old.to[i], a.new.to[j] = j, i
	a.old.moved[i], a.new.moved[j] = moved, moved
}

// pairGaps pairs units between each two pairs that have not moved.
func (a *aligner) pairGaps(level int) {
	var olds, news []int
	j := 0
	for i := range len(a.old.units) + 1 {
		end := len(a.new.units)
		if i < len(a.old.units) {
			end = a.old.to[i]
			if end == alone {
				olds, a.a = append(olds, i), append(a.a, a.old.ids[level][i])
			}
			if end == alone || a.old.moved[i] {
				continue
			}
		}
		for ; j < end; j++ {
			if a.new.to[j] == alone {
				news, a.b = append(news, j), append(a.b, a.new.ids[level][j])
			}
		}
		a.solve(0, len(a.a), 0, len(a.b))
		for _, p := range a.pairs {
			a.pair(olds[p.x], news[p.y], false)
		}
		olds, news, a.a, a.b, a.pairs = olds[:0], news[:0], a.a[:0], a.b[:0], a.pairs[:0]
		j = end + 1
	}
}

// pairElsewhere pairs units wherever they stand, the first ones with the first ones.
func (a *aligner) pairElsewhere(level int) {
	free := make(map[int][]int)
	for j, id := range a.new.ids[level] {
		if a.new.to[j] == alone {
			free[id] = append(free[id], j)
		}
	}
	for i, id := range a.old.ids[level] {
		if l := free[id]; a.old.to[i] == alone && len(l) > 0 {
			a.pair(i, l[0], true)
			free[id] = l[1:]
		}
	}
}

func (a *aligner) rows() []grade.Row {
	rows := make([]grade.Row, 0, max(len(a.old.units), len(a.new.units)))
	for i, j := 0, 0; i < len(a.old.units) || j < len(a.new.units); {
		switch {
		case i < len(a.old.units) && a.old.moved[i]:
			i++
		case i < len(a.old.units) && a.old.to[i] == alone:
			rows = append(rows, grade.Row{Mark: grade.OnlyOld, Baseline: &a.old.units[i]})
			i++
		case a.new.to[j] == alone:
			rows = append(rows, grade.Row{Mark: grade.OnlyNew, New: &a.new.units[j]})
			j++
		default:
			from := a.new.to[j]
			r := grade.Row{Mark: grade.Equal, Baseline: &a.old.units[from], New: &a.new.units[j]}
			if a.old.ids[byAll][from] != a.new.ids[byAll][j] {
				r.Mark, r.Changes = grade.Different, unitEdits(r.Baseline, r.New)
			}
			rows = append(rows, r)
			if !a.new.moved[j] {
				i++
			}
			j++
		}
	}
	return rows
}

const (
	maxMyers    = 4000 // values of a list without equal ends; of longer ones, pairs are chosen greedily
	greedyReach = 500  // how far ahead a greedy choice looks
)

// myers finds a longest common subsequence in linear space: E. W. Myers, An O(ND) Difference
// Algorithm and Its Variations, 1986, section 4b.
type myers struct {
	a, b              []int
	pairs             []point // the result: indices of a and b, both rising
	greedy            bool    // a list was too long: the result need not be a longest one
	forward, backward []int   // the furthest x on each diagonal, counted from the start and from the end
}

type point struct{ x, y int }

// solve adds the pairs of a[a0:a1] and b[b0:b1]. Equal ends come first, so that a single difference
// is found where it is.
func (m *myers) solve(a0, a1, b0, b1 int) {
	for ; a0 < a1 && b0 < b1 && m.a[a0] == m.b[b0]; a0, b0 = a0+1, b0+1 {
		m.pairs = append(m.pairs, point{a0, b0})
	}
	tail := 0
	for ; a0 < a1 && b0 < b1 && m.a[a1-1] == m.b[b1-1]; tail++ {
		a1, b1 = a1-1, b1-1
	}
	if max(a1-a0, b1-b0) > maxMyers {
		for m.greedy = true; a0 < a1; a0++ {
			if n := slices.Index(m.b[b0:min(b1, b0+greedyReach)], m.a[a0]); n >= 0 {
				m.pairs = append(m.pairs, point{a0, b0 + n})
				b0 += n + 1
			}
		}
	} else if a0 < a1 && b0 < b1 {
		mid := m.middle(m.a[a0:a1], m.b[b0:b1])
		m.solve(a0, a0+mid.x, b0, b0+mid.y)
		m.solve(a0+mid.x, a1, b0+mid.y, b1)
	}
	for i := range tail {
		m.pairs = append(m.pairs, point{a1 + i, b1 + i})
	}
}

// middle returns a point in the middle of a shortest path. Neither the first nor the last values of
// the two lists are equal, so the point is not an end of the path.
func (m *myers) middle(a, b []int) point {
	n, k := len(a), len(b)
	if size := n + k + 3; len(m.forward) < size {
		m.forward, m.backward = make([]int, size), make([]int, size)
	}
	delta, zero := n-k, k+1 // zero is the index of diagonal 0
	m.forward[zero+1], m.backward[zero+1] = 0, 0
	for d := 0; ; d++ {
		from, to := -d+2*max(0, d-k), d-2*max(0, d-n) // the diagonals within the lists
		for diagonal := from; diagonal <= to; diagonal += 2 {
			x := furthest(m.forward, zero+diagonal, diagonal == -d, diagonal == d)
			for x < n && x-diagonal < k && a[x] == b[x-diagonal] {
				x++
			}
			m.forward[zero+diagonal] = x
			if other := delta - diagonal; delta%2 != 0 && max(other, -other) < d && x+m.backward[zero+other] >= n {
				return point{x, x - diagonal}
			}
		}
		for diagonal := from; diagonal <= to; diagonal += 2 {
			x := furthest(m.backward, zero+diagonal, diagonal == -d, diagonal == d)
			for x < n && x-diagonal < k && a[n-1-x] == b[k-1-x+diagonal] {
				x++
			}
			m.backward[zero+diagonal] = x
			if other := delta - diagonal; delta%2 == 0 && max(other, -other) <= d && x+m.forward[zero+other] >= n {
				return point{n - x, k - x + diagonal}
			}
		}
	}
}

// furthest returns the x that one more step reaches on a diagonal, from that above or below it.
func furthest(reached []int, at int, lowest, highest bool) int {
	if lowest || !highest && reached[at-1] < reached[at+1] {
		return reached[at+1]
	}
	return reached[at-1] + 1
}
