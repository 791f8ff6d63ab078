package redact

// words finds many texts in one pass (Aho and Corasick).
type words struct {
	texts  map[string]bool
	next   map[int]int // state<<8 | byte to the state that is one byte longer
	states []state     // each is a start of some of the texts; 0 is the empty one
}

type state struct {
	back int // the longest other state that this one ends with
	size int // bytes of the state
	word int // bytes of the longest text that it ends with, or 0
}

// newWords returns the words for texts, as they are and without escapes.
func newWords(texts map[string]bool) *words {
	w := &words{texts, map[int]int{}, make([]state, 1)}
	type walk struct {
		rest string
		at   int
	}
	var walks []walk
	for s := range texts {
		walks = append(walks, walk{s, 0})
		if bare, _ := plain([]byte(s)); len(bare) >= minLiteral {
			walks = append(walks, walk{string(bare), 0})
		}
	}
	for size := 1; len(walks) > 0; size++ { // back is a shorter state, so these come first
		longer := walks[:0]
		for _, p := range walks {
			edge := p.at<<8 | int(p.rest[0])
			if w.next[edge] == 0 {
				back := 0
				if p.at > 0 {
					back = w.step(w.states[p.at].back, p.rest[0])
				}
				w.next[edge] = len(w.states)
				w.states = append(w.states, state{back, size, w.states[back].word})
			}
			if p = (walk{p.rest[1:], w.next[edge]}); p.rest == "" {
				w.states[p.at].word = size
			} else {
				longer = append(longer, p)
			}
		}
		walks = longer
	}
	return w
}

// step returns the state behind one more byte.
func (w *words) step(at int, c byte) int {
	for {
		if to := w.next[at<<8|int(c)]; to > 0 || at == 0 {
			return to
		}
		at = w.states[at].back
	}
}

// find appends the texts in b. With more, a start of a text at the end of b counts too.
func (w *words) find(found []span, rule string, b []byte, more bool) []span {
	if len(w.states) == 1 {
		return found
	}
	at, old := 0, len(found)
	for i, c := range b {
		at = w.step(at, c)
		n := w.states[at].word
		if more && i+1 == len(b) && w.states[at].size >= minLiteral {
			n = w.states[at].size
		}
		if last := len(found) - 1; n > 0 && last >= old && i+1-n <= found[last].to {
			found[last] = span{min(found[last].from, i+1-n), i + 1, rule}
		} else if n > 0 {
			found = append(found, span{i + 1 - n, i + 1, rule})
		}
	}
	return found
}
