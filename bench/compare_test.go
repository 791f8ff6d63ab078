package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCompareReport: the section has every table, and says which goal is missed.
func TestCompareReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, d time.Duration, mib int64) series {
		return series{name, []sample{{Wall: d, Others: d / 2, Peak: mib << 10}}}
	}
	m := &judged{
		sizes: fullCompare(9), load: "0.10", on: "ext4",
		many: comparedDirs{verifiedDirs{"1000 cases of 20 events", 2006, 10_000_000, []series{
			one(suiteCompare, 2100*ms, 200), one(suiteVerify, 400*ms, 60), one(sumWay, 350*ms, 3), one(versionWay, 6*ms, 15),
		}}, 3 << 20, 500_000},
		long: comparedDirs{verifiedDirs{"a case of 5000 events", 8, 2_000_000, []series{
			one(suiteCompare, 1000*ms, 90), one(suiteVerify, 90*ms, 60), one(sumWay, 10*ms, 3), one(versionWay, 6*ms, 15),
		}}, 90_000, 2000},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| 1000 cases of 20 events on both sides | ≤ 2.00 s | 2.10 s | **missed** |", "| the same, of `sha256sum` | ≤ 6.00 | 6.00 | met |",
		"| the same, peak memory | ≤ 200.0 MiB | 200.0 MiB | met |", "| the same, report.html | ≤ 3.1 MB | 3.1 MB | met |",
		"| a case of 5000 events on both sides | ≤ 1.00 s | 1.00 s | met |",
		"1000 cases of 20 events: 2006 files, 10.0 MB. report.html has 3.1 MB, compare-report.json 500 KB.",
		"| fiador suite compare | 1000 ms |", "lie on ext4", "kept 0.5 of the cores busy", "Whole processes, 5 rounds.", "quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
}

// TestCompareMeasured: all of the part runs with few cases.
func TestCompareMeasured(t *testing.T) {
	find(t, sumWay)
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	z := quickCompare()
	if err := r.compare(t.Context(), builtForTests(t, root, dir), dir, z, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for _, of := range []struct {
		comparedDirs
		cases int
	}{{r.judged.many, z.cases}, {r.judged.long, 1}} {
		// A directory has its cases, run.json, the manifest and the cases of the run.
		if want := 2 * (of.cases + 3); of.files != want || of.page == 0 || of.report == 0 || len(of.runs) != 4 {
			t.Errorf("%d files instead of %d, a page of %d bytes, a report of %d, %d ways", of.files, want, of.page, of.report, len(of.runs))
		}
		for _, s := range of.runs {
			if len(s.samples) != z.rounds || slices.Min(s.walls()) <= 0 || slices.Min(s.peaks()) <= 0 {
				t.Errorf("%s has %+v", s.name, s.samples)
			}
		}
	}
}
