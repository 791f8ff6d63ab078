package execute

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// maxNamedControls is the maximum number of touched control paths that a direct
// command's reasons name.
const maxNamedControls = 100

// controlled holds the control paths of a folder that a command writes to directly, and
// the entry at each. Paths that Protected covers are left out, because they are
// read-only.
type controlled struct {
	dir    string
	files  map[string]fs.FileInfo
	closed map[string]fs.FileInfo // other folders, which the caller cannot read
}

// controlsOf lists the control paths before a task. It returns nil if the task writes
// nothing directly.
func controlsOf(task Task) (*controlled, error) {
	if task.Sandbox.Write != sandbox.Direct || task.Sandbox.Work == "" {
		return nil, nil
	}
	return listControls(task.Sandbox.Work)
}

func listControls(dir string) (*controlled, error) {
	c := &controlled{dir, map[string]fs.FileInfo{}, map[string]fs.FileInfo{}}
	return c, filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil && name == c.dir {
			return err
		}
		rel, relErr := filepath.Rel(c.dir, name)
		if relErr != nil || rel == "." {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		control := pathname.Inspect(rel).Control != ""
		if !control && err == nil {
			return nil
		}
		info, statErr := os.Lstat(name)
		if statErr != nil {
			return statErr
		}
		if !control {
			c.closed[rel] = info
			return nil
		}
		c.files[rel] = info
		if d.IsDir() && slices.Contains(Protected(), rel) {
			return fs.SkipDir
		}
		return nil
	})
}

// standing returns the control paths to be shown read-only: those that exist before a
// task. It leaves out links and paths beneath another control path; settle finds these.
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

// moved says whether the entry at a new control path was at another control path before,
// and is gone from there. So a second name of a file counts as new. A folder cannot
// reuse the number of another folder, because standing kept that folder from being
// removed.
func (c *controlled) moved(info fs.FileInfo, after *controlled) bool {
	for rel, old := range c.files {
		if now := after.files[rel]; sameObject(old, info) && (now == nil || !os.SameFile(now, info)) {
			return true
		}
	}
	return false
}

// settle removes the new control paths. It returns all new, changed, moved and removed
// ones, sorted, and the folders that the command closed, because these could hold more.
// A moved entry stays where it is now. Links are not followed.
func (c *controlled) settle() ([]string, error) {
	after, err := listControls(c.dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var touched []string
	for rel, info := range after.files {
		old, known := c.files[rel]
		switch {
		case !known && c.moved(info, after):
			touched = append(touched, rel)
		case !known:
			err = errors.Join(err, removeNew(root, rel))
			touched = append(touched, rel)
		case !sameControl(old, info):
			touched = append(touched, rel)
		}
	}
	for rel := range c.files {
		if after.files[rel] == nil {
			touched = append(touched, rel)
		}
	}
	for rel, info := range after.closed {
		if old := c.closed[rel]; old == nil || !sameObject(old, info) {
			touched = append(touched, rel)
		}
	}
	slices.SortFunc(touched, canon.Compare)
	return touched[:min(len(touched), maxNamedControls)], err
}

// removeNew removes entries that a command made, even if the command took away the
// permission to remove them.
func removeNew(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	above := path.Dir(name)
	if info, err := root.Lstat(above); err == nil && info.IsDir() {
		_ = root.Chmod(above, info.Mode().Perm()|0o700)
		defer func() { _ = root.Chmod(above, info.Mode().Perm()) }()
	}
	_ = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(p, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}

// sameControl says whether a control path is unchanged. No command can set a file's
// change time, so this time shows a change that the other times hide. The content of a
// folder is compared name by name.
func sameControl(a, b fs.FileInfo) bool {
	return sameObject(a, b) && (a.IsDir() || *change.SeenOf(a) == *change.SeenOf(b))
}

// sameObject says whether two control paths are one file or folder. A move changes the
// change time, so sameObject ignores that time.
func sameObject(a, b fs.FileInfo) bool {
	if !os.SameFile(a, b) || a.Mode() != b.Mode() {
		return false
	}
	return a.IsDir() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
