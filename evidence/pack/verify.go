package pack

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// MaxViolations is how many violations are reported; the ones that sort first.
const MaxViolations = 1000

// maxFound is how many violations are looked at: a pack that breaks more does not break
// fewer rules for it.
const maxFound = 20 * MaxViolations

// Options say how a pack is verified.
type Options struct {
	Level Level // empty: Strict

	// Profile is the policy that a RunResult names, as the verifier knows it, or nil
	// where it does not (RS5 is then not checked).
	Profile func(name string) *kernel.PolicyProfile

	// Whole is all of that profile, or nil where the verifier does not know it. A run of
	// this kernel version is held against it (ST5, ST9); one of another is not, for its
	// built-in profiles were others.
	Whole func(name string) *kernel.Profile

	// Digest is the hash of that whole profile, for many packs; nil: it is computed for
	// each.
	Digest func(name string) canon.ContentHash
}

// Verdict is what was found. A pack is valid at the level if there is no violation and
// nothing that could not be checked.
type Verdict struct {
	Level      Level
	Violations []Violation // sorted (PK10)
	More       int         // violations beyond MaxViolations
	NotChecked []string    // what could not be held against anything, and why
	Claims     Claims
}

// OK says whether the pack is valid.
func (v Verdict) OK() bool { return len(v.Violations) == 0 && len(v.NotChecked) == 0 }

// Verify holds a pack against the rules of a level.
func Verify(p *Pack, o Options) Verdict {
	if o.Level == "" {
		o.Level = Strict
	}
	v := &verifier{pack: p, opts: o, docs: map[string]*document{}}
	for _, e := range p.Entries {
		if e.Text != nil && e.Name != LedgerFile {
			v.docs[e.Name] = decode(e.Name, e.Text)
		}
	}
	v.structural()
	if o.Level == Strict {
		v.strict()
	}
	found := Verdict{Level: o.Level, Claims: v.claims(), Violations: sortViolations(v.found), NotChecked: v.notChecked}
	if n := len(found.Violations); n > MaxViolations {
		found.Violations, found.More = found.Violations[:MaxViolations], n-MaxViolations
	}
	found.More += v.unnamed
	return found
}

// verifier is a pack while it is verified.
type verifier struct {
	pack       *Pack
	opts       Options
	docs       map[string]*document
	found      []Violation
	unnamed    int // violations beyond maxFound
	notChecked []string
}

// add notes a violation. Values in a message are quoted and cut.
func (v *verifier) add(rule, path, format string, args ...any) {
	if len(v.found) >= maxFound {
		v.unnamed++
		return
	}
	v.found = append(v.found, Violation{Rule: rule, Path: path, Message: fmt.Sprintf(format, args...)})
}

// doc is a file of the pack, or nil where the pack has none that could be read.
func (v *verifier) doc(name string) *document { return v.docs[name] }

// object is the top of a file that is a JSON object, or nil.
func (v *verifier) object(name string) map[string]any {
	if d := v.docs[name]; d != nil {
		obj, _ := d.value.(map[string]any)
		return obj
	}
	return nil
}

// document is one JSON file as it was read.
type document struct {
	name  string
	raw   []byte
	value any // as canon.Document.Value; nil with a fault

	// exact says that the text is canonical JSON and one LF, and why that it is not.
	exact    bool
	inexact  string
	strictly canon.Document // where exact

	fault string // why it is no JSON at all
}

// maxValues is how many values a file can have: more would only be there to fill the
// memory of whoever reads it.
const maxValues = 500_000

// decode reads a file as leniently as other readers of the format do, and finds out
// whether it is written as it must be.
func decode(name string, raw []byte) *document {
	d := &document{name: name, raw: raw}
	if crowded(raw) {
		d.fault = fmt.Sprintf("more than %d values", maxValues)
		d.inexact = d.fault
		return d
	}
	text, lf := bytes.CutSuffix(raw, []byte("\n"))
	if !lf {
		d.inexact = "no LF at the end"
	} else if doc, err := canon.ParseCanonical(text, len(text)); err != nil {
		d.inexact = err.Error()
	} else {
		d.exact, d.strictly, d.value = true, doc, doc.Value()
		return d
	}
	d.value, d.fault = lenient(raw)
	return d
}

// crowded says whether a text has more values than maxValues, strings not looked into.
func crowded(raw []byte) bool {
	n := 0
	for _, c := range []string{",", "[", "{"} {
		n += bytes.Count(raw, []byte(c))
	}
	if n <= maxValues {
		return false
	}
	n, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			if n++; n > maxValues {
				return true
			}
		}
	}
	return false
}

// at is the path of a value in a file.
func at(file string, tokens ...string) string {
	pointer := ""
	for _, t := range tokens {
		pointer = canon.Pointer(pointer, t)
	}
	return file + "#" + pointer
}

// quoted is a value of a pack as messages repeat it.
func quoted(s string) string { return fmt.Sprintf("%q", strings.ToValidUTF8(canon.Cut(s), "\ufffd")) }
