package workspace

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
)

// TestPortableVectors: the scan of other systems gives the states of the vectors, and so does the
// one of this system.
func TestPortableVectors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no executable bit, and so no states")
	}
	src, err := os.ReadFile("../../specs/vectors/state/trees.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, State string
		Entries     []struct{ Path, Mode, Content, Target string }
	}
	if err := json.Unmarshal(src, &vectors); err != nil || len(vectors) < 10 {
		t.Fatal(len(vectors), err)
	}
	for _, v := range vectors {
		dir := t.TempDir()
		err := os.MkdirAll(filepath.Join(dir, "empty/empty"), 0o755)
		for _, e := range v.Entries {
			name := filepath.Join(dir, e.Path)
			err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755))
			switch e.Mode {
			case "120000":
				err = errors.Join(err, os.Symlink(e.Target, name))
			case "100755":
				err = errors.Join(err, os.WriteFile(name, []byte(e.Content), 0o700))
			default:
				err = errors.Join(err, os.WriteFile(name, []byte(e.Content), 0o600))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		portable, err := scanPortable(t.Context(), dir, Options{Nodes: map[receipt.Hash][]byte{}})
		own, ownErr := Scan(t.Context(), dir, Options{})
		if err != nil || ownErr != nil || portable != own || own.Hash.String() != v.State {
			t.Errorf("%s: %+v and %+v, %v, %v, want %s", v.Name, portable, own, err, ownErr, v.State)
		}
	}
}

// TestPortableRefuses: what no state has is an error with its path.
func TestPortableRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no executable bit, and so no states")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a\xff"), nil, 0o600); err != nil {
		t.Skip(err)
	}
	_, err := scanPortable(t.Context(), dir, Options{})
	if e, ok := errors.AsType[*Error](err); !ok || e.Path != "a\xff" {
		t.Errorf("%v", err)
	}
	if _, err := scanPortable(t.Context(), filepath.Join(dir, "none"), Options{}); err == nil {
		t.Error("a folder that is not there has a state")
	}
}
