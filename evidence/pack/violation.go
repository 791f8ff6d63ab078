package pack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// Rule is the record of one rule. explain prints it, and the reference in docs/ is made
// from it. The exact meaning of a structural rule is in the doc comment of the method
// that checks it, and in the table of specs/pack.md.
type Rule struct {
	ID          string `json:"id"`
	Level       Level  `json:"level"`       // the lowest level that checks it
	Title       string `json:"title"`       // what is true in a pack that keeps the rule
	Description string `json:"description"` // why
}

// Violation is a broken rule of a pack.
type Violation struct {
	Rule    string `json:"rule"`
	Path    string `json:"path"` // a file of the pack, or FILE#POINTER; empty: the pack
	Message string `json:"message"`
}

// SortViolations is PK10. Equal violations are listed once.
func SortViolations(list []Violation) []Violation {
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(canon.Compare(a.Rule, b.Rule), canon.Compare(a.Path, b.Path), canon.Compare(a.Message, b.Message))
	})
	return slices.Compact(list)
}

// At returns the path of a value in a file.
func At(file string, tokens ...string) string {
	pointer := ""
	for _, t := range tokens {
		pointer = canon.Pointer(pointer, t)
	}
	return file + "#" + pointer
}

// Quoted returns a value of a pack in the form for messages.
func Quoted(s string) string { return fmt.Sprintf("%q", strings.ToValidUTF8(canon.Cut(s), "\ufffd")) }
