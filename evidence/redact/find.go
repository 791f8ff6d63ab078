package redact

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	rounds  = 4
	longest = 16 << 10 // bytes of a last word
)

// span is a secret in a text, and the rule that found it.
type span struct {
	from, to int
	rule     string
}

// redact replaces the secrets of b. A mark can make a match of what stands beside it, so the parts between marks are
// searched again. In the last round, a part that still has a match is replaced as a whole.
func (x *Redactor) redact(b []byte, more, loose bool) []byte {
	if x.words == nil {
		x.words = newWords(x.learned)
	}
	for round := 1; round <= rounds; round++ {
		var out []byte
		from, done := 0, 0
		for _, m := range append(marks().FindAllIndex(b, -1), []int{len(b), len(b)}) {
			found := x.find(b[from:m[0]], more && m[0] == len(b), loose)
			if round == rounds && len(found) > 0 {
				found = []span{{0, m[0] - from, found[0].rule}}
			}
			for _, s := range found {
				out = append(append(out, b[done:from+s.from]...), x.mark(s.rule)...)
				done = from + s.to
			}
			from = m[1]
		}
		if done == 0 {
			break
		}
		b = append(out, b[done:]...)
	}
	return b
}

// find returns the secrets of b, sorted and apart. It searches b as it stands and without escapes. With more, the
// last word of b counts as a secret.
func (x *Redactor) find(b []byte, more, loose bool) []span {
	found := x.search(b, more, loose)
	if bytes.IndexByte(b, '\\') >= 0 {
		bare, place := plain(b)
		for _, s := range x.search(bare, more, loose) {
			found = append(found, place(s))
		}
		found = merge(found)
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
func merge(found []span) (out []span) {
	slices.SortStableFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	for _, s := range found {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// plain returns b without the escapes of JSON strings, and a function that moves a span of this text to its place in
// b. Any number of backslashes is one escape with what follows, so it does not matter how often b was escaped.
func plain(b []byte) (text []byte, place func(span) span) {
	ends := [][2]int32{{}} // where escapes and texts between them end, in text and in b
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 {
			n = len(b) - i
		}
		text, i = append(text, b[i:i+n]...), i+n
		ends = append(ends, [2]int32{int32(len(text)), int32(i)})
		if i < len(b) {
			r, n := escape(b[i:])
			if low, m := escape(b[i+n:]); utf16.DecodeRune(r, low) != utf8.RuneError {
				r, n = utf16.DecodeRune(r, low), n+m
			}
			if i += n; r >= 0 {
				text = utf8.AppendRune(text, r)
			}
			ends = append(ends, [2]int32{int32(len(text)), int32(i)})
		}
	}
	return text, func(s span) span {
		from := ends[sort.Search(len(ends), func(i int) bool { return int(ends[i][0]) > s.from })-1]
		to := ends[sort.Search(len(ends), func(i int) bool { return int(ends[i][0]) >= s.to })]
		return span{int(from[1]-from[0]) + s.from, int(to[1]-to[0]) + s.to, s.rule}
	}
}

// escape returns the character of the escape at the start of b, or -1, and the bytes that it takes.
func escape(b []byte) (rune, int) {
	n := len(b) - len(bytes.TrimLeft(b, `\`))
	if n == 0 || n == len(b) {
		return -1, n
	}
	if i := strings.IndexByte("bfnrt", b[n]); i >= 0 {
		return rune("\b\f\n\r\t"[i]), n + 1
	}
	if len(b) >= n+5 && b[n] == 'u' {
		if r, err := strconv.ParseUint(string(b[n+1:n+5]), 16, 16); err == nil {
			return rune(r), n + 5
		}
	}
	return -1, n
}

// value matches a value behind a name: in quotes, or right behind =.
var value = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[:=][ \t\r\n[]*(?:"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*))|=([^ \t\r\n"'&;,<>\\]+))`)
})

// named returns the values behind secret names in b.
func (r *Rules) named(b []byte) (found []span) {
	for i := 0; i < len(b); i++ {
		n := bytes.IndexAny(b[i:], ":=")
		if n < 0 {
			break
		}
		i += n
		name := bytes.TrimRight(b[max(0, i-maxName-2):i], " \t\"'")
		name = name[bytes.LastIndexFunc(name, func(c rune) bool { return !alnum(c) && c != '_' && c != '-' })+1:]
		if !r.secret(string(name)) {
			continue
		}
		if m := value().FindSubmatchIndex(b[i:]); m != nil {
			from, to := i+max(m[2], m[4], m[6]), i+m[1]
			if utf8.RuneCount(b[from:to]) >= minLearned {
				found = append(found, span{from, to, "learned"})
			}
			i = to - 1
		}
	}
	return found
}
