// Package verify checks run packs by the rules of one level. It owns the rules, their
// records and the verdict.
//
// Structural checks presence, shapes and references, as another reader of the format
// would. Strict recomputes everything that can be recomputed. A violation has a rule id,
// a path and a message; violations are sorted by these three (PK10).
package verify

import (
	"fmt"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// MaxViolations is the maximum number of reported violations: the first ones of the
// sorted list.
const MaxViolations = 1000

// maxFound is the maximum number of violations that are collected. Further violations do
// not change the verdict.
const maxFound = 20 * MaxViolations

// Options say how a pack is verified.
type Options struct {
	Level pack.Level // empty: Strict

	// Profile returns the policy that a RunResult names, or nil if the verifier does not
	// know it (RS5 is then not checked).
	Profile func(name string) *kernel.PolicyProfile

	// Whole returns the whole profile, or nil if the verifier does not know it. A run of
	// this kernel version is compared with it (ST5, ST9). A run of another version is
	// not, because its built-in profiles were different.
	Whole func(name string) *kernel.Profile

	// Digest returns the hash of that whole profile, shared by many packs; nil: it is
	// computed for each pack.
	Digest func(name string) canon.ContentHash
}

// Verdict is the result of a verification. A pack is valid at the level if there is no
// violation and every check was possible.
type Verdict struct {
	Level      pack.Level
	Violations []pack.Violation // sorted (PK10)
	More       int              // violations beyond MaxViolations
	NotChecked []string         // checks that were not possible, and why
	Claims     Claims
}

// OK says whether the pack is valid.
func (v Verdict) OK() bool { return len(v.Violations) == 0 && len(v.NotChecked) == 0 }

// Pack checks a pack by the rules of a level.
func Pack(p *pack.Pack, o Options) Verdict {
	if o.Level == "" {
		o.Level = pack.Strict
	}
	v := &verifier{pack: p, opts: o, docs: map[string]*document{}}
	for _, e := range p.Entries {
		if e.Text != nil && e.Name != pack.LedgerFile {
			v.docs[e.Name] = decode(e.Name, e.Text)
		}
	}
	v.structural()
	if o.Level == pack.Strict {
		v.strict()
	}
	found := Verdict{Level: o.Level, Claims: v.claims(), Violations: pack.SortViolations(v.found), NotChecked: v.notChecked}
	if n := len(found.Violations); n > MaxViolations {
		found.Violations, found.More = found.Violations[:MaxViolations], n-MaxViolations
	}
	found.More += v.unnamed
	return found
}

// verifier is a pack during its verification.
type verifier struct {
	pack       *pack.Pack
	opts       Options
	docs       map[string]*document
	found      []pack.Violation
	unnamed    int // violations beyond maxFound
	notChecked []string
}

// add notes a violation. Values in a message are quoted and shortened.
func (v *verifier) add(rule, path, format string, args ...any) {
	if len(v.found) >= maxFound {
		v.unnamed++
		return
	}
	v.found = append(v.found, pack.Violation{Rule: rule, Path: path, Message: fmt.Sprintf(format, args...)})
}

// must notes a violation unless a condition holds.
func (v *verifier) must(holds bool, rule, path, format string, args ...any) {
	if !holds {
		v.add(rule, path, format, args...)
	}
}

// text returns a member of an object that is a text, or "".
func text(obj map[string]any, name string) string {
	s, _ := obj[name].(string)
	return s
}

// doc returns a file of the pack, or nil if the pack has no readable file of that name.
func (v *verifier) doc(name string) *document { return v.docs[name] }

// object returns the top of a file that is a JSON object, or nil.
func (v *verifier) object(name string) map[string]any {
	if d := v.docs[name]; d != nil {
		obj, _ := d.value.(map[string]any)
		return obj
	}
	return nil
}
