package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// TestSource: the text has the size that the results name, and can stand between quotes of
// a shell.
func TestSource(t *testing.T) {
	for _, n := range append(fullPacks(1).contents, 1, 76) {
		if s := source(n); len(s) != n || strings.Contains(s, "'") {
			t.Errorf("%d bytes instead of %d: %.80q", len(s), n, s)
		}
	}
	if s := source(1000); !strings.Contains(s, "\n\t\t") || !strings.Contains(s, `"`) {
		t.Errorf("no text of a program: %q", s)
	}
}

// TestLargePacksFit: an intent and a patch of each size are within their limits.
func TestLargePacksFit(t *testing.T) {
	z := fullPacks(1)
	for _, size := range z.contents {
		if n := len(manyFilesIntent(z.operations, size)); n > canon.MaxIntentBytes {
			t.Errorf("an intent of %d bytes", n)
		}
		if n := z.operations * (size + 100); n > pack.MaxPatchBytes {
			t.Errorf("a patch of %d bytes", n)
		}
	}
}

// TestPackReport: the section has every table, and says which goals are met.
func TestPackReport(t *testing.T) {
	const ms = time.Millisecond
	s := func(name string, walls ...time.Duration) series {
		out := series{name: name}
		for _, w := range walls {
			out.samples = append(out.samples, sample{Wall: w, CPU: w, Peak: 4 << 10})
		}
		return out
	}
	m := &packed{
		sizes: fullPacks(3), on: "a file system", sums: "of somebody",
		many: []manyPacks{
			{"executed", 6000, 9_300_000, []series{s(packWay, 200*ms, 240*ms, 100*ms), s(looseWay, ms, ms, ms), s(sumWay, 100*ms, 80*ms, 100*ms)}},
			{"plan-only", 3000, 5_500_000, []series{s(packWay, 160*ms, 200*ms, 170*ms), s(sumWay, 50*ms, 50*ms, 50*ms)}},
		},
		large: []largePack{{1000, 1_470_000, []series{s(packWay, 20*ms, 20*ms, 20*ms), s(sumWay, 8*ms, 8*ms, 8*ms)}, []timing{{"verify", 10 * ms, 3 << 20, 9}}}},
		repeat: []series{
			s(runWay, 15*ms, 15*ms, 15*ms), s(againWay, 30*ms, 45*ms, 15*ms),
		},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| verify 1000 packs, executed, of `sha256sum` | ≤ 3.00 | 2.00 | met |",
		"| verify 1000 packs, plan-only, of `sha256sum` | ≤ 3.00 | 3.40 | **missed** |",
		"| verify a pack of 1000 operations, 1 KB each, of `sha256sum` | ≤ 3.00 | 2.50 | met |",
		"1000 packs, executed: 6000 files, 9.3 MB.",
		"| fiador pack verify | 200 ms | 100 ms | 240 ms | 200 ms | 4.0 MiB | 2.00 (1.00 to 3.00) |",
		"1000 operations of 1 KB each: 1.5 MB.",
		"| 1 KB | verify | 10.0 ms | 147 | 3072 KiB |",
		"| fiador reproduce | 30.0 ms | 15.0 ms | 45.0 ms | 30.0 ms | 4.0 MiB | 2.00 (1.00 to 3.00) |",
		"quick run", "on a file system, with sha256sum of somebody",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	if again := string(replaceSection([]byte("# Results\n\n"+got+"\n## After\n"), []byte(got))); again != "# Results\n\n"+got+"\n## After\n" {
		t.Errorf("the section does not replace itself: %q", again)
	}
}

// executing skips a test where nothing can be executed in the sandbox of the profile.
func executing(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("commands are executed on Linux alone")
	}
	host := sandbox.NewHost("")
	defer host.Close()
	for _, p := range host.Probe(t.Context()) {
		if p.Isolation == sandbox.Confined && p.Err != nil {
			t.Skipf("nothing can be confined here: %v", p.Err)
		}
	}
}

// TestPacksMeasured: all of the part runs, with the real programs and few packs, and only
// what is valid is timed.
func TestPacksMeasured(t *testing.T) {
	executing(t)
	for _, name := range []string{"go", "sh", sumWay} {
		find(t, name)
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own := builtForTests(t, root, dir)
	before := flag.Lookup("test.benchtime").Value.String()
	defer flag.Set("test.benchtime", before)
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		t.Fatal(err)
	}
	var r report
	z := packSizes{packs: 3, distinct: 2, operations: 5, contents: []int{1_000}, rounds: 1, reproduced: 1}
	var log bytes.Buffer
	if err := r.packing(t.Context(), own, dir, z, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m := r.packed
	if len(m.many) != 2 || len(m.large) != 1 {
		t.Fatalf("%d and %d parts", len(m.many), len(m.large))
	}
	for _, s := range slices.Concat(m.many[0].runs, m.many[1].runs, m.large[0].runs, m.repeat) {
		if len(s.samples) != 1 || s.samples[0].Wall <= 0 {
			t.Errorf("%s has %+v", s.name, s.samples)
		}
	}
	if a, b := m.many[0].files, m.many[1].files; a != 3*6 || b != 3*3 {
		t.Errorf("%d and %d files", a, b)
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	s := &packScene{scene: scene{dir: filepath.Join(dir, "packs")}, tools: own}
	if err := s.prove(t.Context(), []string{"e/0000", "p/0000"}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(s.dir, "e/0000", pack.PolicyFile)); err != nil {
		t.Fatal(err)
	}
	if err := s.prove(t.Context(), []string{"e/0000", "p/0000"}); err == nil {
		t.Error("a pack without its policy is timed")
	}
}
