package cli

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
		is   Role
		path string
	}
	met := map[[2]Role]bool{}
	for _, tc := range []struct {
		of, against Role
		x, y        string // y is empty for a rule about one place
		fault       string
		also        named
	}{
		{of: ModelFile, against: Answer, x: "out/a", y: "out/a", fault: "are one file"},
		{of: Recorded, against: Asked, x: "file", y: "file", fault: "are one file"},
		{of: ModelFile, against: Changed, x: "tree/m", y: "tree", fault: "the thing \"m\" lies in"},
		{of: ModelFile, against: Changed, x: "tree/to", y: "tree", fault: "leads through"},
		{of: Recorded, against: Packs, x: "out/p/r", y: "out/p", fault: "lies in the pack"},
		{of: Alone, x: "out", fault: "is a folder"},
		{of: Alone, x: "-", fault: "cannot be standard output"},
		{of: Alone, against: Input, x: "file", y: "file", fault: "is the intent itself"},
		{of: Written, against: Ledgers, x: "ledger/f", y: "ledger", fault: "lies in the folder of the ledger"},
		{of: Written, against: Secret, x: "key", y: "key", fault: "is the private key"},
		{of: Secret, against: Exposed, x: "tree/key", y: "tree", fault: "which the execution works with"},
		{of: Registry, against: Guarded | Changed, x: "tree/t", y: "tree", fault: "could change the tools"},
		{of: Ledgers, against: Changed, x: "tree/l", y: "tree", fault: "which the execution works with"},
		{of: Written | Reached, x: "tree/link/f", fault: "leads through the link", also: named{Guarded, "tree"}},
		{of: Packs, x: "-", fault: "cannot be written to standard output"},
		{of: Packs, against: Kept, x: "out/p", y: "out/p/f", fault: "in each other's way"},
		{of: Packs, against: Worked, x: "tree/p", y: "tree", fault: "which the execution works with"},
		{of: Fresh, against: Alone, x: "out/r", y: "out/r", fault: "are one file"},
		{of: Fresh, x: "file", fault: "is there already"},
		{of: Reported, against: Needed, x: "out/a", y: "out/a", fault: "are one file"},
	} {
		met[[2]Role{tc.of, tc.against}] = true
		spots := func(x string) Places {
			var p Places
			if x != "-" {
				x = at(x)
			}
			p.Add(tc.of, "--x", "thing", x)
			if tc.y != "" {
				p.Add(tc.against, "--y", "other", at(tc.y))
			}
			if tc.also.path != "" {
				p.Add(tc.also.is, "--also", "also", at(tc.also.path))
			}
			return p
		}
		a := &App{}
		fault := strings.ReplaceAll(tc.fault, `"m"`, `"`+screen.Path(at("tree/m"))+`"`)
		if err := a.CheckPlaces(spots(tc.x)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s and %s: %v, want %q", tc.x, tc.y, err, fault)
		}
		if err := a.CheckPlaces(spots("out/elsewhere")); err != nil {
			t.Errorf("elsewhere, and %s: %v", tc.y, err)
		}
	}
	for _, r := range rules {
		if !met[[2]Role{r.of, r.against}] {
			t.Errorf("the rule of %b against %b was not met", r.of, r.against)
		}
	}
}
