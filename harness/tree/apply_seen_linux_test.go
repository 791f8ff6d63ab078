//go:build linux && (amd64 || arm64)

package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/change"
)

// seenScene makes a folder that the caller has looked at, with changes: a file, a file in an
// existing folder, and a deleted folder with content.
func seenScene(t *testing.T) (*applyScene, *Looked) {
	t.Helper()
	s := mustApplyScene(t, map[string]string{"a": "old", "d/e/y": "y", "d/x": "x", "s/k": "k", "t/mine": "mine", "zd/": ""})
	mustDo(t, os.Link(s.dir+"/a", s.dir+"/d/linked"))
	s.file("a", "new")
	s.file("s/n", "new")
	s.delete("d")
	s.delete("zd")
	l := &Looked{Dir: seenAt(t, s.dir), Folders: map[string]change.Seen{"s": seenAt(t, s.dir+"/s")}, Beneath: map[string]map[string]change.Seen{"d": {}}}
	mustDo(t, filepath.WalkDir(s.dir+"/d", func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.dir, p); rel != "d" {
			l.Beneath["d"][rel] = seenAt(t, p)
		}
		return err
	}))
	return s, l
}

func seenAt(t *testing.T, p string) change.Seen {
	t.Helper()
	info, err := os.Lstat(p)
	mustDo(t, err)
	return *change.SeenOf(info)
}

func (s *applyScene) applySeen(ctx context.Context, l *Looked, before func(call, name string) error) error {
	return applyTo(ctx, s.state, s.dir, s.changes, s.open, terms{looked: l}, calls{before: before})
}

// TestApplySeenKilled: after a kill at any step of ApplySeen, the folder ends in the old or
// the new state.
func TestApplySeenKilled(t *testing.T) {
	s, l := seenScene(t)
	before := snapshotOf(s.dir)
	mustDo(t, ApplySeen(t.Context(), s.state, s.dir, s.changes, s.open, *l))
	s.clear(t)
	after := snapshotOf(s.dir)
	other, err := newApplyScene(fastDir(t), map[string]string{"a": "new", "s/k": "k", "s/n": "new", "t/mine": "mine"})
	mustDo(t, err)
	if want := snapshotOf(other.dir); after != want {
		t.Error(diffText(want, after))
	}
	states := map[string]bool{}
	for n := 0; ; n++ {
		s, l := seenScene(t)
		err := s.applySeen(t.Context(), l, deadFrom(n))
		states[checkRecovered(t, s, n, before, after)] = true
		if err == nil {
			break
		}
	}
	if len(states) != 2 {
		t.Errorf("%d states", len(states))
	}
}

// TestApplySeen: every difference from what the caller saw is a conflict, and nothing is
// applied. ApplySeen finds the difference at first, or just before it changes the path.
func TestApplySeen(t *testing.T) {
	for name, c := range map[string]struct {
		conflict string
		meddle   func(dir string) error
	}{
		"another folder": {"s", func(d string) error { return errors.Join(os.Rename(d+"/s", d+"/o"), os.Rename(d+"/t", d+"/s")) }},
		"a link":         {"s", func(d string) error { return errors.Join(os.Rename(d+"/s", d+"/o"), os.Symlink("t", d+"/s")) }},
		"more beneath":   {"d", func(d string) error { return os.WriteFile(d+"/d/e/z", nil, 0o644) }},
		"less beneath":   {"d", func(d string) error { return os.Remove(d + "/d/e/y") }},
		"changed":        {"d", func(d string) error { return os.WriteFile(d+"/d/x", []byte("own"), 0o644) }},
		"not empty":      {"zd", func(d string) error { return os.WriteFile(d+"/zd/z", nil, 0o644) }},
		"the file": {"a", func(d string) error {
			return errors.Join(os.Remove(d+"/a"), os.WriteFile(d+"/a", []byte("old"), 0o644))
		}},
	} {
		for _, call := range []string{"", "create", "write"} {
			t.Run(name+" "+call, func(t *testing.T) {
				s, l := seenScene(t)
				meddle := func() error { return c.meddle(s.dir) }
				if call == "" {
					mustDo(t, meddle())
				}
				err := s.applySeen(t.Context(), l, onceAt(call, "a", meddle))
				var conflict *ConflictError
				if !errors.As(err, &conflict) || conflict.Path != c.conflict && filepath.Dir(conflict.Path) != c.conflict {
					t.Errorf("error %v, want a conflict at %q", err, c.conflict)
				}
				s.clear(t)
				other, _ := seenScene(t)
				mustDo(t, c.meddle(other.dir))
				if got, want := snapshotOf(s.dir), snapshotOf(other.dir); got != want {
					t.Error(diffText(want, got))
				}
			})
		}
	}
}

// TestApplySeenElsewhere: if the name now leads to another folder, ApplySeen returns a
// conflict and leaves that folder and its journal unchanged.
func TestApplySeenElsewhere(t *testing.T) {
	s, l := seenScene(t)
	mustDo(t, errors.Join(os.Rename(s.dir, s.dir+".old"), os.Mkdir(s.dir+".other", 0o755), os.Symlink("tree.other", s.dir)))
	before := snapshotOf(filepath.Dir(s.dir))
	err := s.applySeen(t.Context(), l, nil)
	var conflict *ConflictError
	if !errors.As(err, &conflict) || conflict.Path != "." {
		t.Errorf("%v", err)
	}
	if got := snapshotOf(filepath.Dir(s.dir)); got != before {
		t.Error(diffText(before, got))
	}
}

// TestApplyMoved: Apply refuses an entry that came to its path after the execution began, by
// a rename of a folder above it.
func TestApplyMoved(t *testing.T) {
	things := map[string]string{"s/u/a": "old", "s/u/d/": "", "s/l": "-> u", "t/u/a": "mine", "t/u/d/": "", "t/l": "-> u"}
	for name, add := range map[string]func(s *applyScene){
		"file":           func(s *applyScene) { s.file("s/u/a", "new") },
		"link":           func(s *applyScene) { s.link("s/l", "u/a") },
		"deleted":        func(s *applyScene) { s.delete("s/u/a") },
		"deleted folder": func(s *applyScene) { s.delete("s/u/d") },
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApplyScene(t, things)
			time.Sleep(20 * time.Millisecond)
			s.since = time.Now()
			time.Sleep(20 * time.Millisecond)
			mustDo(t, errors.Join(os.WriteFile(s.dir+"/other", nil, 0o644), os.WriteFile(s.dir+"/s/u/other", nil, 0o644)))
			add(s)
			mustDo(t, s.apply(nil)) // another entry beside it is no conflict

			s = mustApplyScene(t, things)
			time.Sleep(20 * time.Millisecond)
			s.since = time.Now()
			time.Sleep(20 * time.Millisecond)
			mustDo(t, errors.Join(os.Rename(s.dir+"/s", s.dir+"/o"), os.Rename(s.dir+"/t", s.dir+"/s")))
			add(s)
			before := snapshotOf(s.dir)
			err := s.apply(nil)
			var conflict *ConflictError
			if !errors.As(err, &conflict) || conflict.Path != "s" {
				t.Errorf("error %v, want a conflict at \"s\"", err)
			}
			if got := snapshotOf(s.dir); got != before {
				t.Error(diffText(before, got))
			}
			s.clear(t)
		})
	}
}
