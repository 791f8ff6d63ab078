// Package redact owns what is redacted: it finds secrets in texts, in bytes and in decoded JSON, and puts marks in
// their places. It reads and writes no file.
package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Version is the version of the document that Config is.
const Version = "redact.v1"

// Bounds of a Config and of what a Redactor learns, in entries, bytes and, for minLearned, characters.
const (
	maxEntries, minLiteral, maxLiteral, maxLiterals = 1000, 4, 8192, 256 << 10
	maxPattern, maxName                             = 1024, 64
	minLearned, maxLearned, maxLearnedBytes         = 8, 1000, 128 << 10
)

// Config is what an operator wants redacted, besides the built-in rules.
type Config struct {
	SchemaVersion string   `json:"schema_version"`
	Literals      []string `json:"literals"` // secrets
	Patterns      []string `json:"patterns"` // expressions of RE2 that match secrets
	Names         []string `json:"names"`    // names of members whose values are secrets
}

// Rules are what is redacted in a run. They do not change, and all cases share them.
type Rules struct {
	rules []rule
	names map[string]bool // folded
	words *words          // the literals
}

// New returns the built-in rules and those of c. The literals are secrets that c does not have, such as values of
// variables. An error names the entry that breaks a bound: by its JSON Pointer in c, or as values/N.
func New(c Config, literals ...string) (*Rules, error) {
	if c.SchemaVersion != Version {
		return nil, fmt.Errorf("/schema_version: %q is another version; write %q", c.SchemaVersion, Version)
	}
	r, size, secrets := &Rules{slices.Clone(builtin.Get()), map[string]bool{}, nil}, 0, map[string]bool{}
	for name := range strings.FieldsSeq(secretNames) {
		r.names[name] = true
	}
	for _, l := range []struct {
		place       string
		list        []string
		least, most int
	}{
		{"/literals", c.Literals, minLiteral, maxLiteral}, {"values", literals, minLiteral, maxLiteral},
		{"/patterns", c.Patterns, 1, maxPattern}, {"/names", c.Names, 1, maxName},
	} {
		if len(l.list) > maxEntries {
			return nil, fmt.Errorf("%s: the list has %d entries; leave at most %d", l.place, len(l.list), maxEntries)
		}
		for i, s := range l.list {
			var err error
			if len(s) < l.least || len(s) > l.most {
				err = fmt.Errorf("the entry has %d bytes; use %d to %d", len(s), l.least, l.most)
			} else if l.place == "/names" {
				r.names[fold(s)] = true
			} else if l.place == "/patterns" {
				err = r.pattern(s)
			} else if secrets[s], size = true, size+len(s); size > maxLiterals {
				err = fmt.Errorf("the literals have more than %d bytes together; remove some", maxLiterals)
			}
			if err != nil {
				return nil, fmt.Errorf("%s/%d: %w", l.place, i, err)
			}
		}
	}
	r.words = newWords(secrets)
	return r, nil
}

// pattern adds a rule with an operator's expression.
func (r *Rules) pattern(s string) error {
	re, err := regexp.Compile(s)
	if err != nil {
		return fmt.Errorf("%w; write an expression of RE2", err)
	} else if re.MatchString("") {
		return errors.New("the pattern matches the empty text; let it require a character")
	}
	r.rules = append(r.rules, rule{name: "pattern", re: re})
	return nil
}

// fold returns a name as names are compared.
func fold(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
}

// Redactor returns a Redactor for one case.
func (r *Rules) Redactor() *Redactor {
	return &Redactor{rules: r, words: newWords(nil), learned: map[string]bool{}, applied: map[string]bool{}}
}

// Redactor redacts what belongs to one case. It learns secrets, and redacts them in that value and in all that
// follows. One goroutine at a time may use it.
type Redactor struct {
	rules   *Rules
	learned map[string]bool
	size    int    // bytes of learned
	words   *words // finds learned
	applied map[string]bool
}

// Value returns a decoded JSON value redacted; parts without a secret are those of v. It learns the strings under secret
// names first. A secret that cannot be learned, because there are too many, is redacted in its place alone.
func (x *Redactor) Value(v any) any {
	x.rules.walk(v, false, func(v any, secret bool) any {
		if s, ok := v.(string); ok && secret {
			x.learn(s)
		}
		return v
	})
	x.words = newWords(x.learned)
	texts := map[string]string{} // names and words stand in a value again and again
	v, _ = x.rules.walk(v, false, func(v any, secret bool) any {
		switch v := v.(type) {
		case string:
			if secret && !x.learned[v] && utf8.RuneCountInString(marks.Get().ReplaceAllString(v, "")) >= minLearned {
				return x.mark("learned")
			}
			if _, known := texts[v]; !known {
				texts[v] = x.Text(v)
			}
			return texts[v]
		case json.Number:
			if x.rules.words.texts[v.String()] {
				return x.mark("literal")
			} else if x.words.texts[v.String()] {
				return x.mark("learned")
			}
		}
		return v
	})
	return v
}

// Text returns a redacted text.
func (x *Redactor) Text(s string) string { return string(x.redact(nil, []byte(s), false, false, 1)) }

// Bytes returns redacted bytes, which need be neither JSON nor UTF-8. It learns what stands as "name": "value" or
// name=value first. With more, the bytes go on behind b, and the last word of b is replaced: it can be the start of
// a secret.
func (x *Redactor) Bytes(b []byte, more bool) []byte {
	for _, text := range [][]byte{b, plain(b, nil)} {
		for _, s := range x.rules.named(text) {
			x.learn(string(text[s.from:s.to]))
		}
	}
	x.words = newWords(x.learned)
	return x.redact(make([]byte, 0, len(b)), b, more, true, 1)
}

// Applied returns the names of the rules that replaced something, sorted. The mark of a last word, cut, is of no rule.
func (x *Redactor) Applied() []string { return slices.Sorted(maps.Keys(x.applied)) }

// learn makes s a secret of the case, if s is long enough, has no mark, and there is room.
func (x *Redactor) learn(s string) {
	room := len(s) <= maxLiteral && len(x.learned) < maxLearned && x.size+len(s) <= maxLearnedBytes
	if room && !x.learned[s] && utf8.RuneCountInString(s) >= minLearned && !marks.Get().MatchString(s) {
		x.learned[s], x.size = true, x.size+len(s)
	}
}

// mark returns the mark of a rule.
func (x *Redactor) mark(rule string) string {
	if rule != "cut" {
		x.applied[rule] = true
	}
	return "[redacted:" + rule + "]"
}

// walk returns v as it is if leaf replaces no name and no leaf of it by another one, else a copy in which they are
// replaced. A leaf is secret if it is the value of a secret name, or stands in a list that is.
func (r *Rules) walk(v any, secret bool, leaf func(v any, secret bool) any) (_ any, changed bool) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			now, other := r.walk(e, secret, leaf)
			out[i], changed = now, changed || other
		}
		if changed {
			return out, true
		}
		return v, false
	case map[string]any:
		out := v
		names := slices.AppendSeq(make([]string, 0, len(v)), maps.Keys(v))
		slices.Sort(names)
		for _, name := range names {
			text := leaf(name, false).(string)
			for i, base := 2, text; text != name && (has(v, text) || has(out, text)); i++ { // two names became one
				text = base + " " + strconv.Itoa(i)
			}
			if now, other := r.walk(v[name], r.names[fold(name)], leaf); other || text != name {
				if !changed {
					out, changed = maps.Clone(v), true
				}
				delete(out, name)
				out[text] = now
			}
		}
		return out, changed
	}
	now := leaf(v, secret)
	return now, now != v
}

func has(m map[string]any, name string) bool { _, ok := m[name]; return ok }
