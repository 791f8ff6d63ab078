package prose

import (
	"strings"
	"unicode"

	"github.com/fiador/fiador/kernel/text"
)

// sentence holds the words of one sentence in lower case. The negation is removed, and
// its place is kept.
type sentence struct {
	words   []string
	negated bool
	at      int // place of the negation: the index of the word behind it; negative if none
}

// sentences returns the sentences of a constraint that the detector does not skip.
func sentences(s string) []sentence {
	var list []sentence
	var room [maxSentence]string // most sentences need no allocation for their words
	current := room[:0]
	flush := func(question bool) {
		if !question && len(current) > 0 && len(current) <= maxSentence {
			if sen, ok := newSentence(current); ok {
				list = append(list, sen)
			}
		}
		current = current[:0]
	}
	for field := range strings.FieldsFuncSeq(s, func(r rune) bool { return unicode.IsSpace(r) && r != '\n' }) {
		first := true
		for line := range strings.SplitSeq(field, "\n") {
			if !first {
				flush(false)
			}
			first = false
			if len(current) > maxSentence && !strings.ContainsAny(line, ".;!?") {
				continue
			}
			bare := strings.TrimRight(line, `"')]}*_`+"”’»`")
			current = appendWords(current, bare)
			if bare != "" && strings.IndexByte(".;!?", bare[len(bare)-1]) >= 0 {
				flush(strings.HasSuffix(bare, "?"))
			}
		}
	}
	flush(false)
	return list
}

// plainWord returns the word of a field in lower case, and the comma or colon behind it.
func plainWord(field string) (w, stop string) {
	field = strings.Map(func(r rune) rune {
		switch r = text.PlainRune(r); r {
		case 0x2010, 0x2011:
			return '-'
		case 0x2019:
			return '\''
		}
		return unicode.ToLower(r)
	}, field)
	field = strings.TrimLeft(field, "\"'([{*_`“‘«")
	w = strings.TrimRight(field, "\"')]}*_`”’».;!?,:")
	if tail := field[len(w):]; strings.Contains(tail, ",") {
		stop = ","
	} else if strings.Contains(tail, ":") {
		stop = ":"
	}
	return w, stop
}

// appendWords adds the words of one field. It makes all hyphens one kind, writes out
// contractions, and adds a comma or colon behind the word as a word of its own.
func appendWords(list []string, field string) []string {
	w, stop := field, ""
	if strings.ContainsFunc(field, func(r rune) bool { return r < 'a' || r > 'z' }) {
		w, stop = plainWord(field)
	}
	switch {
	case w == "" || strings.Trim(w, "-–—") == "":
	case w == "cannot", w == "can't":
		list = append(list, "can", "not")
	case w == "won't":
		list = append(list, "will", "not")
	case strings.HasSuffix(w, "n't"):
		list = append(list, strings.TrimSuffix(w, "n't"), "not")
	default:
		list = append(list, w)
	}
	for n := len(list); n > 1 && sideOf(list[n-2]+"-"+list[n-1]) != ""; n = len(list) {
		list = append(list[:n-2], list[n-2]+"-"+list[n-1])
	}
	if stop != "" && len(list) > 0 {
		list = append(list, stop)
	}
	return list
}

// newSentence removes the negation. ok is false if it cannot tell which part is
// negated.
func newSentence(list []string) (sentence, bool) {
	s := sentence{at: -1, words: make([]string, 0, len(list))}
	for i := 0; i < len(list); i++ {
		w := list[i]
		next := wordAt(list, i+1)
		if unclear.Has(w) {
			return s, false
		}
		drop, negates := 0, false
		switch {
		case w == "not":
			if i > 0 && !modals.Has(list[i-1]) && !beingVerbs.Has(list[i-1]) || limits.Has(next) ||
				text.Words("required needed need have necessary obliged").Has(next) && wordAt(list, i+2) == "to" {
				return s, false
			}
			drop, negates = 1, true
		case w == "never":
			if limits.Has(next) {
				return s, false
			}
			drop, negates = 1, true
		case w == "no":
			if i > 0 && !noBefore.Has(list[i-1]) || quantities.Has(next) {
				return s, false
			}
			drop, negates = 1, true
		case w == "without":
			s.words = append(s.words, "with")
			drop, negates = 1, true
		case w == "avoid" && (i == 0 || modals.Has(list[i-1])):
			drop, negates = 1, true
		case (w == "have" || w == "has" || w == "need" || w == "needs") && next == "to":
			s.words = append(s.words, "must")
			drop = 2
		}
		if negates {
			if s.negated || subordinate(list, i) {
				return s, false
			}
			s.negated, s.at = true, len(s.words)
		}
		if drop == 0 {
			s.words = append(s.words, w)
			continue
		}
		i += drop - 1
	}
	s.introduce()
	return s, len(s.words) > 0
}

// introduce drops "ensure that" or "make sure that" at the start.
func (s *sentence) introduce() {
	n := 0
	switch {
	case wordAt(s.words, 0) == "ensure":
		n = 1
	case wordAt(s.words, 0) == "make" && wordAt(s.words, 1) == "sure":
		n = 2
	}
	if n > 0 && wordAt(s.words, n) == "that" {
		n++
	}
	if s.negated && s.at < n {
		return
	}
	s.words, s.at = s.words[n:], s.at-n
}

func wordAt(list []string, i int) string {
	if i < 0 || i >= len(list) {
		return ""
	}
	return list[i]
}

// subordinate says whether the word at i is in a clause that a conjunction or relative
// pronoun opens. "Do not retry" in "If it fails, do not retry" is a main clause.
func subordinate(list []string, i int) bool {
	c := clauses{words: list}
	for range i {
		c.next()
	}
	return c.open
}

// clauses reads the words of a sentence one by one.
type clauses struct {
	words []string
	i     int
	open  bool // the word at i is in a subordinate clause
}

// next returns open for the word at i, and advances i.
func (c *clauses) next() bool {
	open, k := c.open, c.i
	switch {
	case c.words[k] == "," && open && joiners.Has(c.words[0]):
		c.open = false
	case c.words[k] == "that" && (k == 0 || wordAt(c.words, k-1) == "ensure" || wordAt(c.words, k-1) == "sure"):
	case joiners.Has(c.words[k]):
		c.open = true
	}
	c.i++
	return open
}
