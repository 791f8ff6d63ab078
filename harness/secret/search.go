package secret

import (
	"encoding/base64"
	"strings"
)

// mark is a text that is searched for: a secret, or the part of its base64 that does not
// depend on what stands before and after it.
type mark struct {
	words  int           // of a set of positions
	at     [256][]uint64 // of a character, the positions of the mark at which it may stand; nil: none
	last   uint64        // the last position, in the last word
	broken bool          // a line break may stand between two characters
}

// newMark returns the mark of a text. Each character of the other texts may stand for that
// of the text at the same position.
func newMark(text string, broken bool, others ...string) *mark {
	m := &mark{words: (len(text) + 63) / 64, last: 1 << ((len(text) - 1) % 64), broken: broken}
	for _, form := range append(others, text) {
		for i := range len(form) {
			if m.at[form[i]] == nil {
				m.at[form[i]] = make([]uint64, m.words)
			}
			m.at[form[i]][i/64] |= 1 << (i % 64)
		}
	}
	return m
}

// marks returns the marks of a secret. Base64 has three: it depends on the offset, modulo
// three, how the bits of the secret are cut. At the ends, up to four bits are left out.
func marks(secret string) []*mark {
	list := []*mark{newMark(secret, false, strings.ReplaceAll(secret, " ", "+"))} // as in forms
	for offset := range 3 {
		text := strings.Repeat("x", offset) + secret
		from, to := (8*offset+5)/6, 8*len(text)/6
		standard := base64.StdEncoding.EncodeToString([]byte(text))[from:to]
		list = append(list, newMark(standard, true, base64.URLEncoding.EncodeToString([]byte(text))[from:to]))
	}
	return list
}

// back is the number of positions of the text that a search remembers. The longest escape,
// \u0041, has fewer bytes. It is a power of two.
const back = 8

// search goes through a text once, with a cost that does not depend on the text. For each
// mark and each of the last positions of the text, it has the set of positions in the mark to
// which the text up to there can be read.
type search struct {
	marks  []*mark
	reach  []sets
	starts [256]bool // a mark can begin with this character
	active int       // the last position at which a set is not empty
	pos    int       // bytes that were read
	past   [back]byte
}

// sets are the sets of one mark, by the position of the text modulo back. A set is empty if
// its stamp is not the position.
type sets struct {
	set   [back][]uint64
	stamp [back]int
}

func newSearch(list []*mark) *search {
	s := &search{marks: list, reach: make([]sets, len(list))}
	for i, m := range list {
		all := make([]uint64, back*m.words)
		for k := range back {
			s.reach[i].set[k] = all[k*m.words : (k+1)*m.words]
		}
		for c := range m.at {
			s.starts[c] = s.starts[c] || m.at[c] != nil && m.at[c][0]&1 != 0
		}
	}
	return s
}

// step is a way to read the end of the text as one character.
type step struct {
	bytes int
	char  byte
	brk   bool // a line break, which stands for no character
}

// feed reads on, and says whether a mark has been found.
func (s *search) feed(text []byte) bool {
	if len(s.marks) == 0 {
		return false
	}
	var steps [4]step
	for _, b := range text {
		s.past[s.pos%back] = b
		s.pos++
		n := s.steps(b, &steps)
		if n == 1 && s.active != s.pos-1 && !s.starts[b] {
			continue
		}
		for i, m := range s.marks {
			if s.advance(i, m, steps[:n]) {
				return true
			}
		}
	}
	return false
}

// before returns the byte that stands n bytes before the last one.
func (s *search) before(n int) byte { return s.past[(s.pos-1-n)&(back-1)] }

// steps finds the ways to read the end of the text, whose last byte is b.
func (s *search) steps(b byte, to *[4]step) (n int) {
	to[0], n = step{1, b, b == '\n' || b == '\r'}, 1
	if s.pos >= 2 && s.before(1) == '\\' {
		switch b {
		case '"', '\\', '/':
			to[n], n = step{2, b, false}, n+1
		case 'n', 'r':
			to[n], n = step{2, 0, true}, n+1
		}
	}
	low := hexValue(b)
	if low < 0 || s.pos < 3 {
		return n
	}
	high := hexValue(s.before(1))
	if high < 0 {
		return n
	}
	c := byte(high<<4 | low)
	brk := c == '\n' || c == '\r'
	if s.before(2) == '%' {
		to[n], n = step{3, c, brk}, n+1
	}
	if s.pos >= 6 && s.before(2) == '0' && s.before(3) == '0' && s.before(4) == 'u' && s.before(5) == '\\' {
		to[n], n = step{6, c, brk}, n+1
	}
	return n
}

// advance makes the set of positions in a mark for the text up to here, and says whether
// the end of the mark is among them.
func (s *search) advance(i int, m *mark, steps []step) bool {
	r := &s.reach[i]
	here, some, clean := r.set[s.pos%back], uint64(0), false
	for _, st := range steps {
		before := s.pos - st.bytes
		from, at := r.set[before%back], m.at[st.char]
		empty := before == 0 || r.stamp[before%back] != before
		skip := st.brk && m.broken
		if empty && (skip || at == nil || at[0]&1 == 0) || !skip && at == nil {
			continue
		}
		if !clean {
			clear(here)
			clean = true
		}
		switch {
		case skip:
			for w := range here {
				here[w] |= from[w]
				some |= from[w]
			}
		case empty:
			here[0] |= 1
			some = 1
		default:
			carry := uint64(1) // a mark may begin anywhere
			for w := range here {
				next := (from[w]<<1 | carry) & at[w]
				carry = from[w] >> 63
				here[w] |= next
				some |= next
			}
		}
	}
	if some == 0 {
		return false
	}
	r.stamp[s.pos%back], s.active = s.pos, s.pos
	return here[m.words-1]&m.last != 0
}

// hexValue returns the value of a hexadecimal digit, or -1.
func hexValue(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
