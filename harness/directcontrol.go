package harness

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// maxNamedControls is how many control paths that a direct command touched are named.
const maxNamedControls = 100

// controlled are the control paths of a folder that a command writes to directly, and
// what stands at each. What Protected covers is not looked into: it is read-only.
type controlled struct {
	dir   string
	files map[string]fs.FileInfo
}

// controlsOf lists the control paths before a task; nil where it writes nothing directly.
func controlsOf(task Task) (*controlled, error) {
	if task.Sandbox.Write != sandbox.Direct || task.Sandbox.Work == "" {
		return nil, nil
	}
	c := &controlled{dir: task.Sandbox.Work}
	var err error
	c.files, err = c.list()
	return c, err
}

func (c *controlled) list() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	err := filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil && name == c.dir {
			return err
		}
		rel, relErr := filepath.Rel(c.dir, name)
		if relErr != nil || rel == "." {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		if kernel.InspectOutput(rel).Control == "" {
			return nil // a folder that cannot be read holds nothing that the command made
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		found[rel] = info
		if d.IsDir() && slices.Contains(Protected(), rel) {
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

// standing are the control paths to be shown read-only: what stands before a task, but for
// what lies beneath another and for links, which settle finds.
func (c *controlled) standing() []string {
	var list []string
	for _, rel := range slices.Sorted(maps.Keys(c.files)) {
		beneath := len(list) > 0 && kernel.Beneath(rel, list[len(list)-1])
		if info := c.files[rel]; !beneath && (info.IsDir() || info.Mode().IsRegular()) {
			list = append(list, rel)
		}
	}
	return list
}

// moved says whether what stands at a new control path stood at another one before. A
// folder cannot be another one under the same number, because standing kept it from being
// removed.
func (c *controlled) moved(info fs.FileInfo) bool {
	for _, old := range c.files {
		if sameControl(old, info) {
			return true
		}
	}
	return false
}

// settle removes the control paths that are new, and returns all that are new, changed,
// moved or gone, sorted. What was moved is left where it is now. Links are not followed.
func (c *controlled) settle() ([]string, error) {
	after, err := c.list()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var touched []string
	for rel, info := range after {
		old, known := c.files[rel]
		switch {
		case !known && c.moved(info):
			touched = append(touched, rel)
		case !known:
			if err := root.RemoveAll(rel); err != nil {
				return nil, err
			}
			touched = append(touched, rel)
		case !sameControl(old, info):
			touched = append(touched, rel)
		}
	}
	for rel := range c.files {
		if after[rel] == nil {
			touched = append(touched, rel)
		}
	}
	slices.SortFunc(touched, canon.Compare)
	return touched[:min(len(touched), maxNamedControls)], nil
}

// sameControl says whether nothing was done to a control path meanwhile. What a folder
// holds is compared name by name.
func sameControl(a, b fs.FileInfo) bool {
	if !os.SameFile(a, b) || a.Mode() != b.Mode() {
		return false
	}
	return a.IsDir() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
