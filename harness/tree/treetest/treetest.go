// Package treetest has the fixtures of tests about trees that change: the text of a tree,
// and a change that somebody else makes meanwhile. Tests alone import it.
package treetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Text returns everything in a folder as text: names, modes, contents.
func Text(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%q %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %q", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Exchange renames a to a.old, and b to a, both beneath dir.
func Exchange(dir, a, b string) error {
	return errors.Join(os.Rename(filepath.Join(dir, a), filepath.Join(dir, a)+".old"), os.Rename(filepath.Join(dir, b), filepath.Join(dir, a)))
}
