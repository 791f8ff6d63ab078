package links

import (
	"os"
	"path/filepath"
)

// maxLinks is how many links of one path are replaced.
const maxLinks = 40

// Follow returns the target of a path after all links. The target need not exist.
func Follow(name string) string {
	name = filepath.Clean(name)
	for range maxLinks {
		next := pastLink(name)
		if next == name {
			break
		}
		name = next
	}
	return name
}

// pastLink replaces the first link of a path by its target.
func pastLink(name string) string {
	for i := range len(name) + 1 {
		if i == 0 || i < len(name) && !os.IsPathSeparator(name[i]) {
			continue
		}
		target, err := os.Readlink(name[:i])
		if err != nil {
			continue
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name[:i]), target)
		}
		return filepath.Join(target, name[i:])
	}
	return name
}
