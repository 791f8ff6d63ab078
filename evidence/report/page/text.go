package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
)

// text is text of others, of which every character is visible.
type text struct {
	S    string
	More int // bytes that are left out
}

// short returns a text as one line, at most n bytes of it.
func short(s string, n int) text {
	plain := screen.Plain(cut(s, n))
	t := text{S: cut(plain, n)}
	if len(s) > n || len(plain) > n {
		t.More = max(1, len(s)-len(t.S))
	}
	return t
}

// brief returns the beginning of a value.
func brief(v any) string {
	t := short(word(v), maxBrief)
	return t.S + strings.Repeat("…", min(1, t.More))
}

// cut returns the first n bytes of a text, or up to three less, so that no character is cut.
func cut(s string, n int) string {
	for i := n; i > n-utf8.UTFMax && len(s) > n; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:min(n, len(s))]
}

// lines returns the lines of a text, at most n bytes and 500 lines of it.
func lines(s string, n int) (plain []string, more int) {
	more = len(s)
	for l := range strings.Lines(cut(s, n)) {
		if v := short(strings.TrimSuffix(l, "\n"), maxText); len(plain) < maxLines {
			plain, more = append(plain, v.S), more-len(l)+v.More
		}
	}
	return plain, more
}

// body returns the lines of a text, at most n bytes of it.
func body(s string, n int) text {
	plain, more := lines(s, n)
	return text{strings.Join(plain, "\n"), more}
}

// word returns a decoded value on one line. A string is itself.
func word(v any) string {
	if s, ok := v.(string); ok || v == nil {
		return s
	}
	if b, err := canon.Literal(v); err == nil {
		return string(b)
	}
	return fmt.Sprint(v)
}

// indented returns a decoded value on many lines. A string is itself.
func indented(v any) string {
	var b bytes.Buffer
	if _, ok := v.(string); ok || json.Indent(&b, []byte(word(v)), "", "  ") != nil {
		return word(v)
	}
	return b.String()
}

// member returns a member of a decoded value; nil if there is none.
func member(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// list returns the first elements of a decoded list.
func list(v any) []any {
	l, _ := v.([]any)
	return l[:min(len(l), 50)]
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", f*100) }

// points returns a difference of rates with its sign.
func points(f float64) string { return strings.Replace(fmt.Sprintf("%+.1f", f*100), "-", "−", 1) }

func probability(p float64) string {
	return strings.Replace(fmt.Sprintf("%.3f", p), "0.000", "< 0.001", 1)
}

// count returns a number with its noun.
func count(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		many = one
	}
	return fmt.Sprint(n, " ", many)
}
