package main

import (
	"bytes"
	"flag"
	"go/doc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updatePackages = flag.Bool("update-packages", false, "write the table of packages in docs/packages.md")

// The largest size of a room, which one person can read in one sitting.
const (
	roomLines = 1500
	roomFiles = 15
)

// large are the packages that are larger than a room, with the lines that each may have,
// without tests. RATIONALE.md ("Rooms") says why each is.
var large = map[string]int{
	"cmd/fiador/cli": 1800, "cmd/fiador/ledgercmd": 2920, "cmd/fiador/policycmd": 2000, "cmd/fiador/runcmd": 2860, "cmd/fiador/suitecmd": 1520, "evidence/pack": 2000, "evidence/pack/verify": 3800, "evidence/report": 2500, "harness": 2390, "harness/command": 1700, "harness/execute": 2020, "harness/gate": 2200,
	"harness/conformance": 2000, "harness/sandbox": 4000, "harness/sandbox/initproc": 1910, "harness/tree": 2400, "harness/workflow": 1600,
	"kernel": 2280, "kernel/canon": 2450, "ledger": 3580, "ledger/disk": 3330, "policy": 4000, "specs": 2800,
}

// TestRooms: a package is not larger than one room, or than its entry in large. Its
// comment says what the package owns.
func TestRooms(t *testing.T) {
	t.Parallel()
	for pkg := range imports(t) {
		lines, files := 0, 0
		names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(b, []byte("\n"))
			files++
		}
		most, known := large[pkg]
		switch {
		case known && lines > most:
			t.Errorf("%s has %d lines, and may have %d: it does not grow", pkg, lines, most)
		case known && lines <= roomLines && files <= roomFiles:
			t.Errorf("%s is a room by now: it needs no exception", pkg)
		case !known && (lines > roomLines || files > roomFiles):
			t.Errorf("%s has %d lines in %d files, and a room has at most %d in %d", pkg, lines, files, roomLines, roomFiles)
		}
		if packageDoc(t, pkg) == "" {
			t.Errorf("%s has no comment that says what the package owns", pkg)
		}
	}
}

// TestPackagesPage: docs/packages.md has the packages and the first sentence of each one's
// comment, in the order of their imports.
func TestPackagesPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Packages\n\nA package imports packages that stand above it in this table alone. The second column is the first sentence of\nthe package's comment (`go doc`), which says the rest. `bench` is a module of its own.\n\n| package | what it is or does |\n|---|---|\n")
	for _, level := range levels {
		for _, pkg := range slices.Sorted(strings.FieldsSeq(level)) {
			said := (&doc.Package{}).Synopsis(packageDoc(t, pkg))
			_, said, _ = strings.Cut(said, " "+filepath.Base(pkg)+" ")
			b.WriteString("| `" + pkg + "` | " + said + " |\n")
		}
	}
	page := filepath.Join(root, "docs", "packages.md")
	if *updatePackages {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != b.String() {
		t.Errorf("docs/packages.md is not what the packages say (%v): go test ./cmd/fiador -run PackagesPage -update-packages writes it", err)
	}
}

// packageDoc returns the comment of a package, or empty.
func packageDoc(t *testing.T, pkg string) string {
	t.Helper()
	var said string
	for _, f := range parseComments(t, pkg) {
		if f.Doc != nil {
			said = strings.TrimSpace(f.Doc.Text())
		}
	}
	return said
}

// TestActingPackages: the packages that act on files and processes are imported only by
// packages that put effects in order.
func TestActingPackages(t *testing.T) {
	t.Parallel()
	acting := map[string]string{
		"harness/patch":            "cmd/fiador/applycmd cmd/fiador/cli/folders cmd/fiador/runcmd harness harness/execute harness/gitbranch",
		"harness/tree":             "cmd/fiador/applycmd cmd/fiador/cli/folders cmd/fiador/workcmd harness/execute harness/patch harness/remote/worker harness/sandbox harness/workspace", // fiador apply --recover ends a killed apply
		"harness/sandbox/cgroup":   "harness/sandbox",
		"harness/sandbox/initproc": "harness/sandbox",
		"harness/sandbox/proxy":    "harness/sandbox",
	}
	importers := map[string][]string{}
	for pkg, list := range imports(t) {
		for _, p := range list {
			p = strings.TrimPrefix(p, module+"/")
			importers[p] = append(importers[p], pkg)
		}
	}
	for pkg, want := range acting {
		slices.Sort(importers[pkg])
		if got := strings.Join(importers[pkg], " "); got != want {
			t.Errorf("%s is imported by %q, and should be by %q alone", pkg, got, want)
		}
	}
}
