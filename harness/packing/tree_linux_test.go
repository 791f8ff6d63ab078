//go:build linux && (amd64 || arm64)

package packing_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/canon"
)

// treeSum is the command that specs/pack.md gives for a folder.
const treeSum = `find -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -r0 sha256sum | sha256sum | cut -c1-64`

// TestPackedTree: a deleted folder with its content is one operation. The operation has a
// hash of the content, which a shell can compute too.
func TestPackedTree(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			work := t.TempDir()
			for path, text := range map[string]string{"a": "1", "b/c": "2", "b/a b": "3", "b/c.d": "", "ü/A": "5", "b-/x": "6"} {
				treetest.Put(t, filepath.Join(work, "out", "full", filepath.FromSlash(path)), text)
				treetest.Put(t, filepath.Join(work, "out", "linked", filepath.FromSlash(path)), text)
			}
			if err := os.MkdirAll(filepath.Join(work, "out", "empty", "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("a", filepath.Join(work, "out", "linked", "l")); err != nil {
				t.Fatal(err)
			}
			shell := exec.Command("sh", "-c", treeSum)
			shell.Dir = filepath.Join(work, "out", "full")
			sum, err := shell.Output()
			if err != nil {
				t.Fatal(err)
			}
			rep := x.Run(t, intents.Actions(intents.Sh("rm -r out/full out/linked out/empty")), harness.Folders{Work: work})
			patch, err := harnesstest.Packed(t, rep).Patch()
			if err != nil || patch == nil || len(patch.Operations) != 3 {
				t.Fatalf("%+v (%v)\n%s", patch, err, rep.Bytes)
			}
			want := map[string]canon.ContentHash{
				"out/full": canon.ContentHash("sha256:" + strings.TrimSpace(string(sum))), "out/empty": pack.TreeHash(nil), "out/linked": "",
			}
			for _, o := range patch.Operations {
				if o.Op != pack.OpDelete || o.BeforeSHA256 != "" || o.BeforeTreeSHA256 != want[o.Path] {
					t.Errorf("%+v, want %s", o, want[o.Path])
				}
			}
		})
	}
}

// TestDeletedFolderElsewhere: the removal of a folder fits a tree whose folder has what
// the run saw, and no other tree.
func TestDeletedFolderElsewhere(t *testing.T) {
	files := map[string]string{"out/full/a": "1", "out/full/b/c": "2"}
	fill := func(dir string, files map[string]string) {
		for path, text := range files {
			treetest.Put(t, filepath.Join(dir, filepath.FromSlash(path)), text)
		}
	}
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	work := t.TempDir()
	fill(work, files)
	deleted, err := harnesstest.Packed(t, x.Run(t, intents.Actions(intents.Sh("rm -r out/full")), harness.Folders{Work: work})).Patch()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(dir string) error{
		"":                func(string) error { return nil },
		"an empty folder": func(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o755) },
		"another content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644) },
		"another file":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "b", "d"), nil, 0o644) },
		"a file less":     func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"another name":    func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b", "a")) },
		"a link":          func(dir string) error { return os.Symlink("a", filepath.Join(dir, "l")) },
		"a link to a file": func(dir string) error {
			return errors.Join(os.Rename(dir+"/a", dir+"/../a"), os.Symlink("../a", dir+"/a"))
		},
	} {
		tree := t.TempDir()
		fill(tree, files)
		if err := change(filepath.Join(tree, "out", "full")); err != nil {
			t.Fatal(err)
		}
		plan, err := patch.NewPlan(tree, deleted.Operations, patch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if fits := len(plan.Conflicts) == 0; fits != (name == "" || name == "an empty folder") {
			t.Errorf("%s: %v", name, plan.Conflicts)
		} else if fits {
			if err := plan.Apply(t.Context(), t.TempDir()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if list, err := os.ReadDir(filepath.Join(tree, "out")); err != nil || len(list) > 0 {
				t.Errorf("%s: %v is left (%v)", name, list, err)
			}
		}
		if err := plan.Close(); err != nil {
			t.Error(err)
		}
	}
}
