package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/reason"
)

// The reasons of a denial. Those of a path have it behind a space.
const (
	TooManyFiles = "MAX_FILES"
	TooManyOps   = "MAX_TOOL_OPS"
	TooLarge     = "MAX_DELTA"
	Duplicate    = "DUPLICATE"
	Protected    = "PROTECTED"
	NotAllowed   = "NOT_ALLOWED"
)

// maxReasons is how many paths the reasons of one kind name. Behind them, the bare id says that
// there are more.
const maxReasons = 100

// Tried is what the run of an item has changed.
type Tried struct {
	Paths       []string // files and links
	Ops         int      // tool calls
	Delta       Delta
	DuplicateOf string                 // the receipt of an equal change, or empty
	Base        func(path string) bool // whether the state at the start has such a file
}

// Admit returns why the change is denied, in the order of the rules, and a text about the first
// reason. Without a reason it is admitted.
func (i Item) Admit(t Tried) (reasons []string, denial string) {
	deny := func(id, text string) {
		if reasons = append(reasons, id); denial == "" {
			denial = text
		}
	}
	c := i.Constraints
	for _, m := range []struct {
		id, name  string
		got, most int
	}{
		{TooManyFiles, "files", len(t.Paths), c.MaxFiles}, {TooManyOps, "tool ops", t.Ops, c.MaxToolOps}, {TooLarge, "delta size", t.Delta.Total, c.MaxDeltaSize},
	} {
		if m.got > m.most {
			deny(m.id, "Exceeded max "+m.name+": "+strconv.Itoa(m.got)+" > "+strconv.Itoa(m.most))
		}
	}
	if t.DuplicateOf != "" {
		deny(Duplicate, "Duplicate of "+t.DuplicateOf)
	}
	paths := slices.Clone(t.Paths)
	slices.SortFunc(paths, canon.Compare)
	words := i.testWords()
	tested := func(path string) bool {
		_, named := slices.BinarySearch(words, path)
		return named && t.Base(path) && !slices.Contains(i.OutputFiles, path)
	}
	for _, m := range []struct {
		id, text string
		denies   func(path string) bool
	}{
		{Protected, "Protected: ", func(path string) bool { return tested(path) || matches(i.Protect, path) }},
		{NotAllowed, "Not allowed: ", func(path string) bool { return i.Allow != nil && !matches(i.Allow, path) }},
	} {
		n := 0
		for _, path := range paths {
			if n > maxReasons || !m.denies(path) {
				continue
			}
			if n++; n > maxReasons {
				deny(m.id, "")
			} else {
				deny(m.id+" "+show(path), m.text+show(path))
			}
		}
	}
	return reasons, denial
}

// matches says whether one of the globs matches a path.
func matches(globs []string, path string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return Glob(glob, path) })
}

// testWords returns the words of the test as clean paths, sorted. The text of a shell command has
// the words of wordBytes.
func (i Item) testWords() []string {
	words := slices.Clone(i.Test)
	if text, ok := i.TestText.(string); ok {
		words = strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune(wordBytes, r) })
	}
	for k, word := range words {
		words[k] = pathname.Clean(word)
	}
	slices.Sort(words)
	return words
}

// show returns a path as a reason names it. A path that would not print, or that could be
// mistaken for something else, is quoted.
func show(path string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if pathname.Inspect(path).Fault == "" && !strings.HasPrefix(path, `"`) && !strings.ContainsFunc(path, hidden) {
		return path
	}
	return reason.Quoted(path)
}
