package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is the project that a call works in, and the folder that its paths start from. root
// has no links.
type place struct{ root, cwd string }

// place finds the root of the project for an event.
func (c Client) place(o Options, cwd string) (place, error) {
	if !filepath.IsAbs(cwd) {
		return place{}, fmt.Errorf("/cwd of the event of %s is not an absolute path", c.Product)
	}
	root := o.Tree
	for _, name := range c.project {
		if root == "" {
			root = o.Env(name)
		}
	}
	if root == "" {
		root = Repository(cwd)
	}
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	return place{root, cwd}, err
}

// Repository returns the nearest folder at or above another one that has .git, or else the
// folder itself.
func Repository(cwd string) string {
	for dir := filepath.Clean(cwd); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return cwd
		}
	}
}

// beyond returns a path as one that starts at the root of the file system. Segments ".."
// stay, because a link may stand before them.
func (at place) beyond(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return at.cwd + string(filepath.Separator) + path
}

// path returns a path relative to the root, with slashes, if it leads beneath the root. Any
// other path is returned in a form that every profile denies: as it is, or absolute.
func (at place) path(given string) string {
	if given == "" || strings.HasPrefix(given, "~") {
		return given // no client says whether it replaces the tilde
	}
	real, ok := follow(at.beyond(given))
	if rel, err := filepath.Rel(at.root, real); ok && err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	if !ok {
		real = filepath.Clean(at.beyond(given))
	}
	return filepath.ToSlash(real)
}

// follow returns where a path leads to, through its links. What does not exist lies beneath
// the last folder that exists. ok is false if that cannot be known: a link leads nowhere, or
// ".." follows what does not exist.
func follow(path string) (real string, ok bool) {
	rest := ""
	for at := path; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", false
		}
		at = strings.TrimRight(at, string(filepath.Separator)) // or Lstat would follow a link
		if _, err := os.Lstat(at); err == nil {
			return "", false
		}
		dir, name := filepath.Split(at)
		if name == ".." || name == "" || dir == at {
			return "", false
		}
		at, rest = dir, filepath.Join(name, rest)
	}
}
