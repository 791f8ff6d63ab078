package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/reason"
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
		{reason.MaxFiles, "files", len(t.Paths), c.MaxFiles}, {reason.MaxToolOps, "tool ops", t.Ops, c.MaxToolOps}, {reason.MaxDelta, "delta size", t.Delta.Total, c.MaxDeltaSize},
	} {
		if m.got > m.most {
			deny(m.id, "Exceeded max "+m.name+": "+strconv.Itoa(m.got)+" > "+strconv.Itoa(m.most))
		}
	}
	if t.DuplicateOf != "" {
		deny(reason.Duplicate, "Duplicate of "+t.DuplicateOf)
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
		{reason.Protected, "Protected: ", func(path string) bool { return tested(path) || matches(i.Protect, path) }},
		{reason.NotAllowed, "Not allowed: ", func(path string) bool { return i.Allow != nil && !matches(i.Allow, path) }},
	} {
		n := 0
		for _, path := range paths {
			if n > maxReasons || !m.denies(path) {
				continue
			}
			if n++; n > maxReasons {
				deny(m.id, "")
			} else {
				deny(m.id+" "+reason.Path(path), m.text+reason.Path(path))
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
