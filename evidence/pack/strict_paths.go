package pack

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/pathname"
)

// pathBook knows what the kernel says of paths, each looked at once.
type pathBook struct {
	seen map[string]pathname.View
}

func newPathBook() *pathBook { return &pathBook{seen: map[string]pathname.View{}} }

// view returns pathname.Inspect of a path.
func (b *pathBook) view(path string) pathname.View {
	v, known := b.seen[path]
	if !known {
		v = inspect(path)
		b.seen[path] = v
	}
	return v
}

// inspect gives the same result as pathname.Inspect. It is much faster for a path with
// harmless segments only (TestInspectAgrees).
func inspect(path string) pathname.View {
	if len(path) > 1024 {
		return pathname.Inspect(path)
	}
	for rest, more := path, true; more; {
		var seg string
		if seg, rest, more = strings.Cut(rest, "/"); !harmless(seg) {
			return pathname.Inspect(path)
		}
	}
	return pathname.View{Folded: strings.ToUpper(path)}
}

// harmless says of a segment that there is nothing to say about it: it is of ASCII
// letters and digits, "-", "_" and ".", ends in no dot, and is neither a device nor a
// part of a control path.
func harmless(seg string) bool {
	if seg == "" || len(seg) > 255 || seg[len(seg)-1] == '.' {
		return false
	}
	if !onlyOf(seg, func(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c == '.' }) {
		return false
	}
	stem, _, _ := strings.Cut(seg, ".")
	switch len(stem) {
	case 3:
		if slices.ContainsFunc([]string{"con", "prn", "aux", "nul"}, func(name string) bool { return strings.EqualFold(stem, name) }) {
			return false
		}
	case 4:
		if asciiDigit(stem[3]) && (strings.EqualFold(stem[:3], "com") || strings.EqualFold(stem[:3], "lpt")) {
			return false
		}
	}
	return !controlNames()[strings.ToLower(seg)]
}

func isAlnum(c byte) bool { return asciiDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// controlNames returns the segments of all control paths.
var controlNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, path := range kernel.DetectorTables()["control_paths"] {
		for seg := range strings.SplitSeq(path, "/") {
			names[seg] = true
		}
	}
	return names
})

// wrong says what makes a path one that nothing is written to, whatever the policy is:
// its form, or a control path. Else it is empty.
func (b *pathBook) wrong(path string) string {
	v := b.view(path)
	switch {
	case pathname.Clean(path) != path:
		return "is not clean"
	case v.Fault != "":
		return "is no path that every system has: " + v.Fault
	case v.Control != "":
		return "leads into the control path " + v.Control
	}
	return ""
}

// reserved says whether a path lies where a bundle has its own outputs.
func (b *pathBook) reserved(path string) bool {
	first, _, _ := strings.Cut(b.view(path).Folded, "/")
	switch first {
	case "CALLS", "COMMANDS", "CONTEXT":
		return true
	}
	return false
}

// beneath says whether a path lies strictly below one of the roots, of which none means
// anywhere.
func beneath(path string, roots []string) bool {
	for _, root := range roots {
		if path != root && kernel.Beneath(path, root) {
			return true
		}
	}
	return len(roots) == 0
}

// clash says of the path at an index that it cannot stand beside another one on every
// system.
type clash struct {
	index int
	with  string
	how   string
}

// clashes finds paths that cannot all be files: two that are one where case does not
// count, and one that lies in another. It finds one at least where there is any.
func (b *pathBook) clashes(paths []string) []clash {
	type named struct {
		path, folded string
		index        int
	}
	list := make([]named, len(paths))
	for i, p := range paths {
		list[i] = named{p, b.view(p).Folded, i}
	}
	// What lies in a folder comes right behind what has the folder's name.
	slices.SortFunc(list, func(x, y named) int {
		return cmp.Or(compareSegments(x.folded, y.folded), strings.Compare(x.path, y.path), x.index-y.index)
	})
	var found []clash
	for i := 1; i < len(list); i++ {
		x, y := list[i-1], list[i]
		how := ""
		switch {
		case x.path == y.path:
			how = "is there twice, as"
		case x.folded == y.folded:
			how = "differs in case alone from"
		case strings.HasPrefix(y.folded, x.folded) && y.folded[len(x.folded)] == '/':
			how = "lies in a file,"
		default:
			continue
		}
		found = append(found, clash{y.index, x.path, how})
	}
	return found
}

// compareSegments orders paths by their bytes, a slash before every other.
func compareSegments(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// unwritable says what keeps a file from being written beneath the roots, or is empty.
func (b *pathBook) unwritable(path string, roots []string) string {
	if what := b.wrong(path); what != "" {
		return what
	}
	if !beneath(path, roots) {
		return "lies beneath no write root of the policy"
	}
	return ""
}

// unremovable says the same of what is removed, whose name was somebody else's choice. A
// write root itself can be removed.
func (b *pathBook) unremovable(path string, roots []string) string {
	if what := misnamed(path); what != "" {
		return what
	}
	if v := b.view(path); v.Control != "" {
		return "leads into the control path " + v.Control
	}
	if !slices.Contains(roots, path) && !beneath(path, roots) {
		return "lies beneath no write root of the policy"
	}
	return ""
}
