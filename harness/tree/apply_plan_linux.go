//go:build linux && (amd64 || arm64)

package tree

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
)

// fit sorts changes and refuses changes that cannot be applied together.
func fit(changes []change.Change) ([]change.Change, error) {
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b change.Change) int { return cmp.Compare(a.Path, b.Path) })
	at := map[string]change.Change{}
	for _, c := range changes {
		bad := func(why string) ([]change.Change, error) { return nil, fmt.Errorf("cannot apply %q: %s", c.Path, why) }
		if _, twice := at[c.Path]; twice {
			return bad("there are two changes to it")
		}
		at[c.Path] = c
		switch {
		case !change.IsClean(c.Path):
			return bad("not a clean path")
		case c.Kind == change.KindLink && (c.Target == "" || len(c.Target) > change.MaxPath || strings.ContainsRune(c.Target, 0)):
			return bad("the link has no target")
		case c.Kind == change.KindFile && c.Size < 0:
			return bad("it has no size")
		case !slices.Contains([]change.Kind{change.KindFile, change.KindFolder, change.KindLink, change.KindDeleted}, c.Kind):
			return bad("neither file nor folder nor link")
		case c.Kind == change.KindDeleted:
			continue
		case strings.Contains("/"+c.Path, "/"+change.TempPrefix):
			return bad("its name is one of those that Apply uses")
		}
		for _, folder := range change.Above(c.Path) {
			if up, changed := at[folder]; changed && up.Kind != change.KindFolder {
				return bad("it lies in what is no folder")
			}
		}
	}
	return changes, nil
}

// plan compares the changes with the folder and returns the operations, ordered by path.
func (a *applier) plan(dir string, changes []change.Change, t terms) (*record, error) {
	a.looked = t.looked
	if err := a.sameFolders(); err != nil {
		return nil, err
	}
	p := &planner{applier: a, at: map[string]*change.Change{}, folders: map[string]bool{}, still: map[string]bool{}}
	p.record = &record{Version: recordVersion, Folder: dir, Origin: a.origin, Since: t.latest()}
	for i := range changes {
		p.at[changes[i].Path] = &changes[i]
	}
	for i := range changes {
		if err := p.add(i, &changes[i]); err != nil {
			return nil, err
		}
	}
	return p.record, p.record.nameTemps()
}

// latest returns the latest change time of the content of folders to remove. For a run that
// resumes the record, a later time is a change by somebody else.
func (t terms) latest() int64 {
	if t.looked == nil {
		return t.since
	}
	var latest int64
	for _, held := range t.looked.Beneath {
		for _, s := range held {
			latest = max(latest, s.ChangedNS)
		}
	}
	return latest
}

// planner builds a record.
type planner struct {
	*applier
	record  *record
	at      map[string]*change.Change
	folders map[string]bool // folders that exist or that the record makes
	still   map[string]bool // folders that were not renamed after since
}

func (p *planner) add(blob int, c *change.Change) error {
	now, err := p.check(c)
	if err != nil || p.covered(c.Path) || c.Kind == change.KindDeleted && now == nil {
		return err
	}
	if c.Kind != change.KindDeleted {
		if err := p.parents(c); err != nil {
			return err
		}
	}
	o := operation{Path: []byte(c.Path), Was: now}
	switch c.Kind {
	case change.KindDeleted:
		o.Do = doDelete
	case change.KindFolder:
		p.folders[c.Path] = true
		if now != nil && now.Kind == change.KindFolder {
			return nil
		}
		o.Do = doFolder
	case change.KindFile:
		o.Do, o.Kind, o.Blob, o.Size, o.SHA256, o.Executable = doPut, change.KindFile, blob, c.Size, c.SHA256[:], c.Executable
	case change.KindLink:
		o.Do, o.Kind, o.Target = doPut, change.KindLink, []byte(c.Target)
	}
	p.record.Operations = append(p.record.Operations, o)
	return nil
}

// check compares one change with the entry at its path and returns the entry.
func (p *planner) check(c *change.Change) (*change.Seen, error) {
	now, err := p.seen(c.Path)
	if blocked(err) {
		if !p.clears(c.Path) {
			return nil, &ConflictError{Path: c.Path}
		}
		now, err = nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case c.Kind == change.KindFolder && now != nil && now.Kind == change.KindFolder && (c.Before == nil || c.Before.Kind == change.KindFolder):
		return now, nil
	case now == nil && c.Before == nil:
		return nil, nil
	case now == nil || c.Before == nil || *now != *c.Before || p.looked == nil && now.ChangedNS > p.record.Since:
		return nil, &ConflictError{Path: c.Path}
	case now.Kind == change.KindFolder:
		if ok, err := p.untouched(p.record, c.Path); err != nil || !ok {
			return nil, cmp.Or(err, error(&ConflictError{Path: c.Path}))
		}
	}
	return now, p.inPlace(c.Path)
}

// inPlace returns a *ConflictError if a folder above a path was renamed since the execution
// began. Such a folder has a new change time and an old modification time, and its files can
// have old times. With looked, sameFolders checks the folders instead.
func (p *planner) inPlace(path string) error {
	if p.looked != nil {
		return nil
	}
	for _, folder := range append([]string{"."}, change.Above(path)...) {
		if p.still[folder] {
			continue
		}
		var st unix.Stat_t
		err := p.in(folder, func(dir int, name string) error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		if err != nil {
			return &fs.PathError{Op: "stat", Path: folder, Err: err}
		}
		if st.Ctim.Nano() > p.record.Since && st.Mtim.Nano() <= p.record.Since {
			return &ConflictError{Path: folder}
		}
		p.still[folder] = true
	}
	return nil
}

// clears says whether a change replaces a non-folder above the path by a folder.
func (p *planner) clears(path string) bool {
	return slices.ContainsFunc(change.Above(path), func(folder string) bool {
		c := p.at[folder]
		return c != nil && c.Kind == change.KindFolder && c.Before != nil && c.Before.Kind != change.KindFolder
	})
}

// covered says whether a change removes or replaces a folder above the path, and the path
// with it.
func (p *planner) covered(path string) bool {
	return slices.ContainsFunc(change.Above(path), func(folder string) bool {
		c := p.at[folder]
		return c != nil && c.Kind != change.KindFolder
	})
}

// parents adds the missing folders above a path.
func (p *planner) parents(c *change.Change) error {
	for _, folder := range change.Above(c.Path) {
		if p.folders[folder] {
			continue
		}
		p.folders[folder] = true
		now, err := p.seen(folder)
		if blocked(err) && p.clears(folder) {
			now, err = nil, nil
		}
		switch {
		case err != nil && !blocked(err):
			return err
		case err != nil || now != nil && now.Kind != change.KindFolder:
			return &ConflictError{Path: c.Path}
		case now == nil:
			p.record.Operations = append(p.record.Operations, operation{Do: doFolder, Path: []byte(folder)})
		}
	}
	return nil
}
