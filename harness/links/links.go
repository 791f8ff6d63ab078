// Package links finds where a path leads that goes through symbolic links. A link beneath a
// guarded folder may come from the one who is guarded against, so it is refused.
package links

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fiador/fiador/kernel"
)

// PlantedError says that a path leads through a link beneath a guarded folder.
type PlantedError struct{ Link string }

func (e *PlantedError) Error() string { return "leads through the link " + strconv.Quote(e.Link) }

// Place returns the target of a path, absolute and without links. It refuses the first
// link beneath one of the folders within, which are absolute and without links. It takes
// an absent entry for a folder without links.
func Place(name string, within []string) (string, error) {
	abs := name
	if !filepath.IsAbs(abs) {
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		abs = here + "/" + abs
	}
	at, rest := rooted(abs)
	for links := 0; len(rest) > 0; {
		seg := rest[0]
		rest = rest[1:]
		if seg == "" || seg == "." {
			continue
		}
		if seg == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, seg)
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if guardedBy(next, within) != "" {
			return "", &PlantedError{next}
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.ELOOP}
		}
		segs := strings.Split(filepath.ToSlash(target), "/")
		if filepath.IsAbs(target) {
			at, segs = rooted(target)
		}
		rest = append(segs, rest...)
	}
	return at, nil
}

// rooted splits an absolute path into its root and its segments.
func rooted(abs string) (root string, segs []string) {
	vol := filepath.VolumeName(abs)
	return vol + string(filepath.Separator), strings.Split(filepath.ToSlash(abs[len(vol):]), "/")
}

// guardedBy returns the first folder that contains or is the path, or empty.
func guardedBy(name string, within []string) string {
	for _, dir := range within {
		if dir == "/" || kernel.Beneath(filepath.ToSlash(name), filepath.ToSlash(dir)) {
			return dir
		}
	}
	return ""
}

// OpenGuarded opens a folder that Place has returned. Beneath a guarded folder it refuses
// a link that was made meanwhile.
func OpenGuarded(name string, within []string) (*os.Root, error) {
	dir := guardedBy(name, within)
	if dir == "" {
		return os.OpenRoot(name)
	}
	root, err := os.OpenRoot(dir)
	at := dir
	for seg := range strings.SplitSeq(filepath.ToSlash(strings.TrimPrefix(name, dir)), "/") {
		if seg == "" || err != nil {
			continue
		}
		at = filepath.Join(at, seg)
		var next *os.Root
		next, err = openItself(root, seg, at)
		_ = root.Close()
		root = next
	}
	return root, err
}

// openItself opens a folder in another one. It refuses a link.
func openItself(root *os.Root, name, at string) (*os.Root, error) {
	entry, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	next, err := root.OpenRoot(name)
	if err != nil && entry.Mode().Type() != fs.ModeSymlink {
		return nil, err
	}
	if err == nil {
		if opened, err := next.Stat("."); err == nil && os.SameFile(entry, opened) {
			return next, nil
		}
		_ = next.Close()
	}
	return nil, &PlantedError{at}
}
