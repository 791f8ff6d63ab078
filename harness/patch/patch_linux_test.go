//go:build amd64 || arm64

package patch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/result"
)

// TestPatchApplied: one operation of each kind, and the same patch applied twice.
func TestPatchApplied(t *testing.T) {
	dir := grown(t, map[string]string{
		"kept": "kept", "changed": "old", "tool": "x:#!old", "plain": "x:old", "gone": "old", "done": "new", "sub/gone": "old",
		"becomes": "old", "empty/": "", "full/a": "a", "full/l": "-> ../kept", "mine": "mine",
	})
	ops := []pack.Operation{
		deletes("becomes", "old"), creates("becomes/a/b", "new"), modifies("changed", "old", "new"), creates("done", "new"),
		deletesFolder("empty"), deletesFolder("full"), deletes("gone", "old"), creates("mine", "new"), creates("n/e/w", "new\x00"),
		modifies("plain", "old", "old"), deletes("sub/gone", "old"), runnable(modifies("tool", "#!old", "#!new")), deletes("never", "x"),
	}
	state := filepath.Join(t.TempDir(), "state")
	p := mustPlan(t, dir, ops, Options{Overwrite: true})
	if c, m, d := p.Counts(); c != 2 || m != 4 || d != 5 {
		t.Errorf("%d created, %d modified, %d deleted", c, m, d)
	}
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	want := grown(t, map[string]string{
		"kept": "kept", "changed": "new", "tool": "x:#!new", "plain": "old", "done": "new", "sub/": "", "becomes/a/b": "new", "mine": "new", "n/e/w": "new\x00",
	})
	if got, want := treetest.Text(t, dir), treetest.Text(t, want); got != want {
		t.Errorf("the tree is\n%s\nwhich should be\n%s", got, want)
	}
	if list, _ := os.ReadDir(state); len(list) > 0 {
		t.Errorf("left in the state folder: %v", list)
	}
	again := mustPlan(t, dir, ops, Options{})
	if got := planLines(again); got != "" {
		t.Errorf("afterwards: %s", got)
	}
	if err := again.Apply(t.Context(), state); err != nil {
		t.Errorf("applied again: %v", err)
	}
}

// TestPatchMeanwhile: no change that somebody else makes between the plan and its end is
// lost. After such a change nothing is applied.
func TestPatchMeanwhile(t *testing.T) {
	things := map[string]string{"a": "old", "d": "old", "e/": "", "f/x": "x", "s/b": "old"}
	ops := []pack.Operation{modifies("a", "old", "new"), deletes("d", "old"), deletesFolder("e"), deletesFolder("f"), creates("n/f", "new"), modifies("s/b", "old", "new")}
	for name, change := range map[string]func(dir string) error{
		"in place": func(dir string) error { return os.WriteFile(dir+"/a", []byte("own"), 0o644) },
		"another file": func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/t", []byte("old"), 0o644), os.Rename(dir+"/t", dir+"/a"))
		},
		"mode":   func(dir string) error { return os.Chmod(dir+"/a", 0o600) },
		"gone":   func(dir string) error { return os.Remove(dir + "/a") },
		"a link": func(dir string) error { return errors.Join(os.Remove(dir+"/a"), os.Symlink("/etc/passwd", dir+"/a")) },
		"deleted and back": func(dir string) error {
			return errors.Join(os.Remove(dir+"/d"), os.WriteFile(dir+"/d", []byte("old"), 0o644))
		},
		"gone, was deleted": func(dir string) error { return os.Remove(dir + "/d") },
		"new there": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/n", 0o755), os.WriteFile(dir+"/n/f", nil, 0o644))
		},
		"a link above":      func(dir string) error { return os.Symlink("/tmp", dir+"/n") },
		"a link in between": func(dir string) error { return errors.Join(os.Rename(dir+"/s", dir+"/r"), os.Symlink("r", dir+"/s")) },
		"a file in e":       func(dir string) error { return os.WriteFile(dir+"/e/x", nil, 0o644) },
		"a file in f":       func(dir string) error { return os.WriteFile(dir+"/f/y", nil, 0o644) },
		"deeper in f":       func(dir string) error { return os.WriteFile(dir+"/f/x", []byte("own"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := grown(t, things), filepath.Join(t.TempDir(), "state")
			p := mustPlan(t, dir, ops, Options{Overwrite: true})
			if len(p.Steps) != len(ops) {
				t.Fatalf("%s", planLines(p))
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			before := treetest.Text(t, dir)
			err := p.Apply(t.Context(), state)
			var conflict *tree.ConflictError
			if !errors.As(err, &conflict) || !NothingApplied(err) {
				t.Errorf("%v", err)
			}
			if got := treetest.Text(t, dir); got != before {
				t.Errorf("the tree is\n%s\nand was\n%s", got, before)
			}
		})
	}
}

// TestPatchOld: a diff shows only content that was looked at.
func TestPatchOld(t *testing.T) {
	dir := grown(t, map[string]string{"a": "old"})
	p := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), creates("b", "new")}, Options{})
	if b, err := p.Old(p.Steps[0]); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := p.Old(p.Steps[1]); err != nil || b != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, change := range []func() error{
		func() error { return os.WriteFile(dir+"/a", []byte("own"), 0o644) },
		func() error { return os.WriteFile(dir+"/a", []byte("longer"), 0o644) },
		func() error { return errors.Join(os.Remove(dir+"/a"), unix.Mkfifo(dir+"/a", 0o644)) },
		func() error { return errors.Join(os.Remove(dir+"/a"), os.Symlink("/etc/hostname", dir+"/a")) },
		func() error { return os.Remove(dir + "/a") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		var conflict *tree.ConflictError
		if b, err := p.Old(p.Steps[0]); !errors.As(err, &conflict) {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestPatchSpecial: nothing waits for a FIFO, and no FIFO is replaced.
func TestPatchSpecial(t *testing.T) {
	dir := grown(t, nil)
	if err := unix.Mkfifo(filepath.Join(dir, "f"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []pack.Operation{creates("f", "x"), modifies("f", "", "x"), deletes("f", ""), deletesFolder("f")} {
		if got := planLines(mustPlan(t, dir, []pack.Operation{o}, Options{Overwrite: true})); got != "conflict f: a special file stands there" {
			t.Errorf("%s: %s", o.Op, got)
		}
	}
}

// TestPatchNoRoom: a tree without room stays unchanged, and is patched once it has room.
func TestPatchNoRoom(t *testing.T) {
	dir, state := grown(t, nil), filepath.Join(t.TempDir(), "state")
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := treetest.Text(t, dir)
	big := strings.Repeat("x", 200<<10)
	p := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), creates("b/c", big)}, Options{})
	err := p.Apply(t.Context(), state)
	var re *result.RunError
	if !errors.As(err, &re) || !errors.Is(err, unix.ENOSPC) || !NothingApplied(err) {
		t.Errorf("%v", err)
	}
	if got := treetest.Text(t, dir); got != before {
		t.Errorf("the tree is\n%s\nand was\n%s", got, before)
	}
	if list, _ := os.ReadDir(state); len(list) > 0 {
		t.Errorf("left in the state folder: %v", list)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if err := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), creates("b/c", big)}, Options{}).Apply(t.Context(), state); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "b/c")); err != nil || string(text) != big {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestPatchNoRoomForJournal: if the state folder has no room, the error names it as the
// state folder.
func TestPatchNoRoomForJournal(t *testing.T) {
	dir, state := grown(t, map[string]string{"a": "old"}), t.TempDir()
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	before := treetest.Text(t, dir)
	err := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), creates("b", strings.Repeat("x", 200<<10))}, Options{}).Apply(t.Context(), state)
	var re *result.RunError
	if !errors.As(err, &re) || !errors.Is(err, unix.ENOSPC) || !NothingApplied(err) || JournalFault(state, err) == nil || !strings.Contains(re.Message, "the journal in the state folder") {
		t.Errorf("%v", err)
	}
	if got := treetest.Text(t, dir); got != before {
		t.Errorf("the tree is\n%s\nand was\n%s", got, before)
	}
}

// TestPatchReadOnly: a tree that cannot be written stays unchanged.
func TestPatchReadOnly(t *testing.T) {
	dir, state := grown(t, map[string]string{"a": "old"}), filepath.Join(t.TempDir(), "state")
	if os.Geteuid() == 0 {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	} else {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
	before := treetest.Text(t, dir)
	err := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), creates("b/c", "new")}, Options{}).Apply(t.Context(), state)
	var re *result.RunError
	if !errors.As(err, &re) || !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EACCES) || !NothingApplied(err) {
		t.Errorf("%v", err)
	}
	if got := treetest.Text(t, dir); got != before || JournalFault(state, err) != nil {
		t.Errorf("%v; the tree is\n%s", err, got)
	}
	if list, _ := os.ReadDir(state); len(list) > 0 {
		t.Errorf("left in the state folder: %v", list)
	}
}

// TestPatchStateInTree: journals are never kept in the tree itself.
func TestPatchStateInTree(t *testing.T) {
	dir := grown(t, nil)
	err := mustPlan(t, dir, []pack.Operation{creates("a", "new")}, Options{}).Apply(t.Context(), filepath.Join(dir, "state"))
	var re *result.RunError
	if !errors.As(err, &re) || !strings.Contains(re.Message, "lies in the folder that is written") {
		t.Errorf("%v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) > 0 {
		t.Errorf("there is %v", list)
	}
}
