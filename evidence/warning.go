package evidence

import (
	"strconv"
	"strings"
)

// MaxWarned is how many paths the warnings of one kind name.
const MaxWarned = 100

// Unpatched is a kind of thing that an accepted execution did and no patch can have.
type Unpatched int

// The kinds.
const (
	EmptyFolder Unpatched = iota
	Removal               // under a path that no patch can have; the path is quoted
)

// unpatched are the words for one thing of a kind, ahead of its path, and for many.
var unpatched = [...]struct{ one, many string }{
	EmptyFolder: {"the empty folder ", " more empty folders"},
	Removal:     {"the removal of ", " more removals"},
}

const (
	warnedOf   = "the patch does not have "
	warnedMore = "the patch does not have these, and "
)

// Warning is one warning of runner.json.
type Warning struct {
	Kind Unpatched
	Path string // empty in the warning that there are more
	More int    // how many more; 0 where a path is named
}

// String is the warning as runner.json has it.
func (w Warning) String() string {
	words := unpatched[w.Kind]
	if w.More > 0 {
		return warnedMore + strconv.Itoa(w.More) + words.many
	}
	return warnedOf + words.one + w.Path
}

// Warn has a warning for each of the first paths, and one for the others.
func Warn(kind Unpatched, paths []string) []string {
	var list []string
	for _, p := range paths[:min(len(paths), MaxWarned)] {
		list = append(list, Warning{Kind: kind, Path: p}.String())
	}
	if n := len(paths) - MaxWarned; n > 0 {
		list = append(list, Warning{Kind: kind, More: n}.String())
	}
	return list
}

// ParseWarning reads a warning of runner.json.
func ParseWarning(text string) (w Warning, ok bool) {
	for kind, words := range unpatched {
		if path, ok := strings.CutPrefix(text, warnedOf+words.one); ok {
			return Warning{Kind: Unpatched(kind), Path: path}, true
		}
		number, _ := strings.CutPrefix(strings.TrimSuffix(text, words.many), warnedMore)
		n, err := strconv.Atoi(number)
		if w = (Warning{Kind: Unpatched(kind), More: n}); err == nil && n > 0 && w.String() == text {
			return w, true
		}
	}
	return Warning{}, false
}

// Words are those ahead of a path of the kind.
func (k Unpatched) Words() string { return strings.TrimSpace(unpatched[k].one) }
