//go:build amd64 || arm64

package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/result"
)

// TestPromoteExchanged: the written files go into the folder that the execution worked on,
// and not into the folder that has its name by then.
func TestPromoteExchanged(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		for name, move := range map[string]func(work string) error{
			"another": func(work string) error { return treetest.Exchange(work, ".", "../other") },
			"a link":  func(work string) error { return errors.Join(os.Rename(work, work+".old"), os.Symlink("other", work)) },
			"nothing": func(work string) error { return os.Rename(work, work+".old") },
		} {
			t.Run(string(isolation)+" "+name, func(t *testing.T) {
				x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), anyCommand)
				base, state := t.TempDir(), t.TempDir()
				work := filepath.Join(base, "work")
				treetest.Put(t, filepath.Join(work, "a"), "old\n")
				treetest.Put(t, filepath.Join(base, "other", "b"), "mine\n")
				p := performed(t, x, harness.Exec{Argv: script("mkdir hooks; echo new >hooks/a"), Work: work})
				if err := move(work); err != nil {
					t.Fatal(err)
				}
				before := treetest.Text(t, base)
				err := p.Promote(t.Context(), state, work, nil)
				var re *result.RunError
				if !errors.As(err, &re) || re.Code != result.CodeEvidence || !strings.Contains(re.Message, "was changed since the execution began") {
					t.Errorf("%v", err)
				}
				if got := treetest.Text(t, base); got != before {
					t.Errorf("there is\n%s\nand was\n%s", got, before)
				}
			})
		}
	}
}
