//go:build amd64 || arm64

package patch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/tree/treetest"
)

// TestPatchExchanged: a plan is about the entries that it has looked at, and not about
// those that have their names later. A renamed folder takes along its files, whose own
// times do not change.
func TestPatchExchanged(t *testing.T) {
	for name, tc := range map[string]struct {
		things map[string]string
		op     pack.Operation
		move   [2]string
	}{
		"modified":                  {map[string]string{"s/a": "old", "t/a": "mine"}, modifies("s/a", "old", "new"), [2]string{"s", "t"}},
		"modified, the same":        {map[string]string{"s/a": "old", "t/a": "old"}, modifies("s/a", "old", "new"), [2]string{"s", "t"}},
		"modified, further up":      {map[string]string{"s/u/v/a": "old", "t/u/v/a": "own"}, modifies("s/u/v/a", "old", "new"), [2]string{"s", "t"}},
		"deleted":                   {map[string]string{"s/a": "old", "t/a": "mine"}, deletes("s/a", "old"), [2]string{"s", "t"}},
		"deleted, the same":         {map[string]string{"s/a": "old", "t/a": "old"}, deletes("s/a", "old"), [2]string{"s", "t"}},
		"becomes a folder":          {map[string]string{"s/a": "old", "t/a": "mine"}, creates("s/a/b", "new"), [2]string{"s", "t"}},
		"created":                   {map[string]string{"s/b": "old", "t/c": "mine"}, creates("s/a", "new"), [2]string{"s", "t"}},
		"created, folders missing":  {map[string]string{"s/b": "old", "t/c": "mine"}, creates("s/n/a", "new"), [2]string{"s", "t"}},
		"empty folder":              {map[string]string{"s/d/": "", "t/d/": ""}, deletesFolder("s/d"), [2]string{"s", "t"}},
		"empty folder, now full":    {map[string]string{"s/d/": "", "t/d/.git/HEAD": "mine"}, deletesFolder("s/d"), [2]string{"s", "t"}},
		"full folder":               {map[string]string{"s/d/x": "x", "t/d/x": "x", "t/d/y": "mine"}, deletesFolder("s/d"), [2]string{"s", "t"}},
		"full folder, the same":     {map[string]string{"s/d/x": "x", "t/d/x": "x"}, deletesFolder("s/d"), [2]string{"s", "t"}},
		"what is in a full folder":  {map[string]string{"d/e/x": "x", "t/x": "mine"}, deletesFolder("d"), [2]string{"d/e", "t"}},
		"the file itself":           {map[string]string{"a": "old", "t": "old"}, modifies("a", "old", "new"), [2]string{"a", "t"}},
		"the folder that goes":      {map[string]string{"d/": "", "t/": ""}, deletesFolder("d"), [2]string{"d", "t"}},
		"the folder, deleted":       {map[string]string{"../t/a": "old", "a": "old"}, deletes("a", "old"), [2]string{".", "../t"}},
		"the folder, created":       {map[string]string{"../t/b": "mine"}, creates("a", "new"), [2]string{".", "../t"}},
		"the folder, created in it": {map[string]string{"s/b": "b", "../t/s/b": "mine"}, creates("s/a", "new"), [2]string{".", "../t"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := grown(t, tc.things), filepath.Join(t.TempDir(), "state")
			ops := []pack.Operation{tc.op}
			if name == "becomes a folder" {
				ops = append(ops, deletes("s/a", "old"))
			}
			time.Sleep(2 * clockStep)
			p := mustPlan(t, dir, ops, Options{Overwrite: true})
			if len(p.Steps) != len(ops) {
				t.Fatalf("%s", planLines(p))
			}
			if err := treetest.Exchange(dir, tc.move[0], tc.move[1]); err != nil {
				t.Fatal(err)
			}
			wantConflict(t, p, state, filepath.Dir(dir))
		})
	}
}

// wantConflict applies a plan and demands a conflict. Everything in the folders of a tree
// and of journals must be as before.
func wantConflict(t *testing.T, p *Plan, state, around string) {
	t.Helper()
	before := treetest.Text(t, around)
	err := p.Apply(t.Context(), state)
	var conflict *tree.ConflictError
	if !errors.As(err, &conflict) || !NothingApplied(err) {
		t.Errorf("%v", err)
	}
	if got := treetest.Text(t, around); got != before {
		t.Errorf("there is\n%s\nand was\n%s", got, before)
	}
	if list, _ := os.ReadDir(state); len(list) > 0 {
		t.Errorf("left in the state folder: %v", list)
	}
}

// TestPatchFolderReplaced: if the name of the folder now leads elsewhere, nothing is put
// there.
func TestPatchFolderReplaced(t *testing.T) {
	dir, state := grown(t, map[string]string{"a": "a"}), filepath.Join(t.TempDir(), "state")
	p := mustPlan(t, dir, []pack.Operation{creates("hooks/pre-commit", "new")}, Options{})
	if err := errors.Join(os.Rename(dir, dir+".old"), os.MkdirAll(dir+".other/.git", 0o755), os.Symlink(dir+".other/.git", dir)); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, p, state, filepath.Dir(dir))
	if err := errors.Join(os.Remove(dir)); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, p, state, filepath.Dir(dir))
}

// TestPatchBeside: a change that somebody makes beside the paths of a patch is no
// conflict.
func TestPatchBeside(t *testing.T) {
	dir, state := grown(t, map[string]string{"s/a": "old", "s/d/x": "x", "s/m": "old"}), filepath.Join(t.TempDir(), "state")
	p := mustPlan(t, dir, []pack.Operation{creates("s/n/f", "new"), creates("s/o", "new"), modifies("s/a", "old", "new"), deletesFolder("s/d")}, Options{Overwrite: true})
	for name, text := range map[string]string{"own": "own", "s/own": "own", "s/m": "own"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	want := grown(t, map[string]string{"s/a": "new", "s/m": "own", "s/n/f": "new", "s/o": "new", "s/own": "own", "own": "own"})
	if got, want := treetest.Text(t, dir), treetest.Text(t, want); got != want {
		t.Errorf("the tree is\n%s\nwhich should be\n%s", got, want)
	}
}

// TestPatchLinked: a file has several names. The patch changes some of them, and one is in
// a folder that the patch removes.
func TestPatchLinked(t *testing.T) {
	dir, state := grown(t, map[string]string{"a": "old", "d/x": "x"}), filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Link(dir+"/a", dir+"/b"), os.Link(dir+"/a", dir+"/d/c"), os.Link(dir+"/a", dir+"/kept")); err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, dir, []pack.Operation{modifies("a", "old", "new"), deletes("b", "old"), deletesFolder("d")}, Options{Overwrite: true})
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if got, want := treetest.Text(t, dir), treetest.Text(t, grown(t, map[string]string{"a": "new", "kept": "old"})); got != want {
		t.Errorf("the tree is\n%s\nwhich should be\n%s", got, want)
	}
}

// TestPatchFuture: an entry that was changed while the clock was wrong is replaced like
// any other.
func TestPatchFuture(t *testing.T) {
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "tree")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	mount := func() {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("no image of a file system can be mounted here: %v: %s", err, out)
		}
	}
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("no file system can be made here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	mount()
	if err := errors.Join(os.WriteFile(dir+"/a", []byte("old"), 0o644), os.Mkdir(dir+"/d", 0o755), os.WriteFile(dir+"/d/x", []byte("x"), 0o644), unix.Unmount(dir, 0)); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour).UTC()
	for _, name := range []string{"a", "d", "d/x"} {
		if out, err := exec.Command("debugfs", "-w", "-R", "set_inode_field "+name+" ctime "+later.Format("20060102150405"), image).CombinedOutput(); err != nil {
			t.Skipf("no time of a file can be set here: %v: %s", err, out)
		}
	}
	mount()
	var st unix.Stat_t
	if err := unix.Stat(dir+"/d/x", &st); err != nil || st.Ctim.Sec < time.Now().Unix()+1800 {
		t.Skipf("the time of a file could not be set: %v, %v", st.Ctim, err)
	}
	ops := []pack.Operation{modifies("a", "old", "new"), deletesFolder("d")}
	changed := mustPlan(t, dir, ops, Options{Overwrite: true})
	if err := os.WriteFile(dir+"/d/x", []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, changed, filepath.Join(base, "state"), dir)
	if err := mustPlan(t, dir, ops, Options{Overwrite: true}).Apply(t.Context(), filepath.Join(base, "state")); err != nil {
		t.Fatal(err)
	}
	if list, err := filepath.Glob(dir + "/*"); err != nil || len(list) != 2 { // lost+found
		t.Errorf("left: %v, %v", list, err)
	}
}
