package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The goals that the results are held against.
const (
	goalRego      = 0.30 // of opa eval with the same Rego
	goalSmall     = 0.55 // of opa eval with a small policy
	goalConftest  = 0.40
	goalVersion   = 3.0 // of an empty Go program
	goalPerSecond = 10000
	goalObjects   = 5000 // allocations of opening the built-in layer
	goalFolder    = 0.30
)

// report is everything that was measured.
type report struct {
	rounds  int
	quick   bool
	machine machine
	tools   tools

	side  []series // of the names below
	loads []load
	sizes []series // by load

	folder folder

	decided []timing
	steps   [][]timing // of 1 KiB, 100 KiB and 1 MiB
	opened  []timing
	rules   []rulesTiming

	sandboxed *confined
	recorded  *recorded
	logged    *logged
	packed    *packed
	called    *called
	agented   *agented
	worked    *worked
	suited    *suited
	judged    *judged
	remoted   *remoted
	served    *ledgerServed
	slow      slowest
}

// The series of side, which the ladder shows too.
const (
	sideFiador = iota
	sideOPA
	sideConftest
	sideSmall
	sideVersion
	sideEvaluator
	sideEmpty
)

// machine describes the properties of the machine that results depend on, and does not
// name the machine.
type machine struct{ cpu, kernel, memory string }

func thisMachine() machine {
	m := machine{cpu: field("/proc/cpuinfo", "model name"), kernel: "unknown", memory: "unknown"}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		// What follows the number is the builder's name for it.
		m.kernel, _, _ = strings.Cut(strings.TrimSpace(string(b)), "-")
	}
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.memory = fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
	}
	return m
}

// field is the first value of a "name: value" file of the kernel, or unknown.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func (r *report) markdown() []byte {
	var b bytes.Buffer
	b.Write(r.decisionsPart())
	b.WriteString("\n")
	b.Write(r.sandboxed.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.recorded.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.logged.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.packed.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.called.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.agented.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.worked.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.suited.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.judged.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.remoted.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.served.markdown(r.machine, r.quick))
	b.WriteString("\n")
	b.Write(r.slow.markdown())
	return b.Bytes()
}

// decisionsPart is everything before the section on the sandbox.
func (r *report) decisionsPart() []byte {
	var b bytes.Buffer
	r.head(&b)
	r.goals(&b)
	r.writeProcesses(&b)
	r.folder.write(&b, median(r.side[sideFiador].walls()))
	r.writeInside(&b)
	return b.Bytes()
}

func (r *report) head(b *bytes.Buffer) {
	fmt.Fprintf(b, `# Benchmark results

Written by %[1]smake bench%[1]s; do not edit. Absolute times are those of the machine
below and vary with what else it does; the ratios vary less, because the tools
run in turn, round by round.

| | |
|---|---|
| CPU | %[2]s, %[3]d cores |
| memory | %[4]s |
| Linux | %[5]s |
| Go | %[6]s, %[7]s/%[8]s |
| opa | %[9]s |
| conftest | %[10]s (with opa %[11]s) |

All programs are built by this Go release with CGO_ENABLED=0 and -trimpath.
To measure again: %[1]smake bench%[1]s, or %[1]sgo run -C bench . -n ROUNDS%[1]s.
`, "`", r.machine.cpu, runtime.NumCPU(), r.machine.memory, r.machine.kernel,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, opaVersion, conftestVer, r.tools.conftestOPA)
	if r.quick {
		b.WriteString("\nThis was a quick run: fewer rounds, a smaller folder and fewer rules than the goals\nare about. Its figures show that everything runs, and no more.\n")
	}
}

// goal is one line of the table of goals.
func goal(b *bytes.Buffer, what, want, got string, met bool) {
	word := "**missed**"
	if met {
		word = "met"
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s |\n", what, want, got, word)
}

func (r *report) goals(b *bytes.Buffer) {
	b.WriteString("\n## Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	for _, g := range []struct {
		what     string
		own, of  int
		expected float64
	}{
		{"whole process, of `opa eval` with a small policy", sideFiador, sideSmall, goalSmall},
		{"whole process, of `opa eval` with the same Rego", sideFiador, sideOPA, goalRego},
		{"whole process, of `conftest test` with the same Rego", sideFiador, sideConftest, goalConftest},
		{"`fiador version`, of an empty Go program", sideVersion, sideEmpty, goalVersion},
	} {
		ratio := median(ratios(r.side[g.own], r.side[g.of]))
		goal(b, g.what, fmt.Sprintf("≤ %.2f", g.expected), fmt.Sprintf("%.2f", ratio), ratio <= g.expected)
	}
	rate := perSecond(r.decided[0])
	goal(b, "decisions a second on one core, 1 KiB", fmt.Sprintf("≥ %d", goalPerSecond), fmt.Sprint(rate), rate >= goalPerSecond)
	objects := r.opened[openedStored].allocs
	goal(b, "allocations of opening the built-in layer", fmt.Sprintf("≤ %d", goalObjects), fmt.Sprint(objects), objects <= goalObjects)
	for i, l := range r.loads {
		peak := slices.Max(r.sizes[i].peaks())
		if i == 0 {
			peak = max(peak, slices.Max(r.side[sideFiador].peaks()))
		}
		goal(b, "peak memory, "+l.what, "≤ "+mib(l.goal), mib(peak), peak <= l.goal)
	}
	r.folder.goals(b)
	b.WriteString("\nA ratio is the median over the rounds; peak memory is the largest of all rounds.\n")
}

func (r *report) writeProcesses(b *bytes.Buffer) {
	fmt.Fprintf(b, `
## Whole processes

The same decision by the first three: the same built-in Rego, the profile default, an
intent of 1 KiB that is allowed (four actions, two inputs, two outputs). Before
anything is timed, all three have to give the same denials for it and for an
intent that is refused, opa the same permits, questions and notes as well.

fiador reads the intent and does all of it: strict JSON, schema, effects and
findings, policy, bundle, checked result. opa and conftest read the finished
policy input; opa is asked for permit, deny, clarify and note, conftest asks for
deny alone. %d rounds; wall time from before the start to after the end. Peak
memory is the resident set as Linux counts it, pages of the program file included.

| | median | min | max | CPU time | peak memory | fiador's ratio |
|---|---:|---:|---:|---:|---:|---:|
`, r.rounds)
	for i, s := range r.side {
		ratio := ""
		if i != sideFiador {
			list := ratios(r.side[sideFiador], s)
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", median(list), slices.Min(list), slices.Max(list))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", s.name, milli(median(s.walls())), milli(slices.Min(s.walls())),
			milli(slices.Max(s.walls())), milli(median(s.cpus())), mib(median(s.peaks())), ratio)
	}
	b.WriteString("\nThe ratio is that of one round, fiador divided by the other: median, least and largest. The small\npolicy is written by hand, reads the finished input, and says whether the intent is allowed, and no more.\n")
	r.ladder(b)
	fmt.Fprintf(b, "\n`fiador run` on other intents, %d rounds:\n\n| | wall, median | CPU time, median | peak memory, median | largest |\n|---|---:|---:|---:|---:|\n", len(r.sizes[0].samples))
	for _, s := range r.sizes {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", s.name, milli(median(s.walls())), milli(median(s.cpus())),
			mib(median(s.peaks())), mib(slices.Max(s.peaks())))
	}
}

// ladder shows what each step from an empty program to a decision costs.
func (r *report) ladder(b *bytes.Buffer) {
	b.WriteString("\nThe ladder of bare starts, of the same rounds, so that the cost of a later import is seen:\n\n| | wall, median | of the step before | of `opa eval`, small policy |\n|---|---:|---:|---:|\n")
	before := -1
	for _, i := range []int{sideEmpty, sideEvaluator, sideVersion, sideFiador} {
		of := ""
		if before >= 0 {
			of = fmt.Sprintf("%.2f", median(ratios(r.side[i], r.side[before])))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %.2f |\n", r.side[i].name, milli(median(r.side[i].walls())), of, median(ratios(r.side[i], r.side[sideSmall])))
		before = i
	}
	b.WriteString("\nNo process that links OPA's evaluator starts faster than the second line.\n")
}

func (r *report) writeInside(b *bytes.Buffer) {
	b.WriteString(`
## Inside one process

Go benchmarks on one core (GOMAXPROCS=1), the middle one of five runs, with the
garbage collector as the program sets it for small intents (GOGC=400).

A whole decision with a prepared gate:

| intent | time | decisions a second | allocated | allocations |
|---|---:|---:|---:|---:|
`)
	for _, t := range r.decided {
		fmt.Fprintf(b, "| %s | %s | %d | %s | %d |\n", t.what, micro(t.each), perSecond(t), kib(t.bytes), t.allocs)
	}
	b.WriteString(`
Where it goes, each step timed by itself:

| step | 1 KiB | share | 100 KiB, one file's content | share | 1 MiB, 256 actions | share |
|---|---:|---:|---:|---:|---:|---:|
`)
	for i := range r.steps[0] {
		fmt.Fprintf(b, "| %s |", r.steps[0][i].what)
		for _, column := range r.steps {
			fmt.Fprintf(b, " %s | %.0f %% |", micro(column[i].each), 100*float64(column[i].each)/float64(total(column)))
		}
		b.WriteString("\n")
	}
	b.WriteString("| sum |")
	for _, column := range r.steps {
		fmt.Fprintf(b, " %s | |", micro(total(column)))
	}
	b.WriteString(`

Opening a gate, which every process does once:

| | time | allocated | allocations |
|---|---:|---:|---:|
`)
	for _, t := range r.opened {
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", t.what, micro(t.each), kib(t.bytes), t.allocs)
	}
	b.WriteString(`
A layer of synthetic rules beside the built-in policy, intent of 1 KiB:

| rules | parse and compile | allocated | evaluate | allocated |
|---:|---:|---:|---:|---:|
`)
	for _, t := range r.rules {
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", t.rules, micro(t.compile.each), kib(t.compile.bytes), micro(t.eval.each), kib(t.eval.bytes))
	}
}

func total(list []timing) time.Duration {
	var sum time.Duration
	for _, t := range list {
		sum += t.each
	}
	return sum
}

func perSecond(t timing) int { return int(time.Second / max(t.each, 1)) }

func milli(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }

// micro gives three digits or so, whatever the size.
func micro(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	case d >= 10*time.Microsecond:
		return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
	}
	return fmt.Sprintf("%.1f µs", d.Seconds()*1e6)
}

// mib and kib take KiB and bytes.
func mib(kib int64) string { return fmt.Sprintf("%.1f MiB", float64(kib)/(1<<10)) }

func kib(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+512)>>10) }
