package compare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// tempPrefix begins the names of what is not yet in its place. No id of a run begins so.
const tempPrefix = ".tmp-"

// candidate is a folder that has a run.json.
type candidate struct{ path, id, group string }

// Root returns the version directories that stand in ROOT/baseline or ROOT/new: those of the run with
// an id, else those of the only run there. Without that folder there are none.
func Root(root string, side trial.Side, runID string) ([]string, error) {
	folder := filepath.Join(root, string(side))
	list, err := inside(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(folder), runerr.Reason(err), "name the folder of suite run --out")
	}
	picked := slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return c.group != runID && c.id != runID })
	groups := groupsOf(list)
	switch {
	case len(picked) > 0:
		list = picked
	case len(groups) > 1:
		return nil, runerr.New(result.CodeProfile, screen.Folder(folder)+" has several runs", "name one with --run-id: "+strings.Join(groups, ", "))
	}
	return paths(list), nil
}

// Expand returns the version directories at a path: the path itself, or the folders in it, which
// are those of one run and its repeats.
func Expand(path string) ([]string, error) {
	if _, err := os.Lstat(filepath.Join(path, trial.RunFile)); err == nil {
		return []string{path}, nil
	}
	list, err := inside(path)
	if err == nil && len(list) == 0 {
		err = errors.New("there is no run.json in it, nor in a folder in it")
	}
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(path), runerr.Reason(err), "name a version directory, such as runs/new/nightly, or a folder with those of one run")
	}
	if groups := groupsOf(list); len(groups) > 1 {
		return nil, runerr.New(result.CodeProfile, screen.Folder(path)+" has several runs", "name the directories of one of them: "+strings.Join(groups, ", "))
	}
	return paths(list), nil
}

// inside returns the folders in a folder that have a run.json.
func inside(folder string) ([]candidate, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var list []candidate
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if strings.HasPrefix(e.Name(), tempPrefix) {
			continue // what a kill during Bless leaves
		}
		if _, err := os.Lstat(filepath.Join(path, trial.RunFile)); err == nil {
			list = append(list, candidateAt(path))
		}
	}
	return list, nil
}

// candidateAt returns a folder with the ids that its run.json says. Whether the document is valid
// shows when the directory is loaded.
func candidateAt(path string) candidate {
	name := filepath.Base(path)
	c := candidate{path, name, name}
	files, err := asset.Open(path)
	if err != nil {
		return c
	}
	defer files.Close()
	text, err := files.Read(trial.RunFile, suitedir.MaxDocument)
	if err != nil {
		return c
	}
	value, _ := canon.ParseLiteral(text, len(text), 1<<20)
	run, _ := value.(object)
	if id, ok := run["run_id"].(string); ok {
		c.id, c.group = id, id
	}
	group, _ := run["run_group"].(object)
	if id, ok := group["run_id"].(string); ok {
		c.group = id
	}
	return c
}

// groupsOf returns the ids of the runs, sorted.
func groupsOf(list []candidate) (ids []string) {
	for _, c := range list {
		ids = append(ids, canon.Cut(canon.Clean(c.group)))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func paths(list []candidate) (found []string) {
	for _, c := range list {
		found = append(found, c.path)
	}
	return found
}
