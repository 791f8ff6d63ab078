package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/tree"
)

// Thaw brings a folder to a state whose objects the store has: as a whole or not at all, also
// after a kill (tree.ApplySeen; journals is the folder of its journals). It first keeps the
// state that it replaces, and returns it with what differs. Paths that no state has, such as
// .git, stay.
func (s *Store) Thaw(ctx context.Context, journals, dir string, want receipt.Hash, now time.Time) (was State, list []Difference, err error) {
	if was, err = s.Freeze(ctx, dir, now); err != nil {
		return was, nil, err
	}
	if list, err = s.Diff(ctx, was.Hash, want); err != nil || len(list) == 0 {
		return was, list, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return was, nil, err
	}
	defer root.Close()
	t := &thaw{store: s, root: root, list: list, contents: map[string]receipt.Hash{}}
	if err := t.prepare(); err != nil {
		return was, nil, err
	}
	// The entries that prepare has seen are those of the state that is kept.
	if seen, err := s.State(ctx, dir, now); err != nil || seen.Hash != was.Hash {
		return was, nil, errors.Join(err, &Error{Msg: "the folder is being changed"})
	}
	if err := tree.ApplySeen(ctx, journals, dir, t.changes, t.open, t.looked); err != nil {
		return was, nil, &ApplyError{err}
	}
	ctx = context.WithoutCancel(ctx) // the folder is changed
	for _, d := range slices.Backward(list) {
		if d.Before.Mode == receipt.Folder && d.After.Mode == "" {
			_ = root.Remove(filepath.FromSlash(d.Path)) // what no state has keeps its folder
		}
	}
	if got, err := s.State(ctx, dir, now); err != nil || got.Hash != want {
		return was, list, errors.Join(err, fmt.Errorf("the state was brought back, and the folder has the state %s afterwards: another program has changed it", got.Hash))
	}
	return was, list, nil
}

// ApplyError says that the folder could not be changed. It wraps the error of tree.ApplySeen.
type ApplyError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *ApplyError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ApplyError) Unwrap() error { return e.Err }

// thaw turns the differences of two states into changes.
type thaw struct {
	store    *Store
	root     *os.Root
	list     []Difference
	changes  []change.Change
	contents map[string]receipt.Hash // of new files, by path
	looked   tree.Looked
}

func (t *thaw) prepare() error {
	top, err := t.root.Stat(".")
	if err != nil {
		return err
	}
	t.looked = tree.Looked{Dir: *change.SeenOf(top), Folders: map[string]change.Seen{}, Beneath: map[string]map[string]change.Seen{}}
	replaced := "" // the last folder whose place a file or a link takes
	for _, d := range t.list {
		before, after := d.Before.Mode, d.After.Mode
		switch {
		case replaced != "" && strings.HasPrefix(d.Path, replaced+"/"), before == receipt.Folder && after == "", before == "" && after == receipt.Folder:
			continue // it goes with its folder, or the folder comes and goes with its files
		case before == receipt.Folder:
			replaced = d.Path
			if err := t.holds(d.Path); err != nil {
				return err
			}
		}
		if err := t.change(d); err != nil {
			return err
		}
	}
	return nil
}

// change adds the change of one path.
func (t *thaw) change(d Difference) error {
	c := change.Change{Path: d.Path, Kind: change.KindDeleted, Executable: d.After.Mode == receipt.Executable}
	if d.Before.Mode != "" {
		seen, err := t.seen(d.Path)
		if err != nil {
			return err
		}
		c.Before = &seen
	}
	for _, above := range change.Above(d.Path) {
		seen, err := t.seen(above)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it comes into being
		case err != nil:
			return err
		case seen.Kind == change.KindFolder:
			t.looked.Folders[above] = seen
		}
	}
	switch d.After.Mode {
	case receipt.Folder:
		c.Kind = change.KindFolder
	case receipt.Link:
		target, err := t.store.read(d.After.Hash, change.MaxPath)
		if err != nil {
			return err
		}
		c.Kind, c.Target = change.KindLink, string(target)
	case receipt.File, receipt.Executable:
		f, err := t.store.open(d.After.Hash)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		got, n, err := receipt.Copy(sum, f)
		if err != nil || got != d.After.Hash {
			return errors.Join(err, damaged(d.After.Hash))
		}
		c.Kind, c.Size, c.SHA256 = change.KindFile, n, [32]byte(sum.Sum(nil))
		t.contents[d.Path] = d.After.Hash
	}
	t.changes = append(t.changes, c)
	return nil
}

func (t *thaw) seen(name string) (change.Seen, error) {
	info, err := t.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return change.Seen{}, err
	}
	return *change.SeenOf(info), nil
}

// holds notes what a folder holds whose place a file or a link takes. It refuses what no state
// has, because nothing could bring that back.
func (t *thaw) holds(folder string) error {
	known := map[string]bool{}
	for _, d := range t.list {
		known[d.Path] = true
	}
	held := map[string]change.Seen{}
	t.looked.Beneath[folder] = held
	return fs.WalkDir(t.root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == folder {
			return err
		}
		if !e.IsDir() && !known[name] {
			return &Error{name, "no state has it, and a file would take the place of the folder " + path.Dir(name) + ": move it elsewhere"}
		}
		seen, err := t.seen(name)
		held[name] = seen
		return err
	})
}

// open opens the new content of a file.
func (t *thaw) open(name string) (io.ReadCloser, error) { return t.store.open(t.contents[name]) }
