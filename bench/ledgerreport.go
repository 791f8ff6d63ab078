package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The goals for the ledger.
const (
	goalAppend = 3.0  // of an empty Go program
	goalFlat   = 1.10 // an append to the largest ledger, of one to the smallest
	goalCrowd  = 0.30 // of the rate of empty Go programs
	goalQuick  = 1500 * time.Millisecond
	goalVerify = 8 * time.Second
	goalProve  = 5 * time.Millisecond
	goalBytes  = 1.25 // of the bytes of entries, and
	goalApiece = 140  // bytes for each
	goalRun    = 4 * time.Millisecond
)

// markdown is the section of the report about the ledger. It stands by itself: it can be
// from another day than the rest.
func (m *recorded) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `## Ledger

Measured by itself with %[1]sgo run -C bench . -only ledger%[1]s on %[2]s, %[3]d cores, Linux %[4]s, %[5]s,
on %[6]s, with Tessera %[7]s. All commands of a table run in turn, round by round; a
ratio is the median of the ratios of the rounds, and the figure to look at: absolute
times are those of the machine, of its disk, and of what else they did.
`, "`", on.cpu, runtime.NumCPU(), on.kernel, goProgram(), m.on, m.tessera)
	if quick {
		b.WriteString("\nThis was a quick run: its figures show that everything runs, and no more.\n")
	}
	m.writeGoals(&b)
	m.writeAppends(&b)
	m.writeCrowds(&b)
	m.writeReads(&b)
	m.writeBytes(&b)
	m.writeRuns(&b)
	return b.Bytes()
}

// last is the end of a list that is not empty.
func last[T any](list []T) T { return list[len(list)-1] }

func (m *recorded) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	least := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≥ %.2f", limit), fmt.Sprintf("%.2f", got), got >= limit)
	}
	most := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≤ %.2f", limit), fmt.Sprintf("%.2f", got), got <= limit)
	}
	within := func(what string, limit, got time.Duration) {
		goal(b, what, "≤ "+micro(limit), micro(got), got <= limit)
	}
	small, large := m.sizes.appended[0], last(m.sizes.appended)
	for _, size := range m.sizes.appended {
		most(appendWay(size)+", of an empty Go program", goalAppend, ratio(m.appends, appendWay(size), nothingWay))
	}
	most(fmt.Sprintf("%s, of one to %d", appendWay(large), small), goalFlat, ratio(m.appends, appendWay(large), appendWay(small)))
	for i, n := range m.syncs {
		goal(b, "fdatasync of ledger.jsonl, "+appendWay(m.sizes.appended[i]), "1", fmt.Sprint(n.truth), n.truth == 1)
	}
	crowd := last(m.crowds)
	least(fmt.Sprintf("%d processes at once, of the rate of empty Go programs", crowd.processes), goalCrowd, crowd.share())
	goal(b, "receipts without an entry, and two for one", "0", fmt.Sprint(m.lost+m.doubled), m.lost+m.doubled == 0)
	reads, size := last(m.reads), last(m.sizes.read)
	for _, g := range []struct {
		name  string
		limit time.Duration
	}{{"verify --quick", goalQuick}, {"verify", goalVerify}, {"prove RUN", goalProve}} {
		within(fmt.Sprintf("fiador ledger %s, %d entries", g.name, size), g.limit, median(named(reads, g.name).walls()))
	}
	book := last(m.books)
	most(fmt.Sprintf("bytes of %d entries, of %.2f of those of the entries and %d each", book.written, goalBytes, goalApiece), 1,
		float64(book.allBytes)/(goalBytes*float64(book.entryBytes)+goalApiece*float64(book.written)))
	within("fiador run, recorded, beyond fiador run", goalRun, median(m.runs[1].beyond(m.runs[0])))
	if m.syncs == nil {
		b.WriteString("\nThat an append has one fdatasync was not counted: strace is not installed.\n")
	}
}

// beyond returns by how much each round of a series took longer than the same round of
// another series.
func (s series) beyond(other series) []time.Duration {
	out := make([]time.Duration, len(s.samples))
	for i := range out {
		out[i] = s.samples[i].Wall - other.samples[i].Wall
	}
	return out
}

// percentile is the least value that so many of a hundred do not exceed.
func percentile(list []time.Duration, of int) time.Duration {
	return slices.Sorted(slices.Values(list))[(len(list)*of+99)/100-1]
}

func (m *recorded) writeAppends(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### One append by one process

A program that opens a ledger, records one decision and ends, without evidence and
without deciding: %[1]stestdata/append%[1]s, which is packages ledger and ledger/disk and a main.
Held against a program that does nothing, one that appends as many bytes to a file and
syncs it, and Tessera's POSIX driver, which also publishes a signed checkpoint that
covers the entry. Tessera is a log server and not made for this; it is given the
shortest intervals that it takes, and %[2]d ms before each append, because it
publishes no two checkpoints within 100 ms. From before the start of a process to
after its end, %[3]d rounds. Every 256th append also writes and syncs a tile.

| | median | 95th percentile | CPU time | of empty | of a line of JSON | of Tessera |
|---|---:|---:|---:|---:|---:|---:|
`, "`", tesseraPause.Milliseconds(), m.sizes.rounds)
	for _, s := range m.appends {
		walls := s.walls()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.2f | %.2f | %.2f |\n", s.name, micro(median(walls)), micro(percentile(walls, 95)), micro(median(s.cpus())),
			ratio(m.appends, s.name, nothingWay), ratio(m.appends, s.name, bareWay), ratio(m.appends, s.name, tesseraWay))
	}
	for i, n := range m.syncs {
		if n.other > 0 {
			fmt.Fprintf(b, "\nBeside the fdatasync of ledger.jsonl, strace counted %d other syncs in an %s.\n", n.other, appendWay(m.sizes.appended[i]))
		}
	}
}

// rate is how many processes ended in a second, by the median.
func (c crowdRuns) rate(s series) float64 {
	return float64(c.processes) / median(s.walls()).Seconds()
}

// share is the rate of appends, of that of empty programs.
func (c crowdRuns) share() float64 { return median(ratios(c.empty, c.appends)) }

func (m *recorded) writeCrowds(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Appends at once

So many processes are started at once, each to append one record to the ledger of %d
entries, until the last has ended; and as many that do nothing. %d rounds. Every receipt
was looked up in the ledger afterwards: %d had no entry, and %d entries had none or two.

| processes | empty, a second | appends a second | of the rate of empty |
|---:|---:|---:|---:|
`, m.sizes.read[0], m.sizes.waves, m.lost, m.doubled)
	for _, c := range m.crowds {
		fmt.Fprintf(b, "| %d | %.0f | %.0f | %.2f |\n", c.processes, c.rate(c.empty), c.rate(c.appends), c.share())
	}
}

func (m *recorded) writeReads(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Commands that read

%[1]sfiador ledger%[1]s, whole processes with their output to /dev/null, medians. Commands
that read little have %[2]d rounds and the others %[3]d; the signatures of all seals one.
One of ten runs of these ledgers has executed something, and so has two records.

| |`, "`", m.sizes.short, m.sizes.long)
	for _, size := range m.sizes.read {
		fmt.Fprintf(b, " %d entries | peak memory |", size)
	}
	b.WriteString("\n|---|")
	for range m.sizes.read {
		b.WriteString("---:|---:|")
	}
	b.WriteString("\n")
	for _, s := range m.reads[0] {
		fmt.Fprintf(b, "| %s |", s.name)
		for _, list := range m.reads {
			if s := named(list, s.name); s != nil {
				fmt.Fprintf(b, " %s | %s |", micro(median(s.walls())), mib(median(s.peaks())))
			} else {
				b.WriteString(" more than a minute | |")
			}
		}
		b.WriteString("\n")
	}
}

func (m *recorded) writeBytes(b *bytes.Buffer) {
	b.WriteString(`
### Bytes

All files of a ledger but its evidence, derived ones included, as it was written and
before anything was appended.

| entries | bytes of entries, each | of the folder, each | beyond the entry | folder, of entries |
|---:|---:|---:|---:|---:|
`)
	for _, k := range m.books {
		n := float64(k.written)
		fmt.Fprintf(b, "| %d | %.0f | %.0f | %.0f | %.3f |\n", k.written, float64(k.entryBytes)/n, float64(k.allBytes)/n,
			float64(k.allBytes-k.entryBytes)/n, float64(k.allBytes)/float64(k.entryBytes))
	}
}

func (m *recorded) writeRuns(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Recorded runs

%[1]sfiador run%[1]s on the intent of 1 KiB without and with a ledger of %[2]d entries, %[3]d rounds,
and %[1]sfiador check%[1]s on %[4]d intents without and with %[1]s--record%[1]s, %[5]d rounds. Each decision
keeps its evidence, which is one more file and one more sync.

| | median | 95th percentile | CPU time | beyond the one without | for each intent |
|---|---:|---:|---:|---:|---:|
`, "`", m.sizes.read[0], m.sizes.short, m.sizes.intents, m.sizes.long)
	for _, pair := range []struct {
		list    []series
		intents int
	}{{m.runs, 1}, {m.checks, m.sizes.intents}} {
		for i, s := range pair.list {
			more, each := "", ""
			if i > 0 {
				d := median(s.beyond(pair.list[0]))
				more, each = micro(d), micro(d/time.Duration(pair.intents))
			}
			walls := s.walls()
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", s.name, micro(median(walls)), micro(percentile(walls, 95)), micro(median(s.cpus())), more, each)
		}
	}
}
