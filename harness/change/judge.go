package change

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/reason"
)

// maxReasons is the largest number of paths named for each reason.
const maxReasons = 100

// TempPrefix begins the names of temporary entries while changes are applied.
const TempPrefix = ".fiador-apply-"

// MaxPath is the longest path, and the longest target of a symbolic link, that a system call
// accepts, in bytes.
const MaxPath = 4095

// Rules say which changes are accepted. The zero value accepts none.
type Rules struct {
	Roots    []string // folders beneath which changes are allowed, clean and relative
	AnyRoot  bool     // changes are allowed everywhere, except at control paths
	MaxFiles int      // largest number of files and links together, and largest number of folders
	MaxBytes int64    // size of all files together, holes counted
	Declared []string // outputs that must exist as regular files
	Links    bool     // symbolic links that stay in the work folder are accepted

	// Exists returns the kind of the entry that the unchanged work folder has at a path, and
	// "" for none. It follows no link, neither on the way nor at the end. Nil: the folder
	// was empty.
	Exists func(path string) Kind
	// Shown says whether commands could see a path of the unchanged work folder. Nil: they
	// could see all of it.
	Shown func(path string) bool
	// Below lists the paths that the unchanged work folder has beneath a folder, at any
	// depth. Nil: a removed folder is judged by its name alone.
	Below func(folder string) iter.Seq[string]
}

// Verdict is the result of judging the changes of an execution.
type Verdict struct {
	// Accepted are the changes that can be applied, by path. It is empty when there is a
	// reason.
	Accepted []Change
	// Outputs are the regular files with a hash and a valid name, by path, as many as the
	// limits allow. Outputs does not depend on Reasons.
	Outputs []Change
	// Reasons says why nothing is accepted: sorted, each once, "CODE" or "CODE path". A path
	// with an invalid name is quoted and escaped to ASCII. At most the first hundred paths
	// of each code are named. A code without a path, except OUTPUT_LIMIT, says that the list
	// of paths was cut.
	Reasons []string
}

// Judge decides whether the changes of an execution to its work folder are accepted: all
// of them, or none.
//
// Every change must lie beneath a write root. The root itself, and the folders above it,
// can be created; a root can be removed. These lie outside every root: control paths, a
// removed folder that contained one, and a name that would lead to one.
//
// A new entry must have a name that the kernel accepts. Its name must not differ from
// another name in case alone. A symbolic link must be relative, never leave the work
// folder on its way, pass through no other link, and not end at an old link.
//
// Lists are ordered by UTF-16 code units, independent of the order of changes.
func Judge(changes []Change, r Rules) Verdict {
	j := newJudge(changes, r)
	for _, c := range j.changes {
		j.place(c)
		if c.Kind != KindDeleted {
			j.kind(c)
			j.name(c)
		}
	}
	j.declared()
	j.limits()
	v := Verdict{Outputs: j.outputs(), Reasons: j.reasons()}
	if len(v.Reasons) == 0 {
		v.Accepted = j.changes
	}
	return v
}

// judge holds the state while one list of changes is judged.
type judge struct {
	rules   Rules
	changes []Change
	at      map[string]Change          // by path
	twice   map[string]bool            // paths with more than one change
	views   map[string]pathname.View   // by path
	twins   map[string]bool            // folded paths shared by two paths
	found   map[string]map[string]bool // paths by code
	temp    string                     // TempPrefix, folded
}

func newJudge(changes []Change, r Rules) *judge {
	j := &judge{
		rules: r, changes: slices.Clone(changes),
		at: map[string]Change{}, twice: map[string]bool{},
		views: map[string]pathname.View{}, found: map[string]map[string]bool{},
		temp: pathname.Inspect(TempPrefix).Folded,
	}
	slices.SortStableFunc(j.changes, func(a, b Change) int { return canon.Compare(a.Path, b.Path) })
	for _, c := range j.changes {
		_, again := j.at[c.Path]
		j.twice[c.Path] = again
		j.at[c.Path] = c
		j.views[c.Path] = pathname.Inspect(c.Path)
	}
	j.twins = j.findTwins()
	return j
}

func (j *judge) reject(code, path string) {
	if j.found[code] == nil {
		j.found[code] = map[string]bool{}
	}
	j.found[code][path] = true
}

// place judges the location of a change.
func (j *judge) place(c Change) {
	view := j.views[c.Path]
	if !IsClean(c.Path) || j.twice[c.Path] {
		j.reject(reason.OutputName, c.Path)
	}
	if view.Control != "" || !j.rules.mayWrite(c) || j.leadsToControl(c, view) {
		j.reject(reason.WriteOutsideRoot, c.Path)
	}
}

func (r Rules) mayWrite(c Change) bool {
	if r.AnyRoot {
		return true
	}
	wasFolder := c.Before != nil && c.Before.Kind == KindFolder
	return slices.ContainsFunc(r.Roots, func(root string) bool {
		switch {
		case root == "":
			return false
		case strings.HasPrefix(c.Path, root+"/"):
			return true
		case c.Kind == KindFolder && (c.Before == nil || wasFolder):
			return c.Path == root || strings.HasPrefix(root, c.Path+"/")
		}
		return c.Kind == KindDeleted && wasFolder && c.Path == root
	})
}

// leadsToControl says whether a change removes or replaces a folder that has or can have
// control paths. For example, a link in place of .github would bring pipelines with it.
func (j *judge) leadsToControl(c Change, view pathname.View) bool {
	if c.Kind == KindFolder {
		return false
	}
	if view.Leads && (c.Kind == KindLink || c.Before != nil && c.Before.Kind == KindFolder) {
		return true
	}
	if c.Before == nil || c.Before.Kind != KindFolder || j.rules.Below == nil {
		return false
	}
	for p := range j.rules.Below(c.Path) {
		if pathname.Inspect(p).Control != "" {
			return true
		}
	}
	return false
}

// kind judges the kind of the new entry at a path.
func (j *judge) kind(c Change) {
	ok := false
	switch c.Kind {
	case KindFile, KindFolder:
		ok = true
	case KindLink:
		ok = j.rules.Links && j.stays(c)
	}
	for _, folder := range Above(c.Path) {
		if up, changed := j.at[folder]; changed && up.Kind != KindFolder {
			ok = false
		}
	}
	if !ok {
		j.reject(reason.OutputKind, c.Path)
	}
}

// name judges the name of the new entry at a path.
func (j *judge) name(c Change) {
	view := j.views[c.Path]
	if view.Fault != "" || j.twins[view.Folded] || strings.Contains("/"+view.Folded, "/"+j.temp) {
		j.reject(reason.OutputName, c.Path)
	}
}

// findTwins returns the folded paths that more than one path has. It considers the new
// entries, the folders above them, and the folders above deleted entries.
func (j *judge) findTwins() map[string]bool {
	first, twins := map[string]string{}, map[string]bool{}
	add := func(folded, path string) {
		if other, known := first[folded]; known && other != path {
			twins[folded] = true
		}
		first[folded] = path
	}
	for _, c := range j.changes {
		folded := j.views[c.Path].Folded
		if c.Kind != KindDeleted {
			add(folded, c.Path)
		}
		folders, foldedFolders := Above(c.Path), Above(folded)
		for i := range min(len(folders), len(foldedFolders)) {
			folder := folders[i]
			if up, changed := j.at[folder]; !changed || up.Kind != KindDeleted {
				add(foldedFolders[i], folder)
			}
		}
	}
	return twins
}

// stays says whether a symbolic link ends in the work folder, according to its target and to
// the entries on the way.
func (j *judge) stays(c Change) bool {
	t := c.Target
	if t == "" || t[0] == '/' || len(t) > MaxPath || !utf8.ValidString(t) || strings.ContainsRune(t, 0) {
		return false
	}
	way := strings.Split(c.Path, "/")
	way = way[:len(way)-1]
	named := false // the last segment is a name, which may be a link
	for seg := range strings.SplitSeq(t, "/") {
		if named && j.stands(strings.Join(way, "/")) == KindLink {
			return false
		}
		named = false
		switch seg {
		case "", ".":
		case "..":
			if len(way) == 0 {
				return false
			}
			way = way[:len(way)-1]
		default:
			way = append(way, seg)
			named = true
		}
	}
	end := strings.Join(way, "/")
	if end == "" {
		return true
	}
	_, changed := j.at[end]
	if named && !changed && j.stands(end) == KindLink {
		return false
	}
	view := pathname.Inspect(end)
	return view.Fault == "" && view.Control == ""
}

// stands returns the kind of the entry at a path after the execution, or "".
func (j *judge) stands(path string) Kind {
	if c, changed := j.at[path]; changed {
		if c.Kind == KindDeleted {
			return ""
		}
		return c.Kind
	}
	for _, folder := range Above(path) {
		if c, changed := j.at[folder]; changed && c.Kind != KindFolder {
			return ""
		}
	}
	if j.rules.Exists == nil {
		return ""
	}
	return j.rules.Exists(path)
}

// declared judges the declared outputs: each must be a regular file that commands could see.
func (j *judge) declared() {
	for _, p := range j.rules.Declared {
		p = pathname.Clean(p)
		kind := j.stands(p)
		if _, changed := j.at[p]; !changed && j.rules.Shown != nil && !j.rules.Shown(p) {
			kind = ""
		}
		switch kind {
		case KindFile:
		case "":
			j.reject(reason.OutputMissing, p)
		default:
			j.reject(reason.OutputKind, p)
		}
	}
}

// limits judges the number of new entries and the size of the files together.
func (j *judge) limits() {
	files, folders, left := 0, 0, j.rules.MaxBytes
	over := false
	for _, c := range j.changes {
		switch c.Kind {
		case KindFolder:
			folders++
		case KindFile:
			files++
			over = over || c.Size < 0 || c.Size > left || c.SHA256 == [32]byte{}
			left -= min(max(c.Size, 0), left)
		case KindLink, KindOther:
			files++
		}
	}
	if over || files > j.rules.MaxFiles || folders > j.rules.MaxFiles {
		j.reject(reason.OutputLimit, "")
	}
}

// outputs returns Verdict.Outputs.
func (j *judge) outputs() []Change {
	var list []Change
	left := j.rules.MaxBytes
	for _, c := range j.changes {
		if c.Kind != KindFile || c.SHA256 == [32]byte{} || j.found[reason.OutputName][c.Path] {
			continue
		}
		if len(list) >= j.rules.MaxFiles || c.Size < 0 || c.Size > left {
			break
		}
		left -= c.Size
		list = append(list, c)
	}
	return list
}

func (j *judge) reasons() []string {
	var list []string
	for code, paths := range j.found {
		var of []string
		for p := range paths {
			r := reason.Reason{ID: code}
			if code != reason.OutputLimit {
				r.Subject = reason.Path(p)
			}
			of = append(of, r.String())
		}
		slices.SortFunc(of, canon.Compare)
		of = slices.Compact(of)
		if len(of) > maxReasons {
			of = append(of[:maxReasons], code)
		}
		list = append(list, of...)
	}
	slices.SortFunc(list, canon.Compare)
	return list
}

// IsClean says whether a path can be opened and stays beneath the folder that it is relative
// to. Its segments are names: none is empty, ".", ".." or contains a NUL.
func IsClean(path string) bool {
	if len(path) > MaxPath {
		return false
	}
	for seg := range strings.SplitSeq(path, "/") {
		if seg == "" || seg == "." || seg == ".." || strings.ContainsRune(seg, 0) {
			return false
		}
	}
	return true
}

// Above returns the folders above a path, the topmost first. It returns none for a path over
// MaxPath, which cannot be opened and may have too many folders.
func Above(path string) []string {
	if len(path) > MaxPath {
		return nil
	}
	var list []string
	for i := range len(path) {
		if path[i] == '/' {
			list = append(list, path[:i])
		}
	}
	return list
}
