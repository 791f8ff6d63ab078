package redact

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fiador/fiador/lazy"
)

const rounds, longest = 4, 16 << 10 // of a search; bytes of a last word

// span is a secret in a text, and the rule that found it.
type span struct {
	from, to int
	rule     string
}

// redact appends b without its secrets to out. The marks of b stay, and what stands between them is searched. A new
// mark can make a match of what stands beside it, so this is searched again. In the last round, it is replaced as a
// whole.
func (x *Redactor) redact(out, b []byte, more, loose bool, round int) []byte {
	at := 0
	for _, m := range append(marks.Get().FindAllIndex(b, -1), []int{len(b), len(b)}) {
		part, last := b[at:m[0]], more && m[0] == len(b)
		found := x.find(part, last, loose)
		if len(found) > 0 && round == rounds {
			found = []span{{0, len(part), found[0].rule}}
		}
		from := 0
		for _, s := range found {
			out = append(x.redact(out, part[from:s.from], false, loose, round+1), x.mark(s.rule)...)
			from = s.to
		}
		if from > 0 {
			out = x.redact(out, part[from:], last, loose, round+1)
			from = len(part)
		}
		out = append(out, b[at+from:m[1]]...)
		at = m[1]
	}
	return out
}

// find returns the secrets of b, sorted and apart. It searches b as it stands and without escapes. With more, the
// last word of b counts as a secret.
func (x *Redactor) find(b []byte, more, loose bool) []span {
	found := x.search(b, more, loose)
	if bare := x.search(plain(b, nil), more, loose); len(bare) > 0 {
		plain(b, bare)
		found = merge(append(found, bare...))
	}
	if more {
		at := max(0, len(b)-longest)
		at += bytes.LastIndexAny(b[at:], " \t\r\n\"'<>") + 1
		if n := len(found); n > 0 {
			at = max(at, found[n-1].to)
		}
		if at < len(b) {
			found = append(found, span{at, len(b), "cut"})
		}
	}
	return found
}

// search returns the secrets of b as it stands. If two rules find the same, the first counts.
func (x *Redactor) search(b []byte, more, loose bool) []span {
	found := x.rules.words.find(nil, "literal", b, more)
	for _, r := range x.rules.rules {
		found = r.find(found, b)
	}
	found = x.words.find(found, "learned", b, more)
	if loose {
		found = append(found, x.rules.named(b)...)
	}
	return merge(found)
}

// merge makes one span of those that overlap, with the rule of the earliest and longest.
func merge(found []span) []span {
	slices.SortStableFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	out := found[:0]
	for _, s := range found {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// plain returns b without the escapes of JSON strings, or nil if it has none. It moves spans of this text, which are
// sorted and apart, to their places in b.
func plain(b []byte, found []span) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return nil
	}
	text, froms, tos := make([]byte, 0, len(b)), found, found
	for i, n := 0, 0; i < len(b); i += n {
		at := len(text)
		if n = bytes.IndexByte(b[i:], '\\'); n < 0 {
			n = len(b) - i
		}
		text = append(text, b[i:i+n]...)
		if n == 0 {
			var r rune
			r, n = escape(b[i:])
			if low, m := escape(b[i+n:]); utf16.DecodeRune(r, low) != utf8.RuneError {
				r, n = utf16.DecodeRune(r, low), n+m
			} else if utf16.IsSurrogate(r) && low < 0 && i+n+m == len(b) { // b ends in a pair
				r = -1
			}
			if r >= 0 {
				text = utf8.AppendRune(text, r)
			}
		}
		for ; len(froms) > 0 && froms[0].from < len(text); froms = froms[1:] {
			froms[0].from += i - at
		}
		for ; len(tos) > 0 && tos[0].to <= len(text); tos = tos[1:] {
			tos[0].to += i + n - len(text)
		}
	}
	return text
}

// escape returns the character of the escape at the start of b, or -1, and the bytes that it takes. Any number of
// backslashes is one escape with what follows, so it does not matter how often b was escaped.
func escape(b []byte) (rune, int) {
	n := len(b) - len(bytes.TrimLeft(b, `\`))
	if n == 0 || n == len(b) {
		return -1, n
	} else if i := strings.IndexByte("bfnrt", b[n]); i >= 0 {
		return rune("\b\f\n\r\t"[i]), n + 1
	} else if b[n] != 'u' {
		return -1, n
	} else if len(b) < n+5 { // b ends in an escape
		return -1, len(b)
	} else if r, err := strconv.ParseUint(string(b[n+1:n+5]), 16, 16); err == nil {
		return rune(r), n + 5
	}
	return -1, n
}

// value matches a value behind a name: in quotes, or right behind =.
var value = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[:=][ \t\r\n[]*(?:"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*))|=([^ \t\r\n"'&;,<>\\]+))`)
}}

// named returns the values behind secret names in b.
func (r *Rules) named(b []byte) (found []span) {
	for i := 0; i < len(b); i++ {
		if b[i] != ':' && b[i] != '=' {
			continue
		}
		name := bytes.TrimRight(b[max(0, i-maxName-2):i], " \t\"'")
		name = name[bytes.LastIndexFunc(name, func(c rune) bool { return !alnum(c) && c != '_' && c != '-' })+1:]
		if !r.names[fold(string(name))] {
			continue
		}
		if m := value.Get().FindSubmatchIndex(b[i:]); m != nil {
			from, to := i+max(m[2], m[4], m[6]), i+m[1]
			if utf8.RuneCount(b[from:to]) >= minLearned {
				found = append(found, span{from, to, "learned"})
			}
			i = to - 1
		}
	}
	return found
}

// words finds many texts in one pass (Aho and Corasick).
type words struct {
	texts  map[string]bool
	begins [256]bool   // the first bytes of the texts
	next   map[int]int // state<<8 | byte to the state that is one byte longer
	states []state     // each is a start of some of the texts; 0 is the empty one
}

// state has the longest other state that it ends with, its bytes, and those of the longest text that it ends with.
type state struct{ back, size, word int }

// newWords returns the words for secrets and for the credentials in them, as they are and without escapes.
func newWords(secrets map[string]bool) *words {
	w := &words{texts: map[string]bool{}, next: map[int]int{}, states: make([]state, 1)}
	for s := range secrets {
		rest, schemes := s, []string{"basic", "bearer", "token"}
		for scheme, next, _ := strings.Cut(s, " "); len(next) >= minLearned && slices.Contains(schemes, strings.ToLower(scheme)); {
			rest = next
			scheme, next, _ = strings.Cut(next, " ")
		}
		for _, text := range []string{s, rest, string(plain([]byte(s), nil)), string(plain([]byte(rest), nil))} {
			if len(text) >= minLiteral {
				w.texts[text], w.begins[text[0]] = true, true
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(w.texts), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	at := make([]int, len(list))
	for size := 1; len(list) > 0; size++ { // back is a shorter state, so these come first
		for i, s := range list {
			c := s[size-1]
			edge := at[i]<<8 | int(c)
			if w.next[edge] == 0 {
				back := w.step(w.states[at[i]].back, c)
				w.next[edge] = len(w.states)
				w.states = append(w.states, state{back, size, w.states[back].word})
			}
			at[i] = w.next[edge]
		}
		for len(list) > 0 && len(list[len(list)-1]) == size {
			list = list[:len(list)-1]
			w.states[at[len(list)]].word = size
		}
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
	at, old := 0, len(found)
	for i, c := range b {
		if at == 0 && !w.begins[c] {
			continue
		}
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
