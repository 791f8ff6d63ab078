package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// The goals for work items.
const (
	goalState    = 3.0 // of git status
	goalItemCp   = 0.5 // of a copy of the tree
	goalItemExec = 6.0 // of the same command by fiador exec
	goalEven     = 0.2 // by how much the last items of a plan differ from the first
)

// markdown is the section of the report about work items. It stands by itself: it can be from
// another day than the rest.
func (m *worked) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Work", onlyWork, on, m.load, quick)
	fmt.Fprintf(&b, "All folders and stores lie on %s. Commands run under the profile %s.\n", m.on, execProfile)
	m.writeGoals(&b)
	m.writeStates(&b)
	m.writeItem(&b)
	m.writePlan(&b)
	m.writeLevel(&b)
	return b.Bytes()
}

func (m *worked) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	times := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≤ %.2f", limit), fmt.Sprintf("%.2f", got), got <= limit)
	}
	if m.git != "" {
		times("the state of the tree with the index, of `git status`", goalState, ratio(m.states, warmState, gitStatus))
	}
	times("an item that edits 7 files, of `cp -a` of the tree", goalItemCp, ratio(m.items, itemRun, treeCp))
	times("an item that edits 7 files, of `fiador exec`", goalItemExec, ratio(m.items, itemRun, execRun))
	fifth := m.sizes.items / 5
	for i, what := range []string{"begun", "applied"} {
		got := m.growth(i)
		goal(b, fmt.Sprintf("the last %d items of a plan, of the first %d, %s", fifth, fifth, what),
			fmt.Sprintf("%.2f to %.2f", 1-goalEven, 1+goalEven), fmt.Sprintf("%.2f", got), got >= 1-goalEven && got <= 1+goalEven)
	}
}

func (m *worked) writeStates(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### The state of a tree

%[2]d files in %[3]d folders, %[4]s, all in the page cache; nothing has changed. %[1]sfiador work
state%[1]s without an index reads every file, and with it looks at each. %[1]sgit status --porcelain%[1]s has a
repository beside the tree in which everything is committed. b3sum hashes every file. Whole
processes, %[5]d rounds.
`, "`", m.sizes.files, m.folders, size(int(m.bytes)), m.sizes.rounds)
	if m.git == "" {
		b.WriteString("\nNot measured: `git` was not in PATH.\n")
	} else {
		fmt.Fprintf(b, "git is %s.\n", m.git)
	}
	if m.b3sum == "" {
		b.WriteString("\nNot measured: `b3sum` (of the Debian package b3sum) was not in PATH.\n")
	} else {
		fmt.Fprintf(b, "b3sum is %s.\n", m.b3sum)
	}
	by, what := gitStatus, "git status"
	if m.git == "" {
		by, what = coldState, "the first"
	}
	besides(b, m.states, by, what)
}

func (m *worked) writeItem(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### One item

%[1]sfiador work run --rerun%[1]s of one item on that tree. Its agent is a shell that adds a line to %[2]d
files which lie far from one another; there is no test. The item reads the state of the tree
when it begins, before the change is applied and after it, and leaves a receipt.
%[1]sfiador exec --work%[1]s has the same command and applies what it wrote. %[1]scp -a%[1]s copies the tree into a
new folder. Outside of the measured time it is synced, and at the end all copies are removed.
An ext4 without a journal passes over the inodes of files that were removed in the last six
minutes: then copies take many times as long, and say nothing. Whole processes, %[3]d rounds.
`, "`", workEdited, m.sizes.edits)
	besides(b, m.items, execRun, "fiador exec")
}

// fifths returns the mean time between two items of the first fifth and of the last one.
func fifths(at []time.Duration) (first, last time.Duration) {
	n := len(at) / 5
	mean := func(list []time.Duration) time.Duration { return (list[n-1] - list[0]) / time.Duration(n-1) }
	return mean(at[:n]), mean(at[len(at)-n:])
}

// of returns when the items have begun (0), or were applied (1).
func (p planRun) of(i int) []time.Duration { return [][]time.Duration{p.begun, p.applied}[i] }

// growth is the last fifth of the items over the first, as planRun.of has them.
func (m *worked) growth(i int) float64 {
	var list []float64
	for _, p := range m.plans {
		first, last := fifths(p.of(i))
		list = append(list, float64(last)/float64(max(first, 1)))
	}
	return median(list)
}

func (m *worked) writePlan(b *bytes.Buffer) {
	var walls, each []time.Duration
	for _, p := range m.plans {
		walls = append(walls, p.wall)
		each = append(each, p.wall/time.Duration(m.sizes.items))
	}
	fmt.Fprintf(b, `
### A long plan

%[1]d items with one write each, in one level, in a new folder with a new store, %[2]d runs. All
items of a level begin and perform first, as many at once as there are cores; then they are
judged and applied one by one, each with a receipt. An item has begun when its receipt says so,
and is applied when its result is printed. A time of the table is that from one item to the
next, in the mean over the first %[3]d and the last %[3]d. The folder grows with the plan: before and after
each change, every file of it is looked at, and read again if it is younger than two seconds.

The whole plan takes %[4]s (%[5]s to %[6]s), and so an item %[7]s.

| an item | the first %[3]d | the last %[3]d | of the first |
|---|---:|---:|---:|
`, m.sizes.items, len(m.plans), m.sizes.items/5, seconds(median(walls)), seconds(slices.Min(walls)), seconds(slices.Max(walls)), micro(median(each)))
	for i, what := range []string{"begun", "applied"} {
		var firsts, lasts []time.Duration
		for _, p := range m.plans {
			first, last := fifths(p.of(i))
			firsts, lasts = append(firsts, first), append(lasts, last)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %.2f |\n", what, micro(median(firsts)), micro(median(lasts)), m.growth(i))
	}
}

func (m *worked) writeLevel(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A level of agents

%d items in one level, whose agents sleep %s and change nothing. If only the sleep counted, the
level would take the time of the third column. Whole processes, %d rounds.

| | median | sleep alone | of it | more, an item |
|---|---:|---:|---:|---:|
`, m.sizes.agents, micro(sleeps), m.sizes.levels)
	for i, jobs := range workJobs() {
		got := median(m.levels[i].walls())
		turns := (m.sizes.agents + jobs - 1) / jobs
		alone := time.Duration(turns) * sleeps
		fmt.Fprintf(b, "| %s | %s | %s | %.2f | %s |\n", m.levels[i].name, micro(got), micro(alone), got.Seconds()/alone.Seconds(), micro((got-alone)/time.Duration(m.sizes.agents)))
	}
}
