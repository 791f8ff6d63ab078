package pathname

import (
	"slices"
	"strings"
)

// ShimPython and ShimNode are the programs that call a function of a library. A sandbox has
// them, read-only, if a call needs them.
const (
	ShimPython = "/fiador/shim.py"
	ShimNode   = "/fiador/shim.mjs"
)

// NamesShim says whether an argument names one of these programs or their folder, in any
// spelling. A path that leaves the work folder may lead to the root, and so may any folder
// that is a link: a folder fiador with a file shim is one of these programs wherever it is.
func NamesShim(arg string) bool {
	folder, _, _ := strings.Cut(ShimPython[1:], "/")
	if !strings.Contains(arg, folder) {
		return false
	}
	outside := strings.HasPrefix(arg, "/")
	var segments []string
	for seg := range strings.SplitSeq(arg, "/") {
		switch {
		case seg == "" || seg == ".":
		case seg != "..":
			segments = append(segments, seg)
		case len(segments) > 0:
			segments = segments[:len(segments)-1]
		default:
			outside = true
		}
	}
	i := slices.Index(segments, folder)
	return i == 0 && outside || i >= 0 && strings.Contains("/"+strings.Join(segments, "/"), "/"+folder+"/shim.")
}
