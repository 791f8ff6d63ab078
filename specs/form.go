package specs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// form is a pattern. A pattern that is a row of characters and classes with counts, the end
// of which may be optional, is matched here, because the library needs too long to compile it at the start of a
// process. The library matches all other patterns.
type form struct {
	pattern string
	once    sync.Once
	row     []class
	whole   int            // a text may end before this class; -1 if before none
	regexp  *regexp.Regexp // nil if row is the whole pattern
}

// class is a set of ASCII characters, and the number of its characters that may follow
// each other.
type class struct {
	set         [128]bool
	least, most int
}

func (f *form) fits(text string) bool {
	f.once.Do(func() {
		var ok bool
		if f.row, f.whole, ok = rowOf(f.pattern); !ok {
			f.regexp = regexp.MustCompile(f.pattern) // from an embedded schema, which the tests compile
		}
	})
	if f.regexp != nil {
		return f.regexp.MatchString(text)
	}
	for i := range f.row {
		if i == f.whole && text == "" {
			return true
		}
		c, n := &f.row[i], 0
		for n < len(text) && n < c.most && text[n] < 128 && c.set[text[n]] {
			n++
		}
		if n < c.least {
			return false
		}
		text = text[n:]
	}
	return text == ""
}

// rowOf reads a pattern that is such a row, from the beginning to the end of a text. A
// class with an unlimited count shares no character with the next class, so there is
// only one way to match. If the pattern ends with an optional group, as in ^a(b)?$, then
// whole is the index of the group's first class, otherwise -1.
func rowOf(pattern string) ([]class, int, bool) {
	rest, from := strings.CutPrefix(pattern, "^")
	rest, to := strings.CutSuffix(rest, "$")
	group, whole := "", -1
	if at := strings.IndexByte(rest, '('); at > 0 && rest[at-1] != '\\' && strings.HasSuffix(rest, ")?") {
		rest, group = rest[:at], rest[at+1:len(rest)-len(")?")]
	}
	var row []class
	for from && to && rest+group != "" {
		if rest == "" {
			whole, rest, group = len(row), group, ""
		}
		c := class{least: 1, most: 1}
		var ok bool
		if rest, ok = c.read(rest); !ok {
			return nil, -1, false
		}
		if rest, ok = c.often(rest); !ok {
			return nil, -1, false
		}
		if n := len(row); n > 0 && row[n-1].least < row[n-1].most && row[n-1].meets(c) {
			return nil, -1, false
		}
		row = append(row, c)
	}
	return row, whole, from && to
}

// read removes a character or a class from the front of a pattern.
func (c *class) read(pattern string) (rest string, ok bool) {
	if pattern[0] != '[' {
		one, rest, ok := character(pattern)
		if ok {
			c.set[one] = true
		}
		return rest, ok && !strings.ContainsRune(`^$.|?*+(){}]`, rune(pattern[0]))
	}
	rest = pattern[1:]
	for rest != "" && rest[0] != ']' && rest[0] != '^' {
		low, behind, ok := character(rest)
		if !ok {
			return "", false
		}
		high := low
		if len(behind) > 1 && behind[0] == '-' && behind[1] != ']' {
			if high, behind, ok = character(behind[1:]); !ok {
				return "", false
			}
		}
		for b := int(low); b <= int(high); b++ {
			c.set[b] = true
		}
		rest = behind
	}
	return strings.CutPrefix(rest, "]")
}

// character removes one from the front of a pattern. After a backslash it must be a
// punctuation mark.
func character(pattern string) (one byte, rest string, ok bool) {
	if pattern[0] != '\\' {
		return pattern[0], pattern[1:], pattern[0] < 128
	}
	if len(pattern) < 2 || !strings.ContainsRune(`.-[]\*`, rune(pattern[1])) {
		return 0, "", false
	}
	return pattern[1], pattern[2:], true
}

// unbounded is longer than every text.
const unbounded = 1 << 30

// often removes the count of a class.
func (c *class) often(pattern string) (rest string, ok bool) {
	switch {
	case strings.HasPrefix(pattern, "+"):
		c.most = unbounded
		return pattern[1:], true
	case strings.HasPrefix(pattern, "*"):
		c.least, c.most = 0, unbounded
		return pattern[1:], true
	case !strings.HasPrefix(pattern, "{"):
		return pattern, !strings.HasPrefix(pattern, "?")
	}
	counts, rest, closed := strings.Cut(pattern[1:], "}")
	low, high, two := strings.Cut(counts, ",")
	if !two {
		high = low
	}
	var err1, err2 error
	c.least, err1 = strconv.Atoi(low)
	c.most, err2 = strconv.Atoi(high)
	return rest, closed && err1 == nil && err2 == nil && !strings.HasPrefix(rest, "?")
}

// meets says whether two classes share a character.
func (c *class) meets(d class) bool {
	for b := range c.set {
		if c.set[b] && d.set[b] {
			return true
		}
	}
	return false
}

// words describes the texts that fit a form.
func (f *form) words(s *shape) string {
	what := "of the form that the schema gives"
	for _, known := range [][2]string{
		{`^[0-9a-f]{64}$`, "64 lower-case hex digits"},
		{`^sha256:[0-9a-f]{64}$`, `"sha256:" and 64 lower-case hex digits`},
		{`^bundle_[0-9a-f]{16}$`, "the id of a bundle"},
		{`^node_[0-9a-f]{16}$`, "the id of a node"},
		{`^q_[0-9a-f]{16}$`, "the id of a question"},
		{`^out_[0-9a-f]{16}$`, "the id of an output"},
		{`^sbx_[0-9a-f]{16}$`, "the id of a sandbox"},
		{`^runner_`, "the id of a runner"},
		{`^SIG`, "the name of a signal"},
		{`^[0-9]{4}-[0-9]{2}-[0-9]{2}T`, "a time in UTC with milliseconds"},
		{`^[0-9]+\.[0-9]+\.`, "a version"},
		{`^(0|[1-9][0-9]{0,8})\.`, "a version"},
		{`^[A-Za-z0-9][A-Za-z0-9._-]*$`, "the name of a run"},
		{`^[a-z][a-z0-9_-]{0,63}$`, "the name of a profile"},
		{`^[!-)+-.0-~]+$`, "a bare command name"},
		{`^(?:[^./`, "a clean relative folder"},
	} {
		if strings.HasPrefix(f.pattern, known[0]) {
			what = known[1]
			break
		}
	}
	if slices.Contains(s.types, "null") {
		what += ", or null"
	}
	return what
}
