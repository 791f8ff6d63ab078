package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/harness/links"
)

// TestLinkMadeMeanwhile: a link replaces the folder of a file after the file was begun, or
// after its place was found. No byte is written through that link.
func TestLinkMadeMeanwhile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, outside := filepath.Join(dir, "tree"), filepath.Join(dir, "outside")
	out := filepath.Join(tree, "out")
	if err := errors.Join(os.MkdirAll(out, 0o755), os.Mkdir(outside, 0o755)); err != nil {
		t.Fatal(err)
	}
	within := []string{tree}
	name := filepath.Join(out, "report")
	begun, err := CreateFile(name, within, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	at, err := links.Place(name, within)
	if err != nil || at != name {
		t.Fatalf("the place is %q, %v", at, err)
	}
	if err := errors.Join(os.Rename(out, filepath.Join(tree, "old")), os.Symlink(outside, out)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"commit": begun.Replace(),
		"open":   second(links.OpenGuarded(filepath.Dir(at), within)),
		"create": second(CreateFile(name, within, 0o666)),
	} {
		var planted *links.PlantedError
		if !errors.As(err, &planted) || planted.Link != out {
			t.Errorf("%s: %v, want the link %q", what, err, out)
		}
	}
	for _, folder := range []string{outside, filepath.Join(tree, "old")} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s has %v, %v", folder, left, err)
		}
	}
	// Links outside of the tree belong to the caller and are followed.
	if err := WriteFile(name, []byte("x"), []string{outside}); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
