package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fiador/fiador/kernel"
)

// goals are the lines of the table of goals.
func (m *folder) goals(b *bytes.Buffer) {
	for _, g := range []struct {
		what string
		side []series
	}{
		{fmt.Sprintf("%d intents, of `conftest test`", m.intents), m.plain},
		{fmt.Sprintf("%d intents and %d rules, of `conftest test`", m.intents, m.allRules()), m.ruled},
	} {
		ratio := median(ratios(g.side[0], g.side[1]))
		goal(b, g.what, fmt.Sprintf("≤ %.2f", goalFolder), fmt.Sprintf("%.2f", ratio), ratio <= goalFolder)
	}
}

// write writes this part of the report. single is the time of a process that decides one
// intent.
func (m *folder) write(b *bytes.Buffer, single time.Duration) {
	fmt.Fprintf(b, `
## A folder of intents

%[1]d generated intents in %[2]d folders, %[3]d bytes each on average, the same in every
run. Of the first %[9]d the profile default makes
%[4]s, and a user profile with %[5]d rules beside
the built-in policy %[6]s.

All of these rules deny, each with an id and METADATA of its own, in %[7]d modules. Of
twenty, eight are about a command with an argument, six about files below two
paths, four about words in the goal and two about a word in what is written.

conftest reads the finished policy inputs (%[8]d bytes on average), which fiador
computes from the intents. It has the same Rego for the built-in policy, and for the
rules the very same files, and evaluates the same conditions on each document, %[5]d
of them with the rules. It does less: no schema, effects, findings, permits,
questions, notes, hashes, bundle or checked result, and with the rules no built-in
policy. fiador decides on all cores, conftest on one; the garbage collectors of
both use all. What else the machine does therefore slows fiador down more: the
column of others is how many cores other processes took. Before anything is
timed, both have to name the same rules and places for each of the first %[9]d
intents.

`, m.intents, shards, m.intentBytes/m.intents, outcomes(m.plainCount), m.allRules(), outcomes(m.ruledCount),
		modules, m.inputBytes/m.intents, m.in(few))
	sideHead(b)
	writeSide(b, "", m.plain)
	writeSide(b, fmt.Sprintf(", %d rules", m.allRules()), m.ruled)
	fmt.Fprintf(b, `
One process for each intent is not measured. Extrapolated from the %s that one
takes for one intent (see above), the folder would take %.0f s.
`, milli(single), single.Seconds()*float64(m.intents))
	m.writeForms(b)
	m.writeParts(b)
	m.writeRules(b)
}

func outcomes(counts map[kernel.Outcome]int) string {
	return fmt.Sprintf("%d BUNDLE, %d CLARIFY, %d REFUSE", counts[kernel.OutcomeBundle], counts[kernel.OutcomeClarify], counts[kernel.OutcomeRefuse])
}

func sideHead(b *bytes.Buffer) {
	b.WriteString("| | rounds | median | min | max | CPU time | peak memory | others | fiador's ratio | of CPU time |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
}

// writeSide writes a line for each of the series, whose first is fiador.
func writeSide(b *bytes.Buffer, what string, list []series) {
	for i, s := range list {
		wall, cpu := "", ""
		if i > 0 {
			walls := ratios(list[0], s)
			wall = fmt.Sprintf("%.2f (%.2f to %.2f)", median(walls), slices.Min(walls), slices.Max(walls))
			cpu = fmt.Sprintf("%.2f", median(quotients(list[0].cpus(), s.cpus())))
		}
		fmt.Fprintf(b, "| %s%s | %d | %s | %s | %s | %s | %s | %.1f | %s | %s |\n", s.name, what, len(s.samples), seconds(median(s.walls())),
			seconds(slices.Min(s.walls())), seconds(slices.Max(s.walls())), seconds(median(s.cpus())), mib(slices.Max(s.peaks())), median(s.others()), wall, cpu)
	}
}

func (m *folder) writeForms(b *bytes.Buffer) {
	fmt.Fprintf(b, `
What else conftest can be given, on %d of the intents and with the %d rules: the
built-in policy as a second namespace, so that it decides by all that fiador
decides by; or the rules as somebody would write them for the intents alone, which
conftest then reads as they are: half the bytes, and fewer members to look at.

`, m.in(one), m.allRules())
	sideHead(b)
	writeSide(b, "", m.forms)
}

func (m *folder) writeParts(b *bytes.Buffer) {
	fmt.Fprintf(b, `
Larger and larger parts of the folder, profile default (rounds: %d; sarif and junit
keep findings until the end, one round):

| intents | median | for each | CPU time for each | peak, json | peak, sarif | peak, junit |
|---:|---:|---:|---:|---:|---:|---:|
`, m.rounds)
	units := make([]int, len(parts()))
	for i, part := range parts() {
		s := m.byParts[i]
		units[i] = m.in(part)
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |", units[i], seconds(median(s.walls())),
			each(median(s.walls()), units[i]), each(median(s.cpus()), units[i]), mib(slices.Max(s.peaks())))
		for k := range keepers() {
			peak := ""
			switch part {
			case few:
				peak = mib(slices.Max(m.keeping[2*k].peaks()))
			case shards:
				peak = mib(slices.Max(m.keeping[2*k+1].peaks()))
			}
			fmt.Fprintf(b, " %s |", peak)
		}
		b.WriteString("\n")
	}
	walls, cpus := medians(m.byParts, series.walls), medians(m.byParts, series.cpus)
	slope, base := line(units, cpus)
	fmt.Fprintf(b, `
One of %[1]d intents takes %.2[2]f of the time that one of %[3]d takes, and %.2[4]f of its CPU
time. The line through the CPU times is %[5]s and %[6]s for each intent; no point is
more than %.0[7]f %% off it.
`, units[len(units)-1], growth(units, walls), units[0], growth(units, cpus),
		milli(duration(base)), micro(duration(slope)), 100*offLine(units, cpus))
}

func (m *folder) writeRules(b *bytes.Buffer) {
	fmt.Fprintf(b, `
More and more rules, %d of the intents (rounds: %d). What a rule takes is the time
beyond that of no rule, loading and compiling included:

| rules | median | CPU time | for each rule | for each rule and intent | CPU time | peak memory |
|---:|---:|---:|---:|---:|---:|---:|
`, m.in(few), m.rounds)
	walls, cpus := medians(m.byRules, series.walls), medians(m.byRules, series.cpus)
	for i, n := range m.rules {
		fmt.Fprintf(b, "| %d | %s | %s |", n, seconds(walls[i]), seconds(cpus[i]))
		if n == 0 {
			b.WriteString(" | | |")
		} else {
			beyond := walls[i] - walls[0]
			fmt.Fprintf(b, " %s | %s | %s |", each(beyond, n), each(beyond, n*m.in(few)), each(cpus[i]-cpus[0], n*m.in(few)))
		}
		fmt.Fprintf(b, " %s |\n", mib(slices.Max(m.byRules[i].peaks())))
	}
	units := m.rules[1:]
	fmt.Fprintf(b, `
One of %d rules takes %.2f of the time that one of %d takes, and %.2f of its CPU time;
no point is more than %.0f %% off the line through the CPU times.
`, units[len(units)-1], growth(units, beyond(walls)), units[0], growth(units, beyond(cpus)), 100*offLine(m.rules, cpus))
}

// beyond returns by how much each time but the first is longer than the first.
func beyond(times []time.Duration) []time.Duration {
	out := make([]time.Duration, len(times)-1)
	for i := range out {
		out[i] = times[i+1] - times[0]
	}
	return out
}

func medians(list []series, get func(series) []time.Duration) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, s := range list {
		out[i] = median(get(s))
	}
	return out
}

func quotients(a, b []time.Duration) []float64 {
	out := make([]float64, len(a))
	for i := range out {
		out[i] = float64(a[i]) / float64(b[i])
	}
	return out
}

// growth is the time for each unit at the largest size, divided by that at the
// smallest: 1 if it is linear.
func growth(units []int, times []time.Duration) float64 {
	last := len(units) - 1
	return times[last].Seconds() / float64(units[last]) / (times[0].Seconds() / float64(units[0]))
}

// line is the line of least squares through the points: seconds for each unit, and
// seconds without any.
func line(units []int, times []time.Duration) (slope, base float64) {
	var x, y, xx, xy float64
	for i, n := range units {
		x += float64(n)
		y += times[i].Seconds()
		xx += float64(n) * float64(n)
		xy += float64(n) * times[i].Seconds()
	}
	n := float64(len(units))
	slope = (n*xy - x*y) / (n*xx - x*x)
	return slope, (y - slope*x) / n
}

// offLine is how far a point lies off that line at most, as a part of the point.
func offLine(units []int, times []time.Duration) float64 {
	slope, base := line(units, times)
	off := 0.0
	for i, n := range units {
		off = max(off, math.Abs(base+slope*float64(n)-times[i].Seconds())/times[i].Seconds())
	}
	return off
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func each(total time.Duration, units int) string { return micro(total / time.Duration(units)) }

// seconds writes a long duration.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
