package main

import (
	"bytes"
	"os"
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
		sizes: fullServer(41), load: "0.10", after: "2.00", tessera: "v1.0.4", on: "ext4",
		appends: []*serverAppends{
			{storage: "folders", records: 120_300, ways: []string{ledgerdWay, tesseraAdd, folderWay}, crowds: []crowdedServer{
				{1, []series{one(ledgerdWay, 5*ms), one(tesseraAdd, 2*ms), one(folderWay, ms)}},
				{64, []series{one(ledgerdWay, 2*ms), one(tesseraAdd, ms), one(folderWay, ms)}},
			}},
			{storage: "MySQL and S3", version: "10.11", records: 7, ways: []string{ledgerdWay, tesseraAdd}, crowds: []crowdedServer{
				{64, []series{one(ledgerdWay, 4*ms), one(tesseraAdd, ms)}},
			}},
			{storage: "something else", missing: "its server"},
		},
		logs: []*servedLog{
			{entries: 100_000, imported: 31_250 * ms, reads: []series{
				one(verifyFirst, 900*ms), one(verifyAgain, 600*ms), one(listFirst, 950*ms), one(listAgain, 700*ms), one(verifyFolder, 500*ms), one(listFolder, 400*ms),
			}, asked: []asking{{"first", 950, 940, 0}, {"second, nothing new", 6, 0, 0}, {"third, 300 more entries", 9, 3, 1}}},
			{entries: 1_000_000},
		},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"## Ledger server\n", "-only ledgerserver`", "a load average of 0.10 before", "average was 2.00 after", "All data lies on ext4. Tessera is v1.0.4.", "quick run",
		"| records a second of 64 clients, of Tessera's server, in folders | ≥ 0.50 | 0.50 | met |",
		"| records a second of 64 clients, of Tessera's server, in MySQL and S3 | ≥ 0.50 | 0.25 | **missed** |",
		"| a record of one client, of one Add of Tessera's server, in folders | ≤ 2.00 | 2.50 | **missed** |",
		"| full tiles and bundles that a later verify fetches again | 0 | 1 | **missed** |",
		"| 1 | 200/s | 500/s | 1000/s | 0.40 | 0.20 |", "120300 records were acknowledged", "MariaDB 10.11 and", "| 64 | 250/s | 1000/s | 0.25 |",
		"Not measured: its server is missing", "#### 100000 entries\n\nThe import took 31.2 s.\n",
		"| verify, second | 600 ms | 600 ms | 600 ms | 100 ms | 1.20 |", "| third, 300 more entries | 9 | 3 | 1 |",
		"#### 1000000 entries\n\nThe import had not ended after 30m0s, so there are no figures.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
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
	z.database = os.Getenv("FIADOR_LEDGERD_SERVICES") == "1"
	if err := r.ledgerServer(t.Context(), root, builtForTests(t, root, dir), dir, z, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m := r.served
	checkAppends(t, m.appends[0], z)
	if len(m.logs) != len(z.entries) {
		t.Fatalf("%d logs were read", len(m.logs))
	}
	for _, l := range m.logs {
		if l.imported <= 0 || len(l.reads) != 6 || len(l.asked) != 3 {
			t.Fatalf("%+v", l)
		}
		first, second, third := l.asked[0], l.asked[1], l.asked[2]
		if first.tiles == 0 || second.tiles > 0 || third.tiles == 0 || second.again+third.again > 0 || second.requests >= first.requests {
			t.Errorf("%+v", l.asked)
		}
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("the section says:\n%s", got)
	}
	t.Run("MySQL and S3", func(t *testing.T) {
		if !z.database {
			t.Skip("MariaDB and versitygw are started if FIADOR_LEDGERD_SERVICES is 1")
		}
		checkAppends(t, m.appends[1], z)
	})
}

func checkAppends(t *testing.T, a *serverAppends, z serverSizes) {
	t.Helper()
	if a.missing != "" || len(a.crowds) != len(z.clients) || a.records == 0 {
		t.Fatalf("%+v", a)
	}
	for _, c := range a.crowds {
		for _, s := range c.ways {
			if len(s.samples) != z.rounds || slices.Min(s.walls()) <= 0 {
				t.Errorf("%s, %d clients: %s has %+v", a.storage, c.clients, s.name, s.samples)
			}
		}
	}
}

// TestLedgerServerLimit: an import that takes too long is no error, and has no time. One that
// fails is an error.
func TestLedgerServerLimit(t *testing.T) {
	s := &ledgerScene{scene: &scene{dir: t.TempDir()}}
	s.ledgerd = s.file("ledgerd")
	b := &book{}
	for script, limit := range map[string]time.Duration{"exec sleep 60": time.Millisecond, "exit 2": time.Minute} {
		if err := os.WriteFile(s.ledgerd, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		var l servedLog
		if err := l.importing(t.Context(), s, b, "log", limit); (err == nil) != (limit == time.Millisecond) || l.imported != 0 {
			t.Errorf("%s: %v, %v", script, l.imported, err)
		}
	}
}
