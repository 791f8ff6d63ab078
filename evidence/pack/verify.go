package pack

import (
	"fmt"

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
