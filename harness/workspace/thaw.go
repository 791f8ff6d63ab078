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
	m, err := s.Plan(ctx, dir, was.Hash, want, Options{Now: now})
	if err != nil {
		return was, nil, err
	}
	defer m.Close()
	return was, m.List, m.Apply(ctx, journals)
}

// Move is a change of a folder from one state to another.
type Move struct {
	List []Difference

	store    *Store
	dir      string
	to       receipt.Hash
	how      Options
	root     *os.Root
	changes  []change.Change
	contents map[string]receipt.Hash // of new files, by path
	looked   tree.Looked
}

// ErrDrift is wrapped in the error about a folder that has another state than it should have.
var ErrDrift = errors.New("the folder is being changed, or has been changed")

// Plan returns the change that brings a folder from one state to another. The store has the
// nodes of both, and the objects of what is new. The error wraps ErrDrift if the folder has
// another state.
func (s *Store) Plan(ctx context.Context, dir string, from, to receipt.Hash, how Options) (_ *Move, err error) {
	m := &Move{store: s, dir: dir, to: to, how: how, contents: map[string]receipt.Hash{}}
	if m.List, err = s.Diff(ctx, from, to); err != nil {
		return nil, err
	}
	if m.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	if err = m.prepare(); err == nil {
		// The entries that prepare has seen are those of the state.
		err = s.hasState(ctx, dir, from, how)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// hasState returns an error unless a folder has a state.
func (s *Store) hasState(ctx context.Context, dir string, want receipt.Hash, how Options) error {
	got, err := s.StateOf(ctx, dir, how)
	if err == nil && got.Hash != want {
		err = fmt.Errorf("%w: it has the state %s", ErrDrift, got.Hash)
	}
	return err
}

// Close closes the folder.
func (m *Move) Close() error { return m.root.Close() }

// Apply changes the folder, as a whole or not at all, also after a kill (tree.ApplySeen;
// journals is the folder of its journals).
func (m *Move) Apply(ctx context.Context, journals string) error {
	if len(m.List) == 0 {
		return nil
	}
	if err := tree.ApplySeen(ctx, journals, m.dir, m.changes, m.open, m.looked); err != nil {
		return &ApplyError{err}
	}
	ctx = context.WithoutCancel(ctx) // the folder is changed
	prune(m.root, m.List)
	if err := m.store.hasState(ctx, m.dir, m.to, m.how); err != nil {
		return fmt.Errorf("the state was brought back, and another program has changed it: %w", err)
	}
	return nil
}

// prune removes the folders that only the earlier state has.
func prune(root *os.Root, list []Difference) {
	for _, d := range slices.Backward(list) {
		if d.Before.Mode == receipt.Folder && d.After.Mode == "" {
			_ = root.Remove(filepath.FromSlash(d.Path)) // what no state has keeps its folder
		}
	}
}

// Prune removes the folders that only the earlier of two states has, from a folder that has
// the later one: a kill can leave them empty.
func (s *Store) Prune(ctx context.Context, dir string, from, to receipt.Hash) error {
	list, err := s.Diff(ctx, from, to)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	prune(root, list)
	return nil
}

// ApplyError says that the folder could not be changed. It wraps the error of tree.ApplySeen.
type ApplyError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *ApplyError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ApplyError) Unwrap() error { return e.Err }

// prepare turns the differences into changes.
func (m *Move) prepare() error {
	top, err := m.root.Stat(".")
	if err != nil {
		return err
	}
	m.looked = tree.Looked{Dir: *change.SeenOf(top), Folders: map[string]change.Seen{}, Beneath: map[string]map[string]change.Seen{}}
	replaced := "" // the last folder whose place a file or a link takes
	for _, d := range m.List {
		before, after := d.Before.Mode, d.After.Mode
		switch {
		case replaced != "" && strings.HasPrefix(d.Path, replaced+"/"), before == receipt.Folder && after == "", before == "" && after == receipt.Folder:
			continue // it goes with its folder, or the folder comes and goes with its files
		case before == receipt.Folder:
			replaced = d.Path
			if err := m.holds(d.Path); err != nil {
				return err
			}
		}
		if err := m.change(d); err != nil {
			return err
		}
	}
	return nil
}

// change adds the change of one path.
func (m *Move) change(d Difference) error {
	c := change.Change{Path: d.Path, Kind: change.KindDeleted, Executable: d.After.Mode == receipt.Executable}
	if d.Before.Mode != "" {
		seen, err := m.seen(d.Path)
		if err != nil {
			return err
		}
		c.Before = &seen
	}
	for _, above := range change.Above(d.Path) {
		seen, err := m.seen(above)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it comes into being
		case err != nil:
			return err
		case seen.Kind == change.KindFolder:
			m.looked.Folders[above] = seen
		}
	}
	switch d.After.Mode {
	case receipt.Folder:
		c.Kind = change.KindFolder
	case receipt.Link:
		target, err := m.store.read(d.After.Hash, change.MaxPath)
		if err != nil {
			return err
		}
		c.Kind, c.Target = change.KindLink, string(target)
	case receipt.File, receipt.Executable:
		f, err := m.store.open(d.After.Hash)
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
		m.contents[d.Path] = d.After.Hash
	}
	m.changes = append(m.changes, c)
	return nil
}

func (m *Move) seen(name string) (change.Seen, error) {
	info, err := m.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return change.Seen{}, err
	}
	return *change.SeenOf(info), nil
}

// holds notes what a folder holds whose place a file or a link takes. It refuses what no state
// has, because nothing could bring that back.
func (m *Move) holds(folder string) error {
	known := map[string]bool{}
	for _, d := range m.List {
		known[d.Path] = true
	}
	held := map[string]change.Seen{}
	m.looked.Beneath[folder] = held
	return fs.WalkDir(m.root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == folder {
			return err
		}
		if !e.IsDir() && !known[name] {
			return &Error{name, "no state has it, and a file would take the place of the folder " + path.Dir(name) + ": move it elsewhere"}
		}
		seen, err := m.seen(name)
		held[name] = seen
		return err
	})
}

// open opens the new content of a file.
func (m *Move) open(name string) (io.ReadCloser, error) { return m.store.open(m.contents[name]) }
