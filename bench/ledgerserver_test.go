package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLedgerServerReport: the section has every table, and says which goal is missed.
func TestLedgerServerReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, d time.Duration) series { return series{name, []sample{{Wall: d}}} }
	m := &ledgerServed{
		sizes: fullServer(41), load: "0.10", after: "2.00", tessera: "v1.0.4", on: "ext4", records: 120_300,
		crowds: []crowdedServer{
			{1, []series{one(ledgerdWay, 5*ms), one(tesseraAdd, 2*ms), one(folderWay, ms)}},
			{64, []series{one(ledgerdWay, 2*ms), one(tesseraAdd, ms), one(folderWay, ms)}},
		},
		reads: []series{
			one(verifyFirst, 900*ms), one(verifyAgain, 600*ms), one(listFirst, 950*ms), one(listAgain, 700*ms), one(verifyFolder, 500*ms), one(listFolder, 400*ms),
		},
		asked: []asking{{"first", 950, 940, 0}, {"second, nothing new", 6, 0, 0}, {"third, 300 more entries", 9, 3, 1}},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"## Ledger server\n", "-only ledgerserver`", "a load average of 0.10 before", "average was 2.00 after", "All data lies on ext4. Tessera is v1.0.4.", "quick run",
		"| records a second of 64 clients, of Tessera's server | ≥ 0.50 | 0.50 | met |",
		"| a record of one client, of one Add of Tessera's server | ≤ 2.00 | 2.50 | **missed** |",
		"| full tiles and bundles that a later verify fetches again | 0 | 1 | **missed** |",
		"| 1 | 200/s | 500/s | 1000/s | 0.40 | 0.20 |", "All 120300 acknowledged records", "a log of 120001 entries",
		"| verify, second | 600 ms | 600 ms | 600 ms | 100 ms | 1.20 |", "| third, 300 more entries | 9 | 3 | 1 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	m.storage = "--mysql x"
	if got := string(m.markdown(machine{}, false)); !strings.Contains(got, "these ratios say nothing") || strings.Contains(got, "--mysql") {
		t.Errorf("with another storage:\n%s", got)
	}
}

// TestLedgerServerMeasured: all of the part runs with few clients and a short log. A second
// verify fetches no full tile again.
func TestLedgerServerMeasured(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	z := quickServer()
	if err := r.ledgerServer(t.Context(), root, builtForTests(t, root, dir), dir, z, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m := r.served
	if len(m.crowds) != len(z.clients) || len(m.reads) != 6 || len(m.asked) != 3 || m.records < int64(z.entries) {
		t.Fatalf("%+v", m)
	}
	for _, c := range m.crowds {
		for _, s := range c.ways {
			if len(s.samples) != z.rounds || slices.Min(s.walls()) <= 0 {
				t.Errorf("%d clients: %s has %+v", c.clients, s.name, s.samples)
			}
		}
	}
	first, second, third := m.asked[0], m.asked[1], m.asked[2]
	if first.tiles == 0 || second.tiles > 0 || third.tiles == 0 || second.again+third.again > 0 || second.requests >= first.requests {
		t.Errorf("%+v", m.asked)
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("the section says:\n%s", got)
	}
}
