//go:build linux && (amd64 || arm64)

package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// treeSum is what specs/pack.md says to type in a folder.
const treeSum = `find -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -r0 sha256sum | sha256sum | cut -c1-64`

// TestPackedTree: a folder that was deleted with what it held is one operation, which
// says what that was, in the way that a shell can say it too.
func TestPackedTree(t *testing.T) {
	for _, isolation := range tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := newExecutor(t, newTier(t, isolation), nil)
			work := t.TempDir()
			for path, text := range map[string]string{"a": "1", "b/c": "2", "b/a b": "3", "b/c.d": "", "ü/A": "5", "b-/x": "6"} {
				put(t, filepath.Join(work, "out", "full", filepath.FromSlash(path)), text)
				put(t, filepath.Join(work, "out", "linked", filepath.FromSlash(path)), text)
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
			rep := x.run(t, actions(sh("rm -r out/full out/linked out/empty")), Folders{Work: work})
			patch, err := packed(t, rep).Patch()
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
