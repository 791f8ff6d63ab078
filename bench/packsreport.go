package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
)

// goalPack is the goal for verifying packs, of sha256sum over the same files.
const goalPack = 3.0

// markdown is the section of the report about packs. It stands by itself: it can be from
// another day than the rest.
func (m *packed) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `## Packs

Measured by itself with %[1]sgo run -C bench . -only packs%[1]s on %[2]s, %[3]d cores, Linux %[4]s, %[5]s,
on %[6]s, with sha256sum %[7]s. All commands of a table run in turn, round by round, in every
second round in the opposite order; a ratio is the median of the ratios of the rounds,
and the figure to look at: absolute times are those of the machine and of what else it
did. fiador uses all cores, and sha256sum one.
`, "`", on.cpu, runtime.NumCPU(), on.kernel, goProgram(), m.on, m.sums)
	if quick {
		b.WriteString("\nThis was a quick run: its figures show that everything runs, and no more.\n")
	}
	m.writeGoals(&b)
	m.writeMany(&b)
	m.writeLarge(&b)
	m.writeRepeat(&b)
	return b.Bytes()
}

func (m *packed) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	most := func(what string, runs []series) {
		got := ratio(runs, packWay, sumWay)
		goal(b, what+", of `sha256sum`", fmt.Sprintf("≤ %.2f", goalPack), fmt.Sprintf("%.2f", got), got <= goalPack)
	}
	for _, k := range m.many {
		most(fmt.Sprintf("verify %d packs, %s", m.sizes.packs, k.what), k.runs)
	}
	for _, l := range m.large {
		most(fmt.Sprintf("verify a pack of %d operations, %s each", m.sizes.operations, kilo(int64(l.content))), l.runs)
	}
}

// kilo is a number of bytes in steps of a thousand.
func kilo(n int64) string {
	if n < 1_000_000 {
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// packTable compares commands with one of them.
func packTable(b *bytes.Buffer, list []series, by string) {
	fmt.Fprintf(b, "\n| | median | min | max | CPU time | peak memory | of %s |\n|---|---:|---:|---:|---:|---:|---:|\n", by)
	for _, s := range list {
		walls, all := s.walls(), ratios(s, *named(list, by))
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %.2f (%.2f to %.2f) |\n", s.name, micro(median(walls)), micro(slices.Min(walls)),
			micro(slices.Max(walls)), micro(median(s.cpus())), mib(median(s.peaks())), median(all), slices.Min(all), slices.Max(all))
	}
}

func (m *packed) writeMany(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### %[2]d packs

Whole processes, one for all packs: %[1]sfiador pack verify P/*%[1]s, which is the strict level,
and %[1]ssha256sum P/*/*%[1]s over the same files. The packs are those of %[3]d runs, no two of one
intent, and copies of them. An executed one is of a program that was written and run and
wrote two files; a plan-only one of the intent of 1 KiB. Before anything is timed, all of
them have to be valid, and one not that has another bit in its bundle. %[4]d rounds.
`, "`", m.sizes.packs, m.sizes.distinct, m.sizes.rounds)
	for _, k := range m.many {
		fmt.Fprintf(b, "\n%d packs, %s: %d files, %s.\n", m.sizes.packs, k.what, k.files, kilo(k.bytes))
		packTable(b, k.runs, sumWay)
	}
}

func (m *packed) writeLarge(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A patch of %[1]d operations

One pack of an execution that wrote %[1]d files, and a process for it alone. What starting
any command of fiador takes is in its time, and stands in the table as well.
%[2]d rounds.
`, m.sizes.operations, m.sizes.rounds)
	for _, l := range m.large {
		fmt.Fprintf(b, "\n%d operations of %s each: %s.\n", m.sizes.operations, kilo(int64(l.content)), kilo(l.bytes))
		packTable(b, l.runs, sumWay)
	}
	b.WriteString("\nInside one process, as Go benchmarks, the middle one of five runs:\n\n| files of | step | time | MB a second | allocated |\n|---:|---|---:|---:|---:|\n")
	for _, l := range m.large {
		for _, t := range l.inside {
			fmt.Fprintf(b, "| %s | %s | %s | %.0f | %s |\n", kilo(int64(l.content)), t.what, micro(t.each), float64(l.bytes)/1e6/t.each.Seconds(), kib(t.bytes))
		}
	}
}

func (m *packed) writeRepeat(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A run and its reproduction

The intent of 1 KiB under the profile %[1]s, plan-only. To reproduce is to verify the pack,
to decide again, and to compare. %[2]d rounds.
`, profileName, m.sizes.reproduced)
	packTable(b, m.repeat, runWay)
}
