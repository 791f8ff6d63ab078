package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
)

// The goals for the sandbox.
const (
	goalFull     = 1.6 // of bubblewrap
	goalStretch  = 1.0
	goalConfined = 2.0  // of a plain command
	goalGrowth   = 1.10 // the last hundred runs, of the first hundred
)

// sandboxHeading begins the section on the sandbox, the first one behind decisions.
const sandboxHeading = "## Sandbox"

// markdown is the section of the report about the sandbox. It stands by itself: it can
// be from another day than the rest.
func (c *confined) markdown(m machine, quick bool) []byte {
	var b bytes.Buffer
	b.WriteString(sandboxHeading)
	fmt.Fprintf(&b, `

Measured by itself with %[1]sgo run -C bench . -only sandbox%[1]s on %[2]s, %[3]d cores, Linux %[4]s, %[5]s,
with bubblewrap %[6]s. All commands of a table run in turn, round by round; a ratio
is the median of the ratios of the rounds, and the figure to look at: absolute times
are those of the machine and of what else it did.
`, "`", m.cpu, runtime.NumCPU(), m.kernel, goProgram(), c.bwrap)
	if quick {
		b.WriteString("\nThis was a quick run: its figures show that everything runs, and no more.\n")
	}
	c.writeGoals(&b)
	c.writeClauses(&b)
	c.writeLoop(&b)
	c.writeProcesses(&b)
	c.writeTrees(&b)
	c.writeMany(&b)
	c.writeHeaps(&b)
	return b.Bytes()
}

// named is the series of a name, or nil.
func named(list []series, name string) *series {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// ratio is the median of one series divided by another, round by round.
func ratio(list []series, of, by string) float64 {
	return median(ratios(*named(list, of), *named(list, by)))
}

func (c *confined) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	row := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≤ %.2f", limit), fmt.Sprintf("%.2f", got), got <= limit)
	}
	for _, u := range c.users {
		as := ", as " + u.name
		full := ratio(u.loop, stagedWay, wrappedWay)
		row("full isolation with staging, of bubblewrap"+as, goalFull, full)
		row("the same, further goal", goalStretch, full)
		row("confined, of a plain command"+as, goalConfined, ratio(u.loop, confinedWay, plainWay))
		for _, m := range u.many {
			left := m.left()
			goal(b, fmt.Sprintf("%s, left behind by %d runs%s", m.Name, len(m.Times), as), "0", fmt.Sprint(left), left == 0)
			first, last := m.ends()
			row(fmt.Sprintf("%s, last runs, of the first ones%s", m.Name, as), goalGrowth, last/first)
		}
	}
}

func (c *confined) writeClauses(b *bytes.Buffer) {
	b.WriteString(`
### What is compared

The command is /bin/true under the profile dev, and does nothing. Plain is the same
supervision (package harness/command: pipes, capture, hashes) without a sandbox.
bubblewrap has every namespace, a view of the system's programs, a /proc, /dev and
/tmp of its own, no capabilities and a new session (--unshare-all, --die-with-parent,
--new-session, --cap-drop ALL, --clearenv), and the folder itself to write into. It has
no seccomp filter, no Landlock, no limits of memory, processes or processors, and
writes are neither kept apart nor judged. fiador's figures are those of the whole life
of a sandbox: plan, start, rehearsal of what is given up, the command, reading and
judging what was written, the end of everything inside and of what the host held.
Staged means that writes go to an overlay in memory; confined cannot have that and
works in a copy. Where no empty folder is named, the folder has 21 small files, and
a Makefile.
`)
	for _, u := range c.users {
		fmt.Fprintf(b, "\nAs %s, not wholly enforced here:\n", u.name)
		for i, name := range []string{"full", "confined"} {
			var list []string
			for _, cl := range u.clauses[i] {
				if cl.Status != evidence.Enforced {
					list = append(list, fmt.Sprintf("%s (%s: %s)", cl.Clause, cl.Status, cl.Mechanism))
				}
			}
			if len(list) == 0 {
				list = []string{"nothing"}
			}
			fmt.Fprintf(b, "\n- %s: %s", name, strings.Join(list, "; "))
		}
		b.WriteString("\n")
	}
}

// compared is a table of series beside a plain command and bubblewrap.
func compared(b *bytes.Buffer, list []series) {
	b.WriteString("\n| | median | min | max | of plain | of bubblewrap |\n|---|---:|---:|---:|---:|---:|\n")
	for _, s := range list {
		walls := s.walls()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.2f | %.2f |\n", s.name, micro(median(walls)), micro(slices.Min(walls)), micro(slices.Max(walls)),
			ratio(list, s.name, plainWay), ratio(list, s.name, wrappedWay))
	}
}

func (c *confined) writeLoop(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n### One command after another in one process\n\n%d rounds.\n", c.sizes.rounds)
	for _, u := range c.users {
		fmt.Fprintf(b, "\nAs %s:\n", u.name)
		compared(b, u.loop)
	}
}

func (c *confined) writeProcesses(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Whole processes

%[2]sfiador exec --policy dev -- true%[2]s from before its start to after its end: also the start
of the program, its profile, the search for what killed commands have left, and the
journal of what is applied, which is nothing. %[1]d rounds.
`, c.sizes.processes, "`")
	for _, u := range c.users {
		fmt.Fprintf(b, "\nAs %s:\n", u.name)
		compared(b, u.processes)
	}
}

func (c *confined) writeTrees(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A large tree

A command changes %d of %d files of 1 KiB, and that is applied. Start includes the
freezing of the tree: an overlay looks at none of it, a copy is made of all. Apply
syncs what it writes to the disk. %d rounds, medians.

| |`, treeChanged, c.sizes.files, c.sizes.trees)
	for _, p := range treeParts() {
		fmt.Fprintf(b, " %s |", p)
	}
	b.WriteString(" all |\n|---|" + strings.Repeat("---:|", len(treeParts())+1) + "\n")
	for _, u := range c.users {
		for _, s := range u.trees.Series {
			fmt.Fprintf(b, "| %s, as %s |", s.Name, u.name)
			for _, t := range s.medians() {
				fmt.Fprintf(b, " %s |", micro(t))
			}
			b.WriteString("\n")
		}
	}
	for _, u := range c.users {
		fmt.Fprintf(b, "\nThe copy alone takes cp -a %s, as %s.\n", micro(median(u.trees.Copies)), u.name)
	}
}

// medians are those of each part, and of all together.
func (s treeSeries) medians() []time.Duration {
	out := make([]time.Duration, 0, len(treeParts())+1)
	for part := range treeParts() {
		times := make([]time.Duration, len(s.Parts))
		for round := range s.Parts {
			times[round] = s.Parts[round][part]
		}
		out = append(out, median(times))
	}
	all := make([]time.Duration, len(s.Parts))
	for round, times := range s.Parts {
		for _, t := range times {
			all[round] += t
		}
	}
	return append(out, median(all))
}

func (c *confined) writeMany(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Many runs in one process

Before the first of %d runs that count and after the last. Threads are the Go runtime's,
and memory is resident memory; both settle and are no holdings of a sandbox. The last
columns are the time of a run divided by that of a plain command just before it, at
the beginning and at the end.

| | descriptors | goroutines | processes | mounts | cgroups | folders | threads | memory | first 100 | last 100 | growth |
|---|---|---|---|---|---|---|---|---|---:|---:|---:|
`, c.sizes.runs)
	for _, u := range c.users {
		for _, m := range u.many {
			fmt.Fprintf(b, "| %s, as %s |", m.Name, u.name)
			for i, before := range m.Before.list() {
				fmt.Fprintf(b, " %d → %d |", before, m.After.list()[i])
			}
			first, last := m.ends()
			fmt.Fprintf(b, " %d → %d | %s → %s | %.2f | %.2f | %.2f |\n", m.Before.Threads, m.After.Threads,
				mib(m.Before.ResidentKiB), mib(m.After.ResidentKiB), first, last, last/first)
		}
	}
}

// list returns the counts, all of which must be the same after a run as before it.
func (h holdings) list() []int {
	return []int{h.Descriptors, h.Goroutines, h.Children, h.Mounts, h.Cgroups, h.Folders}
}

// left is how much more there is of that afterwards.
func (m manyRuns) left() int {
	sum := 0
	for i, before := range m.Before.list() {
		sum += max(0, m.After.list()[i]-before)
	}
	return sum
}

// ends are the medians of the first and of the last runs, of a plain command's.
func (m manyRuns) ends() (first, last float64) {
	list := quotients(m.Times, m.Plain)
	n := min(100, (len(list)+1)/2)
	return median(list[:n]), median(list[len(list)-n:])
}

func (c *confined) writeHeaps(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A large process that starts sandboxes

A process that makes a user namespace copies its page tables for it, and so takes the
longer the more memory it has; a plain command and bubblewrap share them until they
are executed. The same loop without a heap and with one of %d MiB, a few rounds of each
in turn, %d rounds in all.

| | as | no heap | heap | ratio |
|---|---|---:|---:|---:|
`, c.sizes.heap, len(c.users[0].heavy[0].samples))
	for _, u := range c.users {
		for i, s := range u.light {
			light, heavy := median(s.walls()), median(u.heavy[i].walls())
			fmt.Fprintf(b, "| %s | %s | %s | %s | %.2f |\n", s.name, u.name, micro(light), micro(heavy), heavy.Seconds()/light.Seconds())
		}
	}
}
