package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The goals for safe-run.
const (
	goalStart     = 1500 * time.Microsecond // beyond a plain fork and exec
	goalStarting  = 1.3                     // of a plain fork and exec
	goalThrough   = 0.7                     // of the speed of cat
	goalMorePeaks = 4 << 10                 // KiB, for many times as much output: what the garbage collector leaves alone
)

// markdown is the section of the report about safe-run. It stands by itself: it can be
// from another day than the rest.
func (m *logged) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `## Safe-run

Measured by itself with %[1]sgo run -C bench . -only saferun%[1]s on %[2]s, %[3]d cores, Linux %[4]s, %[5]s,
on %[6]s, with cat %[7]s. All commands of a table run in turn, round by round, in every
second round in the opposite order; a ratio is the median of the ratios of the rounds,
and the figure to look at: absolute times are those of the machine and of what else it
did.
`, "`", on.cpu, runtime.NumCPU(), on.kernel, goProgram(), m.on, m.cat)
	if quick {
		b.WriteString("\nThis was a quick run: its figures show that everything runs, and no more.\n")
	}
	m.writeGoals(&b)
	m.writeStarts(&b)
	m.writeCopies(&b)
	m.writeFails(&b)
	m.writePeaks(&b)
	return b.Bytes()
}

func (m *logged) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	more := median(named(m.starts, loggedWay).beyond(*named(m.starts, spawnWay)))
	goal(b, "`safe-run true`, beyond a plain fork and exec", "≤ "+micro(goalStart), micro(more), more <= goalStart)
	times := ratio(m.starts, loggedWay, spawnWay)
	goal(b, "the same, of a plain fork and exec", fmt.Sprintf("≤ %.2f", goalStarting), fmt.Sprintf("%.2f", times), times <= goalStarting)
	speed := ratio(m.copies, throughCat, textWay)
	goal(b, size(m.sizes.bytes)+" of text through a pipe, of the speed of cat", fmt.Sprintf("≥ %.2f", goalThrough), fmt.Sprintf("%.2f", speed), speed >= goalThrough)
	grown := m.grown()
	goal(b, fmt.Sprintf("peak memory for %s, beyond that for %s", size(m.sizes.bytes*m.sizes.times), size(m.sizes.bytes)),
		"≤ "+mib(goalMorePeaks), mib(grown), grown <= goalMorePeaks)
}

// grown is how much more memory many times as much output takes, in KiB.
func (m *logged) grown() int64 {
	peak := func(n int) int64 { return slices.Max(named(m.peaks, peakOf(size(n))).peaks()) }
	return peak(m.sizes.bytes*m.sizes.times) - peak(m.sizes.bytes)
}

func (m *logged) writeStarts(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Starting a command

From before the start of a process to after its end; the command is %[2]s by this
path, and writes nothing. Standard input and both outputs are /dev/null. It is held
against %[1]stestdata/spawn%[1]s, a Go program that does nothing but fork, execute that
path, wait and exit with its status: with system calls, without os/exec, and the
command has its own three streams. %[3]d rounds.

| | median | 95th percentile | CPU time | peak memory | beyond fork and exec | of fork and exec |
|---|---:|---:|---:|---:|---:|---:|
`, "`", trueProgram, m.sizes.starts)
	plain := *named(m.starts, spawnWay)
	for _, s := range m.starts {
		walls := s.walls()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %.2f |\n", s.name, micro(median(walls)), micro(percentile(walls, 95)), micro(median(s.cpus())),
			mib(median(s.peaks())), signed(median(s.beyond(plain))), ratio(m.starts, s.name, spawnWay))
	}
	b.WriteString("\nPeak memory is no less than that of the small program that starts all of these.\n")
}

// signed is for differences.
func signed(d time.Duration) string {
	if d < 0 {
		return "−" + micro(-d)
	}
	return micro(d)
}

// copied are the columns of a table of pipelines.
func (m *logged) copied(b *bytes.Buffer, list []series, beside map[string]string) {
	b.WriteString("\n| | median | min | max | CPU time of all | MB a second | speed, of |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, s := range list {
		walls := s.walls()
		speed := ""
		if by := beside[s.name]; by != "" {
			all := ratios(*named(list, by), s)
			speed = fmt.Sprintf("%.2f (%.2f to %.2f) of %s", median(all), slices.Min(all), slices.Max(all), by)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.0f | %s |\n", s.name, micro(median(walls)), micro(slices.Min(walls)), micro(slices.Max(walls)),
			micro(median(s.cpus())), float64(m.sizes.bytes)/1e6/median(walls).Seconds(), speed)
	}
}

func (m *logged) writeCopies(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Output

TEXT is a file of %[2]s, lines of 76 characters of base64; BYTES is one of as many
random bytes without LF; both are in memory. The reader is cat, which writes to
/dev/null. So %[1]scat TEXT \| cat \| reader%[1]s copies the text through one more cat, and
%[1]ssafe-run cat TEXT \| reader%[1]s through safe-run, which also keeps all of it for a log, in a
file on %[4]s, until the command has succeeded; a cat keeps nothing. tee keeps a copy
as well. No shell is involved: the benchmark makes the pipes, as large as they are by
default, and starts all processes of a pipeline one after the other. From before the
first start to after the last end, %[3]d rounds. A ratio is that of speeds: median,
least and largest.
`, "`", size(m.sizes.bytes), m.sizes.copies, m.on)
	m.copied(b, m.copies, map[string]string{
		textWay: throughCat, teeWay: throughCat, bytesWay: bytesCat, nullWay: readerWay,
	})
}

func (m *logged) writeFails(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Output of a command that fails

FAIL is %[1]ssh -c 'cat "$1"; exit 3' sh%[1]s. safe-run writes its log and syncs it: the output
and once more its lines as events. %[2]d rounds.
`, "`", m.sizes.fails)
	m.copied(b, m.fails, map[string]string{textFails: textFailed, byteFails: byteFailed})
	fmt.Fprintf(b, "\nThe log of TEXT has %.0f MB, that of BYTES, which is one event in base64, %.0f MB.\n", float64(m.logs[textFails])/1e6, float64(m.logs[byteFails])/1e6)
}

func (m *logged) writePeaks(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Memory

The most memory that was resident, pages of the program file included, as Linux counts
it for a process, those that it has started and the small program that starts it
(%[1]sru_maxrss%[1]s): what is above the first row is safe-run's own. Output is TEXT, %[2]d
times for the larger one, and goes to /dev/null unless a pipe is named. What is kept of
the output is in a file, and not counted. Of %[3]d rounds.

| | median | largest | time, median |
|---|---:|---:|---:|
`, "`", m.sizes.times, m.sizes.peaks)
	for _, s := range m.peaks {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s.name, mib(median(s.peaks())), mib(slices.Max(s.peaks())), micro(median(s.walls())))
	}
}
