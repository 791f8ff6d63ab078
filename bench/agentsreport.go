package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// The goals for agents.
const (
	goalDecided = time.Millisecond       // beyond the direct call
	goalPassed  = 100 * time.Microsecond // beyond the direct message
	goalGrown   = 1.05                   // of the memory at the first look, or
	goalMore    = 2 << 10                // KiB more than it
	goalHook    = 1.15                   // of the run of its intent
)

// markdown is the section of the report about agents. It stands by itself: it can be from
// another day than the rest.
func (m *agented) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Agents", onlyAgents, on, m.load, quick)
	m.writeGoals(&b)
	m.writeCalls(&b)
	m.writeGrowth(&b)
	m.writeHooks(&b)
	return b.Bytes()
}

func (m *agented) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	if m.server != "" {
		for _, g := range []struct {
			what   string
			limit  time.Duration
			of, by string
		}{
			{"a message that the gate passes on, beyond a direct one", goalPassed, pingGate, pingDirect},
			{"a call that the gate decides, beyond a direct one", goalDecided, callGate, callDirect},
		} {
			got := median(named(m.calls, g.of).beyond(*named(m.calls, g.by)))
			goal(b, g.what, "≤ "+micro(g.limit), signed(got), got <= g.limit)
		}
		for _, g := range []struct {
			what  string
			looks []look
		}{{"", m.gate}, {", with a ledger", m.ledger}} {
			first, end := g.looks[0], last(g.looks)
			after := fmt.Sprintf(" of the gate after %d calls, of that after %d%s", end.calls, first.calls, g.what)
			goal(b, "memory"+after, fmt.Sprintf("≤ %.2f, or %s more", goalGrown, mib(goalMore)),
				fmt.Sprintf("%.2f, %+.1f MiB", float64(end.resident)/float64(first.resident), float64(end.resident-first.resident)/(1<<10)), !grown(first, end))
			goal(b, "descriptors"+after, "no more", fmt.Sprintf("%+d", end.descriptors-first.descriptors), end.descriptors <= first.descriptors)
		}
	}
	for _, g := range []struct{ what, of, by string }{{"Bash", hookBash, runBash}, {"Write", hookWrite, runWrite}} {
		got := ratio(m.hooks, g.of, g.by)
		goal(b, "the hook of Claude Code for "+g.what+", of fiador run", fmt.Sprintf("≤ %.2f", goalHook), fmt.Sprintf("%.2f", got), got <= goalHook)
	}
}

// grown says whether a gate has more memory than the collector's rhythm explains.
func grown(first, end look) bool {
	return float64(end.resident) > goalGrown*float64(first.resident) && end.resident > first.resident+goalMore
}

func (m *agented) writeCalls(b *bytes.Buffer) {
	b.WriteString("\n### Calls through the gate\n")
	if m.server == "" {
		fmt.Fprintf(b, "\nNot measured: `%s` of the npm package `%s` was not in PATH.\n", mcpServer, mcpPackage)
		return
	}
	fmt.Fprintf(b, `
The MCP server is %[1]s%[2]s%[1]s %[3]s, run by node. A call is that of %[1]sread_text_file%[1]s for a
small file, which the profile lists in %[1]sallowed_tools%[1]s. The client writes one line of JSON-RPC and
waits for the line of the answer; it is part of the benchmark and does nothing else, so that
little of what is measured is its own. A direct session, one through %[1]sfiador mcp gate%[1]s and one
through a gate with %[1]s--ledger%[1]s are open all the time. %[4]d rounds of %[5]d calls by each way, one
after the other, and a difference is that of two calls at the same place of a round. The
mean is that of all calls of a round, of which the table has the median.

The ledger has 1000 entries before, and lies on %[6]s. Before the server sees a recorded call,
its evidence and its entry are written and synced, one call after the other. A line that is as
long as an entry, written to a file beside the ledger and synced, is how long the disk
takes once.

| | median | 99 %% | mean | median beyond direct | mean beyond direct |
|---|---:|---:|---:|---:|---:|
`, "`", mcpPackage, m.server, m.sizes.rounds, m.sizes.calls, m.on)
	direct := map[string]string{pingDirect: pingDirect, pingGate: pingDirect, callDirect: callDirect, callGate: callDirect, callLedger: callDirect}
	for i, s := range m.calls {
		mean := m.rounds[i]
		fmt.Fprintf(b, "| %s | %s | %s | %s |", s.name, micro(median(s.walls())), micro(percentile(s.walls(), 99)), micro(median(mean.walls())))
		if by := direct[s.name]; by != "" {
			fmt.Fprintf(b, " %s | %s |\n", signed(median(s.beyond(*named(m.calls, by)))), signed(median(mean.beyond(*named(m.rounds, by)))))
			continue
		}
		b.WriteString(" | |\n")
	}
}

func (m *agented) writeGrowth(b *bytes.Buffer) {
	if m.server == "" {
		return
	}
	fmt.Fprintf(b, `
### The memory of the gate

The resident memory (%[1]sVmRSS%[1]s) and the descriptors of the process of the gate, without those of
the server, in a session of decided calls. The garbage collector of Go lets the heap grow
between two collections, so one look finds more and another less of it.

| | calls | memory | descriptors | least memory at %[2]d looks | most |
|---|---:|---:|---:|---:|---:|
`, "`", looks)
	for _, g := range []struct {
		what  string
		looks []look
	}{{"decided", m.gate}, {"decided and recorded", m.ledger}} {
		first, end := g.looks[0], last(g.looks)
		less := func(a, b look) int { return int(a.resident - b.resident) }
		fmt.Fprintf(b, "| %s | %d → %d | %s → %s | %d → %d | %s | %s |\n", g.what, first.calls, end.calls, mib(first.resident), mib(end.resident),
			first.descriptors, end.descriptors, mib(slices.MinFunc(g.looks, less).resident), mib(slices.MaxFunc(g.looks, less).resident))
	}
}

func (m *agented) writeHooks(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### The hook

Whole processes, %[2]d rounds. The hook is the line that %[1]sfiador hook install claude-code%[1]s writes,
which %[1]ssh -c%[1]s runs with an event of Claude Code on standard input. Beside it, %[1]ssh -c%[1]s runs
%[1]sfiador run%[1]s of the intent that the event becomes, under the same profile. The shell stays
while the hook runs, because the line says what follows if the hook fails; before
%[1]sfiador run%[1]s there is nothing left for it to do, and it becomes that process.
`, "`", m.sizes.processes)
	for _, p := range [][2]string{{runBash, hookBash}, {runWrite, hookWrite}} {
		besides(b, []series{*named(m.hooks, p[0]), *named(m.hooks, p[1])}, p[0], "fiador run")
	}
}
