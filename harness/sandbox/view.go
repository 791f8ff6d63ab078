package sandbox

import (
	"slices"

	"github.com/fiador/fiador/kernel"
)

// Shows says whether commands can see a path of the work folder.
func (r Request) Shows(p string) bool {
	return (r.Show == nil || beneathAny(p, r.Show)) && !beneathAny(p, r.Hide)
}

// ShowsAll says whether commands can see a path of the work folder and everything beneath
// it.
func (r Request) ShowsAll(p string) bool {
	return r.Shows(p) && !slices.ContainsFunc(r.Hide, func(hidden string) bool { return kernel.Beneath(hidden, p) })
}

// passes says whether a folder of the work folder exists inside because it leads to a path
// of Show or Folders.
func (r Request) passes(p string) bool {
	leads := func(to string) bool { return kernel.Beneath(to, p) }
	return (slices.ContainsFunc(r.Show, leads) || slices.ContainsFunc(r.Folders, leads)) && !beneathAny(p, r.Hide)
}

func beneathAny(p string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return f == "." || kernel.Beneath(p, f) })
}
