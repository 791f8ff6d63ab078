package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSuiteReport: the section has every table, and says which goal is missed.
func TestSuiteReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, d time.Duration) series { return series{name, []sample{{Wall: d, Peak: 1 << 10}}} }
	peak := func(name string, list ...int64) series {
		s := series{name: name}
		for _, mib := range list {
			s.samples = append(s.samples, sample{Wall: ms, Peak: mib << 10})
		}
		return s
	}
	z := fullSuite(9)
	m := &suited{
		sizes: z, load: "0.10", on: "ext4",
		instant: []series{one(suiteRun, 3200*ms), one(bareAsking, 800*ms), one(keptAsking, 400*ms), one(syncAsking, 1600*ms)},
		verified: []verifiedDirs{
			{"1000 answers on both sides", 2006, 2_000_000, []series{one(suiteVerify, 60*ms), one(sumWay, 20*ms), one(versionWay, 6*ms)}},
			{"100 failures with bodies of 2.0 MB", 303, 200_000_000, []series{one(suiteVerify, 300*ms), one(sumWay, 200*ms), one(versionWay, 6*ms)}},
		},
		slow:     []series{one(concurrently(1), 8400*ms), one(concurrently(suiteFast), 1050*ms)},
		commands: []series{one(oneCommand, 50*ms), one(allInTurn, 830*ms), one(allAtOnce, 440*ms), one(execAlone, 20*ms)},
		peaks:    []series{peak(z.longAnswers(), 90, 128, 80), peak(z.longFailures(), 90, 129, 80), peak(z.manyValues(), 300, 400, 200)},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| 1000 cases on both sides at an instant agent | ≤ 3.00 s | 3.20 s | **missed** |",
		"| the same, of a bare loop | ≤ 4.00 | 4.00 | met |",
		"| verify 1000 answers on both sides, of `sha256sum` | ≤ 2.00 | 3.00 | **missed** |",
		"| verify 100 failures with bodies of 2.0 MB, of `sha256sum` | ≤ 2.00 | 1.50 | met |",
		"| 8 cases at once, times as fast as one at once | ≥ 7.50 | 8.00 | met |",
		"| peak memory, 8 answers of 50 MB at once | ≤ 128.0 MiB | 128.0 MiB | met |",
		"| peak memory, 8 failures with bodies of 50 MB at once | ≤ 128.0 MiB | 129.0 MiB | **missed** |",
		"| a bare loop, connections kept | 400 ms | 400 ms | 400 ms |",
		"A case of one side takes 1.60 ms. The run takes 2.00 of the time of the loop with synced files.",
		"1000 answers on both sides: 2006 files, 2.0 MB.", "100 failures with bodies of 2.0 MB: 303 files, 200.0 MB.",
		"| --concurrency 1 | 8400 ms | 8000 ms | 1.05 | 1.00 |", "| --concurrency 8 | 1050 ms | 1000 ms | 1.05 | 8.00 |",
		"| fiador suite run, one case | 50.0 ms | 50.0 ms | 50.0 ms | 30.0 ms | 2.50 |",
		"| fiador suite run, one after another | 20.8 ms | 20.0 ms |", "| fiador suite run, four at once | 11.0 ms | 10.0 ms |",
		"| 8 answers of 190000 values | 300.0 MiB | 400.0 MiB | 1.00 ms |",
		"lie on ext4", "quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
}

// TestSuiteMeasured: all of the part runs with few cases.
func TestSuiteMeasured(t *testing.T) {
	executing(t)
	for _, name := range []string{sumWay, "sh", "cat", "sync"} {
		find(t, name)
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	if err := r.suite(t.Context(), builtForTests(t, root, dir), dir, quickSuite(), &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m, z := r.suited, quickSuite()
	if len(m.verified) != 2 {
		t.Fatalf("%d kinds of directories", len(m.verified))
	}
	for _, of := range []struct {
		list         []series
		ways, rounds int
	}{
		{m.instant, 4, z.rounds}, {m.verified[0].runs, 3, z.rounds}, {m.verified[1].runs, 3, z.rounds},
		{m.slow, 2, z.slowRounds}, {m.commands, 4, z.rounds}, {m.peaks, 3, z.peaks},
	} {
		if len(of.list) != of.ways {
			t.Fatalf("%d ways", len(of.list))
		}
		for _, s := range of.list {
			if len(s.samples) != of.rounds || slices.Min(s.walls()) <= 0 || slices.Min(s.peaks()) <= 0 {
				t.Errorf("%s has %+v", s.name, s.samples)
			}
		}
	}
	// A directory has its cases, run.json, the manifest and the cases of the run.
	if got, want := m.verified[0].files, 2*(z.cases+3); got != want {
		t.Errorf("the answers have %d files instead of %d", got, want)
	}
	// A failed case also has its body, and what describes it.
	if v := m.verified[1]; v.files != 3*z.failed+3 || v.bytes < int64(z.failed*z.failedBytes) {
		t.Errorf("the failures have %d files of %d bytes", v.files, v.bytes)
	}
	if alone := time.Duration(z.slow) * agentTakes; slices.Min(m.slow[0].walls()) < alone {
		t.Errorf("one case at once takes less than the agent: %v", m.slow[0].walls())
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("the section says:\n%s", got)
	}
}
