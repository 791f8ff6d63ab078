package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The goals for tools.
const (
	goalCall    = 1.05 // of the same command as a run action
	goalServer  = 1.3  // of the server alone
	goalIndex   = 2 * time.Millisecond
	goalConnect = time.Millisecond
	goalSpeed   = 500.0 // MB a second
)

// markdown is the section of the report about tools. It stands by itself: it can be from
// another day than the rest.
func (m *called) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Tools", onlyTools, on, m.load, quick)
	m.writeGoals(&b)
	m.writeCommands(&b)
	m.writeServers(&b)
	m.writeIndex(&b)
	m.writeProxy(&b)
	return b.Bytes()
}

// introduce begins a section, and says how it was measured.
func introduce(b *bytes.Buffer, heading, only string, on machine, load string, quick bool) {
	fmt.Fprintf(b, `## %[7]s

Measured by itself with %[1]sgo run -C bench . -only %[8]s%[1]s on %[2]s, %[3]d cores, Linux %[4]s, %[5]s,
with a load average of %[6]s before. All ways of a table run in turn, round by round, in
every second round in the opposite order; a ratio is the median of the ratios of the
rounds, a difference that of the differences, and these are the figures to look at.
`, "`", on.cpu, runtime.NumCPU(), on.kernel, goProgram(), load, heading, only)
	if quick {
		b.WriteString("\nThis was a quick run: its figures show that everything runs, and no more.\n")
	}
}

func (m *called) writeGoals(b *bytes.Buffer) {
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	times := func(what string, limit, got float64) {
		goal(b, what, fmt.Sprintf("≤ %.2f", limit), fmt.Sprintf("%.2f", got), got <= limit)
	}
	beyond := func(what string, limit time.Duration, list []series, of, by string) {
		got := median(named(list, of).beyond(*named(list, by)))
		goal(b, what, "≤ "+micro(limit), signed(got), got <= limit)
	}
	times("a call of type cli, of the run action", goalCall, ratio(m.executed, callWay, actionWay))
	if m.server != "" {
		times("a call of type mcp on one core, of the server alone on all", goalServer, ratio(m.servers, serverWay, sdkWay))
		times("a call of type mcp, of the server alone, both on all cores", goalServer, ratio(m.servers, allCoresWay, sdkWay))
	}
	beyond(fmt.Sprintf("the index of %d tools and one call, beyond the run action", m.sizes.tools), goalIndex, m.planned, manyWay, actionWay)
	beyond("a connection through the proxy, beyond a direct one", goalConnect, m.connects, proxyConn, directConn)
	speed := m.speed(*named(m.copies, proxyConn))
	goal(b, "through the proxy, MB a second", fmt.Sprintf("≥ %.0f", goalSpeed), fmt.Sprintf("%.0f", speed), speed >= goalSpeed)
}

// speed is that of the bytes that come through, in MB a second.
func (m *called) speed(s series) float64 {
	return float64(m.sizes.bytes) / 1e6 / median(s.walls()).Seconds()
}

// besides is a table of series beside one of them.
func besides(b *bytes.Buffer, list []series, by, what string) {
	fmt.Fprintf(b, "\n| | median | min | max | beyond %[1]s | of %[1]s |\n|---|---:|---:|---:|---:|---:|\n", what)
	for _, s := range list {
		walls := s.walls()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.2f |\n", s.name, micro(median(walls)), micro(slices.Min(walls)), micro(slices.Max(walls)),
			signed(median(s.beyond(*named(list, by)))), ratio(list, s.name, by))
	}
}

func (m *called) writeCommands(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A command

%[1]sfiador run --mode execute-sandbox%[1]s under the profile %[2]s, whole processes. The command is
%[1]strue x%[1]s: the one action of the intent, or what its one call becomes. The call also reads
the index, the tool and its adapter, is judged as one more effect, and leaves its answer in
a file, which is judged as all files are and whose hash stands in the result. %[3]d rounds.
`, "`", execProfile, m.sizes.rounds)
	besides(b, m.executed, actionWay, "the run action")
}

func (m *called) writeServers(b *bytes.Buffer) {
	b.WriteString("\n### A server\n")
	if m.server == "" {
		fmt.Fprintf(b, "\nNot measured: `%s` of the npm package `%s` was not in PATH.\n", mcpServer, mcpPackage)
		return
	}
	fmt.Fprintf(b, `
The MCP server is %[1]s%[2]s%[1]s %[3]s, run by node, and reads a small file. fiador starts it
in the sandbox with the limits of the profile %[4]s, one core among them, asks for its tools
by tools/list, holds their digests against the pins, calls one, and ends the server. The
official Go SDK starts it without a sandbox, calls the tool, and asks for no list. Whole
processes, %[5]d rounds. The last way has a profile that is %[4]s with all cores.
`, "`", mcpPackage, m.server, execProfile, m.sizes.servers)
	besides(b, m.servers, sdkWay, "the server alone")
}

func (m *called) writeIndex(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### A large folder

%[1]sfiador run%[1]s in mode plan-only, whole processes. The large folder has %[2]d tools with one
adapter each, and an index of %[3]s. All of the index is read and checked, and of the
documents those of the one call. Without %[1]slarge folder%[1]s the folder has that tool alone, or
none is named. %[4]d rounds.
`, "`", m.sizes.tools, kib(m.indexed), m.sizes.rounds)
	besides(b, m.planned, actionWay, "the run action")
}

func (m *called) writeProxy(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### The proxy

On loopback and in one process: client, proxy and server. A connection is made when the
client has the first byte that the server sends after the ClientHello. Through the proxy
that is two connections, CONNECT, and the check of the ClientHello; the name is looked up
at no cost. %d rounds.
`, m.sizes.connects)
	besides(b, m.connects, directConn, "a direct one")
	fmt.Fprintf(b, "\n%s from the server to the client, without cryptography, %d rounds.\n\n| | median | min | max | MB a second | speed, of a direct one |\n|---|---:|---:|---:|---:|---:|\n",
		size(m.sizes.bytes), m.sizes.copies)
	for _, s := range m.copies {
		walls := s.walls()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.0f | %.2f |\n", s.name, micro(median(walls)), micro(slices.Min(walls)), micro(slices.Max(walls)),
			m.speed(s), ratio(m.copies, directConn, s.name))
	}
}
