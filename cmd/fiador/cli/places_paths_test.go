package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBeneath: the place of a file is found through links, even for an absent file.
func TestBeneath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gate", "gate/deep", "gate-2"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "gate", "deep": "gate/deep", "out": "gate-2"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"gate": true, "gate/": true, "gate/x": true, "gate/x/y/z": true, "link/x": true, "deep/x": true, "deep": true, "gate-2/../gate/x": true,
		"x": false, "gate-2/x": false, "gate.key": false, "out/x": false, "gate/../x": false, "..": false, ".": false, "gate/..x": true,
	} {
		for _, ledger := range []string{"gate", "link"} {
			got, err := Beneath(filepath.Join(dir, ledger), dir+"/"+name)
			if err != nil || got != want {
				t.Errorf("%s in %s: %v, %v", name, ledger, got, err)
			}
		}
	}
}
