package main

import (
	"bytes"
	"fmt"
)

// The goals for the ledger server.
const (
	goalServerCrowd = 0.5 // of the rate of Tessera's server, with goalServerAt clients
	goalServerAt    = 64
	goalServerOne   = 2.0 // of the time of Tessera's server, with one client
)

// markdown is the section of the report about the ledger server. It stands by itself: it can be
// from another day than the rest.
func (m *ledgerServed) markdown(on machine, quick bool) []byte {
	var b bytes.Buffer
	introduce(&b, "Ledger server", onlyServer, on, m.load, quick)
	fmt.Fprintf(&b, `All data lies on %s. Tessera is %s. The machine also did other work, and its load
average was %s after: the ratios count.
`, m.on, m.tessera, m.after)
	if m.storage != "" {
		fmt.Fprintf(&b, "\n%s had another storage (%s), and what it is held against had a folder: these ratios say nothing.\n", ledgerdWay, storageVar)
	}
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	for _, c := range m.crowds {
		switch share, times := ratio(c.ways, tesseraAdd, ledgerdWay), ratio(c.ways, ledgerdWay, tesseraAdd); c.clients {
		case goalServerAt:
			goal(&b, fmt.Sprintf("records a second of %d clients, of Tessera's server", c.clients), fmt.Sprintf("≥ %.2f", goalServerCrowd), fmt.Sprintf("%.2f", share), share >= goalServerCrowd)
		case 1:
			goal(&b, "a record of one client, of one Add of Tessera's server", fmt.Sprintf("≤ %.2f", goalServerOne), fmt.Sprintf("%.2f", times), times <= goalServerOne)
		}
	}
	again := 0
	for _, a := range m.asked {
		again += a.again
	}
	goal(&b, "full tiles and bundles that a later verify fetches again", "0", fmt.Sprint(again), again == 0)
	m.writeCrowds(&b)
	m.writeReads(&b)
	return b.Bytes()
}

func (m *ledgerServed) writeCrowds(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Appends

So many clients send one decision after the other over HTTP/1.1 on this machine, for %.1f s, %d rounds. %s holds the record
against those of its run, stamps it, syncs a claim, adds it to Tessera, syncs the index and signs an ack. Tessera's server
is the handler of its conformance server (%[4]scmd/conformance/posix%[4]s), which adds what it gets; its batches are at most %[5]d entries
and 2 ms old here, as those of %[3]s are: the second that it waits by itself would be the time of one client. A folder is
the ledger of one machine, with so many goroutines in one process. All %[6]d acknowledged records stood in the log, and no other.

| clients | %[3]s | Tessera's server | a folder | of Tessera's server | of a folder |
|---:|---:|---:|---:|---:|---:|
`, m.sizes.window.Seconds(), m.sizes.rounds, ledgerdWay, "`", 256, m.records)
	for _, c := range m.crowds {
		fmt.Fprintf(b, "| %d | %.0f/s | %.0f/s | %.0f/s | %.2f | %.2f |\n", c.clients, c.rate(ledgerdWay), c.rate(tesseraAdd), c.rate(folderWay),
			ratio(c.ways, tesseraAdd, ledgerdWay), ratio(c.ways, folderWay, ledgerdWay))
	}
}

// rate is the records of a second, by the median.
func (c crowdedServer) rate(way string) float64 {
	return 1 / median(named(c.ways, way).walls()).Seconds()
}

func (m *ledgerServed) writeReads(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Commands that read

%[1]sfiador ledger verify%[1]s and %[1]slist --format jsonl%[1]s of a log of %[2]d entries on the server, with an empty state folder and
then with what the first left there; and of a folder with as many. Whole processes, %[3]d rounds.
`, "`", max(int64(m.sizes.entries), m.records+1-int64(m.sizes.more)), m.sizes.reads)
	besides(b, m.reads, verifyFolder, "verify of a folder")
	b.WriteString("\nWhat `verify` asked the server for:\n\n| | requests | full tiles and bundles | of them asked for before |\n|---|---:|---:|---:|\n")
	for _, a := range m.asked {
		fmt.Fprintf(b, "| %s | %d | %d | %d |\n", a.what, a.requests, a.tiles, a.again)
	}
}
