package verify

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/lazy"
)

// pathBook has the kernel's facts about paths, each computed once.
type pathBook map[string]pathname.View

// view returns pathname.Inspect of a path.
func (b pathBook) view(path string) pathname.View {
	v, known := b[path]
	if !known {
		v = inspect(path)
		b[path] = v
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

// harmless says whether a segment is unproblematic: it has only ASCII letters and
// digits, "-", "_" and ".", does not end in a dot, and is neither a device nor a part of
// a control path.
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
	return !controlNames.Get()[strings.ToLower(seg)]
}

func isAlnum(c byte) bool { return asciiDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// controlNames returns the segments of all control paths.
var controlNames = lazy.Value[map[string]bool]{Make: func() map[string]bool {
	names := map[string]bool{}
	for _, path := range pathname.Tables()["control_paths"] {
		for seg := range strings.SplitSeq(path, "/") {
			names[seg] = true
		}
	}
	return names
}}

// wrong says why no policy allows a write to a path: its form, or a control path.
// Otherwise it returns "".
func (b pathBook) wrong(path string) string {
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
func (b pathBook) reserved(path string) bool {
	first, _, _ := strings.Cut(b.view(path).Folded, "/")
	return first == "CALLS" || first == "COMMANDS" || first == "CONTEXT"
}

// beneath says whether a path lies strictly below one of the roots. Without roots every
// path does.
func beneath(path string, roots []string) bool {
	return len(roots) == 0 || slices.ContainsFunc(roots, func(root string) bool { return path != root && kernel.Beneath(path, root) })
}

// clash says that the path at an index and another path cannot both exist on every
// system.
type clash struct {
	index int
	with  string
	how   string
}

// clashes finds paths that cannot all be files: two that differ only in case, and one
// that lies in another. If there are clashes, it finds at least one.
func (b pathBook) clashes(paths []string) []clash {
	type named struct {
		path, folded string
		index        int
	}
	list := make([]named, len(paths))
	for i, p := range paths {
		list[i] = named{p, b.view(p).Folded, i}
	}
	// The content of a folder comes directly after an entry with the folder's name.
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

// compareSegments sorts paths by their bytes; a slash comes before every other byte.
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

// unwritable says why a file cannot be written beneath the roots, or returns "".
func (b pathBook) unwritable(path string, roots []string) string {
	if what := b.wrong(path); what != "" {
		return what
	}
	if !beneath(path, roots) {
		return "lies beneath no write root of the policy"
	}
	return ""
}

// unremovable says why a path cannot be removed beneath the roots. The run did not
// choose that path's name. A write root itself can be removed.
func (b pathBook) unremovable(path string, roots []string) string {
	if what := pack.PathFault(path); what != "" {
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
