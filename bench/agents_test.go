package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAgentsReport: the section has every table, and says which goal is missed.
func TestAgentsReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, list ...time.Duration) series {
		s := series{name: name}
		for _, d := range list {
			s.samples = append(s.samples, sample{Wall: d})
		}
		return s
	}
	m := &agented{
		sizes: fullAgents(1), load: "0.10", server: "1.2.3", on: "ext4",
		// The medians of the ways are apart by more than the median of the differences.
		calls: []series{
			one(pingDirect, ms, 2*ms, 3*ms), one(pingGate, 3*ms, 2*ms+90*time.Microsecond, 3*ms),
			one(callDirect, ms, ms, ms), one(callGate, 3*ms, 3*ms, ms), one(callLedger, 9*ms, 9*ms, 9*ms), one(syncedWrite, ms, ms, ms),
		},
		rounds: []series{
			one(pingDirect, ms), one(pingGate, 2*ms), one(callDirect, ms), one(callGate, 5*ms), one(callLedger, 7*ms), one(syncedWrite, ms),
		},
		looks: []look{{"", 1000, 40 << 10, 20 << 10, 13}, {"", 10000, 42 << 10, 20 << 10, 13}, {", recorded", 1000, 40 << 10, 20 << 10, 14}, {", recorded", 10000, 43 << 10, 20 << 10, 15}},
		hooks: []series{one(runBash, 10*ms), one(hookBash, 11*ms), one(runWrite, 10*ms), one(hookWrite, 12*ms)},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| a message that the gate passes on, beyond a direct one | ≤ 100 µs | 90 µs | met |",
		"| a call that the gate decides, beyond a direct one | ≤ 1.00 ms | 2.00 ms | **missed** |",
		"| memory of a gate after 10000 calls, beyond those after 1000 | ≤ 2.0 MiB | 2.0 MiB | met |",
		"| descriptors of a gate after 10000 calls, beyond those after 1000 | ≤ 0 | 0 | met |",
		"| memory of a gate after 10000 calls, recorded, beyond those after 1000 | ≤ 2.0 MiB | 3.0 MiB | **missed** |",
		"| descriptors of a gate after 10000 calls, recorded, beyond those after 1000 | ≤ 0 | 1 | **missed** |",
		"| the hook of Claude Code for Bash, of fiador run | ≤ 1.15 | 1.10 | met |",
		"| the hook of Claude Code for Write, of fiador run | ≤ 1.15 | 1.20 | **missed** |",
		"| tools/call, decided and recorded | 9.00 ms | 9.00 ms | 7.00 ms | 8.00 ms | 6.00 ms |",
		"| a line to a file, and fsync | 1.00 ms | 1.00 ms | 1.00 ms | | |",
		"| 10000 calls, recorded | 43.0 MiB | 20.0 MiB | 15 |",
		"| fiador hook, Write | 12.0 ms | 12.0 ms | 12.0 ms | 2.00 ms | 1.20 |",
		"The ledger lies on ext4", "quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	m.server = ""
	if got := string(m.markdown(machine{}, false)); !strings.Contains(got, "was not in PATH") || strings.Contains(got, "memory") {
		t.Errorf("without a server:\n%s", got)
	}
}

// TestAgentsMeasured: all of the part runs with few calls, as far as its programs are there.
func TestAgentsMeasured(t *testing.T) {
	find(t, "sh")
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	if err := r.agents(t.Context(), builtForTests(t, root, dir), dir, quickAgents(), &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m, z := r.agented, quickAgents()
	check := func(list []series, ways, samples int) {
		t.Helper()
		if len(list) != ways {
			t.Fatalf("%d ways", len(list))
		}
		for _, s := range list {
			if len(s.samples) != samples || slices.Min(s.walls()) <= 0 {
				t.Errorf("%s has %+v", s.name, s.samples)
			}
		}
	}
	check(m.hooks, 4, z.processes)
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") || strings.Contains(got, "Not measured") != (m.server == "") {
		t.Errorf("the section says:\n%s", got)
	}
	if _, err := exec.LookPath(mcpServer); err != nil {
		t.Skipf("the gate is not measured: %v", err)
	}
	check(m.calls, 6, z.rounds*z.calls)
	check(m.rounds, 6, z.rounds)
	if len(m.looks) != 4 {
		t.Fatalf("%+v", m.looks)
	}
	for _, l := range m.looks {
		if l.program <= 0 || l.resident <= l.program || l.descriptors < 3 {
			t.Errorf("a gate has %+v", l)
		}
	}
}
