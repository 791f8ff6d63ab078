package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
)

func TestReplaceSection(t *testing.T) {
	const section = "## Sandbox\n\nnew\n"
	for _, tc := range []struct{ name, text, want string }{
		{"absent", "# Results\n\ntext\n", "# Results\n\ntext\n\n" + section},
		{"last", "# Results\n\n## Sandbox\n\nold\n\n### Part\n", "# Results\n\n" + section},
		{"between", "# Results\n\n## Sandbox\n\nold\n\n## After\n\nx\n", "# Results\n\n" + section + "\n## After\n\nx\n"},
		{"a longer heading", "# Results\n\n## Sandboxes\n", "# Results\n\n## Sandboxes\n\n" + section},
	} {
		got := string(replaceSection([]byte(tc.text), []byte(section)))
		if got != tc.want {
			t.Errorf("%s: %q", tc.name, got)
		}
		if again := string(replaceSection([]byte(got), []byte(section))); again != got {
			t.Errorf("%s: the second time %q", tc.name, again)
		}
	}
}

// TestManyRuns: resources that are left behind are counted apart from those that the
// runtime keeps, and a slow machine does not count as growth.
func TestManyRuns(t *testing.T) {
	m := manyRuns{Before: holdings{Descriptors: 9, Threads: 4}, After: holdings{Descriptors: 11, Threads: 7, Mounts: 1}}
	if got := m.left(); got != 3 {
		t.Errorf("%d left", got)
	}
	for i := range 200 {
		slow := time.Duration(1 + i/100)
		m.Plain, m.Times = append(m.Plain, slow*time.Millisecond), append(m.Times, 6*slow*time.Millisecond)
	}
	if first, last := m.ends(); first != 6 || last != 6 {
		t.Errorf("%v and then %v times a plain command", first, last)
	}
}

// TestConfinedReport: the section has every table, whichever user was measured.
func TestConfinedReport(t *testing.T) {
	s := func(names ...string) []series {
		list := make([]series, len(names))
		for i, name := range names {
			list[i] = series{name, []sample{{Wall: time.Duration(i+1) * time.Millisecond}}}
		}
		return list
	}
	parts := make([]time.Duration, len(treeParts()))
	u := confinedUser{
		name: "somebody", loop: s(plainWay, wrappedWay, stagedWay, confinedWay), processes: s(plainWay, wrappedWay),
		trees: treeRuns{[]treeSeries{{stagedWay, [][]time.Duration{parts}}}, []time.Duration{1}},
		many:  []manyRuns{{Name: stagedWay, Times: []time.Duration{1}, Plain: []time.Duration{1}}},
		light: s(plainWay), heavy: s(plainWay),
	}
	u.clauses[1] = []evidence.Clause{{Clause: "files", Mechanism: "Landlock", Status: evidence.Partial}}
	got := string((&confined{sizes: quickConfined(), users: []confinedUser{u}}).markdown(machine{}, true))
	for _, want := range []string{
		"| full isolation with staging, of bubblewrap, as somebody | ≤ 1.60 | 1.50 | met |",
		"| the same, further goal | ≤ 1.00 | 1.50 | **missed** |",
		"| confined, of a plain command, as somebody | ≤ 2.00 | 4.00 | **missed** |",
		"- full: nothing\n- confined: files (partial: Landlock)", "quick run", "cp -a",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
}

// TestLoop: every way runs here, as the user who runs the test.
func TestLoop(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	if runtime.GOOS != "linux" {
		t.Skip("sandboxes are started on Linux")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // root's commands have another id
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	x, err := newExecutor(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer x.host.Close()
	u := user{id: os.Geteuid(), dir: dir}
	if err := u.prepare(); err != nil {
		t.Fatal(err)
	}
	for _, p := range x.host.Probe(t.Context()) {
		if p.Err != nil {
			t.Skipf("%s isolation cannot be had: %v", p.Isolation, p.Err)
		}
	}
	before, err := os.ReadDir(filepath.Join(dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := x.loop(job{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
		if len(s.Times) != 1 || s.Times[0] <= 0 {
			t.Errorf("%s took %v", s.Name, s.Times)
		}
	}
	for _, want := range []string{plainWay, wrappedWay, stagedWay, emptyWay, directWay, confinedWay} {
		if !slices.Contains(names, want) {
			t.Errorf("%s was not run", want)
		}
	}
	after, err := os.ReadDir(filepath.Join(dir, "work"))
	if err != nil || len(after) != len(before) {
		t.Errorf("the folder has %v after %v: %v", after, before, err)
	}
}
