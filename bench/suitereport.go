package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// The goals for suites.
const (
	goalSuite       = 3 * time.Second // a run at the instant agent
	goalSuiteBare   = 4.0             // of a bare loop of its requests
	goalSuiteVerify = 2.0             // of sha256sum
	goalSuiteFast   = 7.5             // times as fast, with suiteFast cases at once
	goalSuitePeak   = 128 << 10       // KiB
)

// markdown is the section of the report about suites. It stands by itself: it can be from
// another day than the rest.
func (m *suited) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Suites", onlySuite, on, m.load, quick)
	fmt.Fprintf(&b, `All folders lie on %s. The agent over HTTP is a part of the benchmark, on the same cores. Memory is
the peak of the resident memory as Linux counts it.
`, m.on)
	m.writeGoals(&b)
	m.writeInstant(&b)
	m.writeVerified(&b)
	m.writeSlow(&b)
	m.writeCommands(&b)
	m.writePeaks(&b)
	return b.Bytes()
}

func (m *suited) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	times := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≤ %.2f", limit), fmt.Sprintf("%.2f", got), got <= limit)
	}
	took := median(named(m.instant, suiteRun).walls())
	what := fmt.Sprintf("%d cases on both sides at an instant agent", m.sizes.cases)
	goal(b, what, "≤ "+seconds(goalSuite), seconds(took), took <= goalSuite)
	times("the same, of a bare loop", goalSuiteBare, ratio(m.instant, suiteRun, bareAsking))
	for _, k := range m.verified {
		times("verify "+k.what+", of `sha256sum`", goalSuiteVerify, ratio(k.runs, suiteVerify, sumWay))
	}
	fast := m.faster()
	goal(b, fmt.Sprintf("%d cases at once, times as fast as one at once", suiteFast), fmt.Sprintf("≥ %.2f", goalSuiteFast), fmt.Sprintf("%.2f", fast), fast >= goalSuiteFast)
	for _, name := range []string{m.sizes.longAnswers(), m.sizes.longFailures()} {
		peak := slices.Max(named(m.peaks, name).peaks())
		goal(b, fmt.Sprintf("peak memory, %d %s at once", suiteFast, name), "≤ "+mib(goalSuitePeak), mib(peak), peak <= goalSuitePeak)
	}
}

// faster is how many times as fast many cases at once are as one at once.
func (m *suited) faster() float64 {
	return ratio(m.slow, concurrently(1), concurrently(suiteFast))
}

func (m *suited) writeInstant(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### An instant agent

%[1]sfiador suite run%[1]s of %[2]d cases with --baseline and --new, each of which answers at once, %[3]d cases at
once. A run has a connection for each request, reads and checks each answer, redacts it, writes
and syncs a file, and syncs the name of the file in its folder. A bare loop sends the same
requests to both sides, %[3]d to each side at once, also on a connection each or on kept ones, and
reads the answers. With files, it also creates, writes and syncs one for each answer, and syncs
no folder. Before anything is timed, the run and the loop have to send the same requests.
What was written is moved away and synced outside of the measured time. Whole processes, %[4]d rounds.
`, "`", m.sizes.cases, suiteAtOnce, m.sizes.rounds)
	packTable(b, m.instant, bareAsking)
	took := median(named(m.instant, suiteRun).walls())
	fmt.Fprintf(b, "\nA case of one side takes %s. The run takes %.2f of the time of the loop with synced files.\n",
		each(took, 2*m.sizes.cases), ratio(m.instant, suiteRun, syncAsking))
}

func (m *suited) writeVerified(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Verification

%[1]sfiador suite verify%[1]s of the directories of a run, and %[1]ssha256sum%[1]s of the same files. What
starting any command of fiador takes is in its time, and stands in the table as well. Before
anything is timed, the directories have to be valid, and not with another bit in a file. The
bodies are of status 500, as long as the run keeps them. Whole processes, %[2]d rounds.
`, "`", m.sizes.rounds)
	for _, k := range m.verified {
		fmt.Fprintf(b, "\n%s: %d files, %s.\n", k.what, k.files, kilo(k.bytes))
		packTable(b, k.runs, sumWay)
	}
}

func (m *suited) writeSlow(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A slow agent

%d cases on one side at an agent that takes %s for each. If only the agent counted, the run would
take the time of the third column. Whole processes, %d rounds.

| | median | agent alone | of it | times as fast |
|---|---:|---:|---:|---:|
`, m.sizes.slow, micro(agentTakes), m.sizes.slowRounds)
	for i, n := range []int{1, suiteFast} {
		got := median(m.slow[i].walls())
		alone := time.Duration((m.sizes.slow+n-1)/n) * agentTakes
		fmt.Fprintf(b, "| %s | %s | %s | %.2f | %.2f |\n", m.slow[i].name, micro(got), micro(alone), got.Seconds()/alone.Seconds(),
			ratio(m.slow, concurrently(1), m.slow[i].name))
	}
}

func (m *suited) writeCommands(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### An agent that is a command

%[2]d cases on one side, whose agent is a shell that reads the request and prints an answer, under
the profile %[3]s. Each attempt has a sandbox of its own, and one more is set up and ended before
the first. %[1]sfiador exec --work%[1]s has the same command. Whole processes, %[4]d rounds.
`, "`", m.sizes.commands, execProfile, m.sizes.rounds)
	besides(b, m.commands, execAlone, "fiador exec")
	first := *named(m.commands, oneCommand)
	b.WriteString("\n| | a case | a case more than one |\n|---|---:|---:|\n")
	for _, name := range []string{allInTurn, allAtOnce} {
		s := named(m.commands, name)
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, each(median(s.walls()), m.sizes.commands), each(median(s.beyond(first)), m.sizes.commands-1))
	}
}

func (m *suited) writePeaks(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Large answers

%[1]d cases on one side, all at once, with the limits as they are: of a body, a run reads no more than
2 000 000 bytes and a little. An answer of many values is shorter than that, and within
the limit of values; it is read as a whole, and there is no goal for it. Whole processes, %[2]d rounds.

| | memory, median | largest | median |
|---|---:|---:|---:|
`, suiteFast, m.sizes.peaks)
	for _, s := range m.peaks {
		fmt.Fprintf(b, "| %d %s | %s | %s | %s |\n", suiteFast, s.name, mib(median(s.peaks())), mib(slices.Max(s.peaks())), micro(median(s.walls())))
	}
}
