package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/screen"
)

// TestPlaces: each rule refuses the places that it is about, and no other place.
func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, name := range []string{"tree", "ledger", "out"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "key", "tree/key"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(at("out"), at("tree/link")), os.Symlink(at("file"), at("tree/to"))); err != nil {
		t.Fatal(err)
	}
	type named struct {
		is   role
		path string
	}
	met := map[[2]role]bool{}
	for _, tc := range []struct {
		of, against role
		x, y        string // y is empty for a rule about one place
		fault       string
		also        named
	}{
		{of: modelFile, against: answer, x: "out/a", y: "out/a", fault: "are one file"},
		{of: recorded, against: asked, x: "file", y: "file", fault: "are one file"},
		{of: modelFile, against: changed, x: "tree/m", y: "tree", fault: "the thing \"m\" lies in"},
		{of: modelFile, against: changed, x: "tree/to", y: "tree", fault: "leads through"},
		{of: recorded, against: packs, x: "out/p/r", y: "out/p", fault: "lies in the pack"},
		{of: alone, x: "out", fault: "is a folder"},
		{of: alone, x: "-", fault: "cannot be standard output"},
		{of: alone, against: input, x: "file", y: "file", fault: "is the intent itself"},
		{of: written, against: ledgers, x: "ledger/f", y: "ledger", fault: "lies in the folder of the ledger"},
		{of: written, against: secret, x: "key", y: "key", fault: "is the private key"},
		{of: secret, against: exposed, x: "tree/key", y: "tree", fault: "which the execution works with"},
		{of: ledgers, against: changed, x: "tree/l", y: "tree", fault: "which the execution works with"},
		{of: written | reached, x: "tree/link/f", fault: "leads through the link", also: named{guarded, "tree"}},
		{of: packs, x: "-", fault: "cannot be written to standard output"},
		{of: packs, against: kept, x: "out/p", y: "out/p/f", fault: "in each other's way"},
		{of: packs, against: worked, x: "tree/p", y: "tree", fault: "which the execution works with"},
		{of: fresh, against: alone, x: "out/r", y: "out/r", fault: "are one file"},
		{of: fresh, x: "file", fault: "is there already"},
		{of: reported, against: needed, x: "out/a", y: "out/a", fault: "are one file"},
	} {
		met[[2]role{tc.of, tc.against}] = true
		spots := func(x string) places {
			var p places
			if x != "-" {
				x = at(x)
			}
			p.add(tc.of, "--x", "thing", x)
			if tc.y != "" {
				p.add(tc.against, "--y", "other", at(tc.y))
			}
			if tc.also.path != "" {
				p.add(tc.also.is, "--also", "also", at(tc.also.path))
			}
			return p
		}
		a := &app{}
		fault := strings.ReplaceAll(tc.fault, `"m"`, `"`+screen.Path(at("tree/m"))+`"`)
		if err := a.check(spots(tc.x)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s and %s: %v, want %q", tc.x, tc.y, err, fault)
		}
		if err := a.check(spots("out/elsewhere")); err != nil {
			t.Errorf("elsewhere, and %s: %v", tc.y, err)
		}
	}
	for _, r := range rules {
		if !met[[2]role{r.of, r.against}] {
			t.Errorf("the rule of %b against %b was not met", r.of, r.against)
		}
	}
}
