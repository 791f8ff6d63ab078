package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWorkReport: the section has every table, and says which goal is missed.
func TestWorkReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, d time.Duration) series { return series{name, []sample{{Wall: d}}} }
	// every gives when ten items happen of which the last two are apart by last.
	every := func(first, last time.Duration) []time.Duration {
		return []time.Duration{0, first, 20 * ms, 30 * ms, 40 * ms, 50 * ms, 60 * ms, 70 * ms, 80 * ms, 80*ms + last}
	}
	m := &worked{
		sizes: workSizes{files: 10000, rounds: 7, edits: 5, items: 10, plans: 3, agents: 16, levels: 3},
		load:  "0.10", on: "ext4", folders: 1400, bytes: 30_000_000, git: "2.39.5", b3sum: "1.2.0",
		states: []series{one(coldState, 90*ms), one(warmState, 62*ms), one(gitStatus, 20*ms), one(allHashed, 80*ms)},
		items:  []series{one(itemRun, 250*ms), one(execRun, 50*ms), one(treeCp, 400*ms)},
		plans: []planRun{
			{time.Second, every(10*ms, 12*ms), every(10*ms, 30*ms)},
			{2 * time.Second, every(10*ms, 10*ms), every(10*ms, 13*ms)},
			{4 * time.Second, every(10*ms, 90*ms), every(10*ms, 10*ms)},
		},
		levels: []series{one("--jobs 1", 1920*ms), one("--jobs 2", time.Second), one("--jobs 8", 360*ms)},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| the state of the tree with the index, of `git status` | ≤ 3.00 | 3.10 | **missed** |",
		"| an item that edits 7 files, of `cp -a` of the tree | ≤ 0.50 | 0.62 | **missed** |",
		"| an item that edits 7 files, of `fiador exec` | ≤ 6.00 | 5.00 | met |",
		"| the last 2 items of a plan, of the first 2, begun | 0.80 to 1.20 | 1.20 | met |",
		"| the last 2 items of a plan, of the first 2, applied | 0.80 to 1.20 | 1.30 | **missed** |",
		"10000 files in 1400 folders, 30 MB", "git is 2.39.5.", "b3sum is 1.2.0.",
		"| find, xargs, b3sum | 80.0 ms | 80.0 ms | 80.0 ms | 60.0 ms | 4.00 |",
		"| cp -a of the tree | 400 ms | 400 ms | 400 ms | 350 ms | 8.00 |",
		"The whole plan takes 2.00 s (1.00 s to 4.00 s), and so an item 200 ms.",
		"| begun | 10.0 ms | 12.0 ms | 1.20 |", "| applied | 10.0 ms | 13.0 ms | 1.30 |",
		"| --jobs 1 | 1920 ms | 1600 ms | 1.20 | 20.0 ms |", "| --jobs 8 | 360 ms | 200 ms | 1.80 | 10.0 ms |",
		"lie on ext4", "quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	m.git, m.b3sum, m.states = "", "", m.states[:2]
	if got := string(m.markdown(machine{}, false)); strings.Count(got, "Not measured") != 2 || strings.Contains(got, "of `git status`") {
		t.Errorf("without git and b3sum:\n%s", got)
	}
}

// TestWorkMeasured: all of the part runs on a small tree, as far as its programs are there.
func TestWorkMeasured(t *testing.T) {
	for _, name := range []string{"sh", "cp", "sync", "sleep"} {
		find(t, name)
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	if err := r.work(t.Context(), builtForTests(t, root, dir), dir, quickWork(), &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m, z := r.worked, quickWork()
	for _, of := range []struct {
		list          []series
		least, rounds int
	}{{m.states, 2, z.rounds}, {m.items, 3, z.edits}, {m.levels, 3, z.levels}} {
		if len(of.list) < of.least {
			t.Fatalf("%d ways", len(of.list))
		}
		for _, s := range of.list {
			if len(s.samples) != of.rounds || slices.Min(s.walls()) <= 0 {
				t.Errorf("%s has %+v", s.name, s.samples)
			}
		}
	}
	if len(m.plans) != z.plans {
		t.Fatalf("%d plans", len(m.plans))
	}
	for _, p := range m.plans {
		for _, at := range [][]time.Duration{p.begun, p.applied} {
			if len(at) != z.items || !slices.IsSorted(at) || at[len(at)-1] > p.wall {
				t.Errorf("items at %v of %s", at, p.wall)
			}
		}
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("the section says:\n%s", got)
	}
}
