package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// The goals for comparisons.
const (
	goalCompare     = 2 * time.Second // of many cases
	goalCompareSum  = 6.0             // of sha256sum
	goalComparePeak = 200 << 10       // KiB
	goalComparePage = 3 << 20         // bytes of report.html
	goalCompareLong = time.Second     // of a pair of long traces
)

// markdown is the section of the report about comparisons. It stands by itself: it can be from
// another day than the rest.
func (m *judged) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Comparisons", onlyCompare, on, m.load, quick)
	fmt.Fprintf(&b, `All folders lie on %s. Memory is the peak of the resident memory as Linux counts it. While many cases
were compared, other processes kept %.1f of the cores busy, in the median of the rounds.
`, m.on, median(named(m.many.runs, suiteCompare).others()))
	m.writeGoals(&b)
	fmt.Fprintf(&b, `
### Both sides of a run

%[1]sfiador suite compare%[1]s of the directories of a run verifies them, judges each case, and writes
report.html, compare-report.json and an evaluation.json for each side, each of them synced. %[1]sfiador
suite verify%[1]s reads the same files and judges nothing, %[1]ssha256sum%[1]s only hashes them, and %[1]sfiador
version%[1]s is what starting any command takes. An answer is pairs of a call and its result. Of
ten cases, one has other arguments on new and one a result that is an error. Before anything is timed,
a comparison has to find these cases, and no others. Whole processes, %[2]d rounds.
`, "`", m.sizes.rounds)
	for _, k := range []comparedDirs{m.many, m.long} {
		fmt.Fprintf(&b, "\n%s: %d files, %s. report.html has %s, compare-report.json %s.\n", k.what, k.files, kilo(k.bytes), kilo(k.page), kilo(k.report))
		packTable(&b, k.runs, sumWay)
	}
	return b.Bytes()
}

func (m *judged) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	many := named(m.many.runs, suiteCompare)
	took := median(many.walls())
	goal(b, m.many.what+" on both sides", "≤ "+seconds(goalCompare), seconds(took), took <= goalCompare)
	of := ratio(m.many.runs, suiteCompare, sumWay)
	goal(b, "the same, of `sha256sum`", fmt.Sprintf("≤ %.2f", goalCompareSum), fmt.Sprintf("%.2f", of), of <= goalCompareSum)
	peak := slices.Max(many.peaks())
	goal(b, "the same, peak memory", "≤ "+mib(goalComparePeak), mib(peak), peak <= goalComparePeak)
	goal(b, "the same, report.html", "≤ "+kilo(goalComparePage), kilo(m.many.page), m.many.page <= goalComparePage)
	took = median(named(m.long.runs, suiteCompare).walls())
	goal(b, m.long.what+" on both sides", "≤ "+seconds(goalCompareLong), seconds(took), took <= goalCompareLong)
}
