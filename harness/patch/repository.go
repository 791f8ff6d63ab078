package patch

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/lazy"
)

// gitMark says which parts of a git directory a folder has. Git takes a folder with all
// parts for the inside of a repository, wherever the folder is, and runs the programs
// that its configuration names.
type gitMark int

const (
	markHead gitMark = 1 << iota
	markObjects
	markRefs
	markCommon
)

// gitMarks are the parts of a git directory, by the folded names of their entries.
var gitMarks = lazy.Value[map[string]gitMark]{Make: func() map[string]gitMark {
	return map[string]gitMark{"HEAD": markHead, "OBJECTS": markObjects, "REFS": markRefs, "COMMONDIR": markCommon}
}}

// whole says whether git takes a folder with these parts for a git directory.
func (m gitMark) whole() bool {
	return m&markHead != 0 && (m&markCommon != 0 || m&markObjects != 0 && m&markRefs != 0)
}

// foldedPath returns one value for all paths that differ in case alone. The value has as
// many segments as the path.
func foldedPath(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToUpper(name)
	}
	return pathname.Inspect(name).Folded
}

// repositories finds the git directories that a patch would touch or make. The keys of
// its maps are folded paths.
type repositories struct {
	tree  *target
	marks map[string]gitMark             // parts that folders have, in the tree or after the patch
	there map[string][]string            // the folders of the tree with that folded path
	names map[string]map[string][]string // entries of these folders, by folded name, as paths
}

// refuseRepositories refuses changes in a folder that is a git directory, or becomes one
// by the patch.
func (p *Plan) refuseRepositories(ops []pack.Operation) error {
	if dir := gitDirAbove(p.tree.dir); dir != "" {
		p.refuse(".", "the folder lies in a git directory, %q", dir)
		return nil
	}
	r := &repositories{tree: p.tree, marks: map[string]gitMark{}, there: map[string][]string{}, names: map[string]map[string][]string{}}
	for _, o := range ops {
		if o.Op != pack.OpDelete {
			r.gets(o.Path)
		}
	}
	for _, o := range ops {
		for _, folder := range topAndAbove(foldedPath(o.Path)) {
			if err := r.look(folder); err != nil {
				return err
			}
			if len(r.there[folder]) == 0 {
				break
			}
		}
	}
	refused := p.refused()
	for _, o := range ops {
		if folder, ok := r.above(o.Path); ok && !refused[o.Path] {
			refused[o.Path] = true
			p.refuse(o.Path, "%s", gitDirFault(folder))
		}
	}
	p.refuseRemovedRepositories(r, refused)
	return nil
}

// refuseRemovedRepositories handles folders that are removed with their content.
func (p *Plan) refuseRemovedRepositories(r *repositories, refused map[string]bool) {
	for _, s := range p.Steps {
		if !s.Folder || s.Entries == 0 || refused[s.Path] {
			continue
		}
		held := slices.Sorted(maps.Keys(s.held))
		for _, name := range held {
			r.gets(name)
		}
		for _, name := range held {
			if folder, ok := r.above(name); ok {
				p.refuse(s.Path, "%s", gitDirFault(folder))
				break
			}
		}
	}
}

// refused returns the refused paths.
func (p *Plan) refused() map[string]bool {
	paths := map[string]bool{}
	for _, f := range p.Refused {
		paths[f.Path] = true
	}
	return paths
}

func gitDirFault(folder string) string {
	if folder == "" {
		return "the folder is a git directory, or becomes one"
	}
	return strconv.Quote(folder) + " is a git directory, or becomes one"
}

// topAndAbove returns the top of the tree and the folders above a path, the topmost
// first.
func topAndAbove(name string) []string { return append([]string{""}, foldersAbove(name)...) }

// gets notes the parts that folders get when a file is put at a path.
func (r *repositories) gets(name string) {
	name = foldedPath(name)
	for _, at := range append(foldersAbove(name), name) {
		folder, last := splitPath(at)
		if mark := gitMarks.Get()[last]; mark != 0 {
			r.marks[folder] |= mark
		}
	}
}

// splitPath returns the folder of a path and its last segment.
func splitPath(name string) (folder, last string) {
	slash := strings.LastIndexByte(name, '/')
	return name[:max(slash, 0)], name[slash+1:]
}

// above returns the topmost git directory that contains a path.
func (r *repositories) above(name string) (string, bool) {
	spelled := topAndAbove(name)
	for i, folder := range topAndAbove(foldedPath(name)) {
		if r.marks[folder].whole() {
			return spelled[i], true
		}
	}
	return "", false
}

// look notes the entries of the folders of the tree with that folded path. The caller
// looks at the folder above first. A path that is no folder, or lies behind a link, has
// no entries.
func (r *repositories) look(folded string) error {
	if r.names[folded] != nil {
		return nil
	}
	there := []string{""}
	if folded != "" {
		above, last := splitPath(folded)
		there = r.names[above][last]
	}
	if len(there) == 0 {
		return nil
	}
	r.there[folded], r.names[folded] = there, map[string][]string{}
	for _, folder := range there {
		list, err := r.tree.namesIn(folder)
		if err != nil {
			return err
		}
		for _, name := range list {
			as := foldedPath(name)
			r.marks[folded] |= gitMarks.Get()[as]
			r.names[folded][as] = append(r.names[folded][as], path.Join(folder, name))
		}
	}
	return nil
}

// namesIn returns the names in a folder, and nothing if the path is no folder.
func (t *target) namesIn(folder string) ([]string, error) {
	folder = cmp.Or(folder, ".")
	seen, err := t.seen(folder)
	if seen == nil || seen.Kind != change.KindFolder {
		return nil, err
	}
	f, err := t.root.Open(filepath.FromSlash(folder))
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// gitDirAbove returns the git directory that contains a folder.
func gitDirAbove(dir string) string {
	for {
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		mark := gitMark(0)
		for _, name := range []string{"HEAD", "objects", "refs", "commondir"} {
			if _, err := os.Lstat(filepath.Join(up, name)); !errors.Is(err, fs.ErrNotExist) {
				mark |= gitMarks.Get()[strings.ToUpper(name)]
			}
		}
		if mark.whole() {
			return up
		}
		dir = up
	}
}

// RefuseBeneath refuses changes at a path of the tree, above it and beneath it. Case is
// ignored. The path "." is the tree.
func (p *Plan) RefuseBeneath(name, why string) {
	if name == "." {
		p.refuse(".", "%s", why)
		return
	}
	refused := p.refused()
	name = foldedPath(name)
	for at := range p.ops {
		if folded := foldedPath(at); !refused[at] && (kernel.Beneath(folded, name) || kernel.Beneath(name, folded)) {
			p.refuse(at, "%s", why)
		}
	}
	sortFaults(p.Refused)
}
