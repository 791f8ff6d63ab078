//go:build unix

package compare_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness/suite/compare"
)

// TestWithin: what a path leads to counts, and not how it is written.
func TestWithin(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.MkdirAll("out/new/r", 0o777), os.MkdirAll("other/r", 0o777), os.Symlink("../other", "out/baseline"), os.Symlink("out", "link"), os.Symlink("nowhere", "out/dangling")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, place, at string
		in                bool
	}{
		{"out", "out/new/r", "new/r", true}, {"out", filepath.Join(dir, "out/new/r"), "new/r", true}, {filepath.Join(dir, "out"), "out/new/r", "new/r", true}, {"link", "out/new/r", "new/r", true}, {"out", "link/new", "new", true},
		{"out", "out", ".", true}, {"out/", "./out/../out/not/there", "not/there", true}, {"out", "out/baseline/r", "", false}, {"other", "out/baseline/r", "r", true}, {"out", "other", "", false}, {"out", "out2", "", false},
		{"out/new", "out", "", false}, {"not/there", "not/there/x", "x", true}, {"not/there", "not/the", "", false}, {"out", "out/dangling/x", "", false}, {"out", "", "", false}, {".", "", ".", true},
	} {
		at, in := compare.Within(c.folder, c.place)
		if in != c.in || in && at != filepath.FromSlash(c.at) {
			t.Errorf("%q in %q: %q, %t; want %q, %t", c.place, c.folder, at, in, c.at, c.in)
		}
	}
}
