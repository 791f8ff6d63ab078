package main

import (
	"bytes"
	"fmt"
	"time"
)

// The goals for agents.
const (
	goalDecided = time.Millisecond       // beyond the direct call
	goalPassed  = 100 * time.Microsecond // beyond the direct message
	goalMore    = 2 << 10                // KiB more after all calls than after a tenth
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
		for i := 0; i < len(m.looks); i += 2 {
			first, end := m.looks[i], m.looks[i+1]
			after := fmt.Sprintf(" of a gate after %d calls%s, beyond those after %d", end.calls, end.what, first.calls)
			more := end.resident - first.resident
			goal(b, "memory"+after, "≤ "+mib(goalMore), mib(more), more <= goalMore)
			goal(b, "descriptors"+after, "≤ 0", fmt.Sprint(end.descriptors-first.descriptors), end.descriptors <= first.descriptors)
		}
	}
	for _, g := range []struct{ what, of, by string }{{"Bash", hookBash, runBash}, {"Write", hookWrite, runWrite}} {
		got := ratio(m.hooks, g.of, g.by)
		goal(b, "the hook of Claude Code for "+g.what+", of fiador run", fmt.Sprintf("≤ %.2f", goalHook), fmt.Sprintf("%.2f", got), got <= goalHook)
	}
}

func (m *agented) writeCalls(b *bytes.Buffer) {
	b.WriteString("\n### Calls through the gate\n")
	if m.server == "" {
		fmt.Fprintf(b, "\nNot measured: `%s` of the npm package `%s` was not in PATH.\n", mcpServer, mcpPackage)
		return
	}
	fmt.Fprintf(b, `
The MCP server is %[1]s%[2]s%[1]s %[3]s, run by node, and a
call is that of %[1]sread_text_file%[1]s for a small file, which the profile lists. The client is part
of the benchmark: it writes a line of JSON-RPC and waits for the line of the answer, so that
little of what is measured is its own. A session without a gate, one through %[1]sfiador mcp gate%[1]s,
and one through a gate with %[1]s--ledger%[1]s are open all the time. Each way has %[4]d rounds of %[5]d
calls, one after the other. The median is that of all calls, and a difference that of two calls
at the same place of a round; the mean is that of a round, in the middle of the rounds.

The ledger lies on %[6]s, and has 1000 entries before. The server sees a recorded call when its
evidence and its entry are written and synced. The last line is a file beside the ledger, to
which as many bytes as an entry has are written and synced.

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
the server, in a session of decided calls. The program's file is a part of that memory, which
all processes of fiador share. The garbage collector lets the heap become five times of what is
in use, and so what every call leaves behind would show five times: %[2]s after
9 000 calls are 47 bytes a call, and the goal allows no more.

| | memory | of it the program's file | descriptors |
|---|---:|---:|---:|
`, "`", mib(goalMore))
	for _, l := range m.looks {
		fmt.Fprintf(b, "| %d calls%s | %s | %s | %d |\n", l.calls, l.what, mib(l.resident), mib(l.program), l.descriptors)
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
