package main

import (
	"bytes"
	"fmt"
	"strings"
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
	b.WriteString("\n### Goals\n\n| | goal | measured | |\n|---|---:|---:|---|\n")
	for _, a := range m.appends {
		a.writeGoals(&b)
	}
	again := 0
	for _, l := range m.logs {
		for _, a := range l.asked {
			again += a.again
		}
	}
	goal(&b, "full tiles and bundles that a later verify fetches again", "0", fmt.Sprint(again), again == 0)
	m.writeAppends(&b)
	m.writeReads(&b)
	return b.Bytes()
}

func (a *serverAppends) writeGoals(b *bytes.Buffer) {
	for _, c := range a.crowds {
		switch share, times := ratio(c.ways, tesseraAdd, ledgerdWay), ratio(c.ways, ledgerdWay, tesseraAdd); c.clients {
		case goalServerAt:
			goal(b, fmt.Sprintf("records a second of %d clients, of Tessera's server, in %s", c.clients, a.storage), fmt.Sprintf("≥ %.2f", goalServerCrowd), fmt.Sprintf("%.2f", share), share >= goalServerCrowd)
		case 1:
			goal(b, "a record of one client, of one Add of Tessera's server, in "+a.storage, fmt.Sprintf("≤ %.2f", goalServerOne), fmt.Sprintf("%.2f", times), times <= goalServerOne)
		}
	}
}

func (m *ledgerServed) writeAppends(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Appends

So many clients send one decision after the other over HTTP/1.1 on this machine, for %.1f s, %d rounds. %s holds the record
against those of its run, stamps it, syncs a claim, adds it to Tessera, syncs the index and signs an ack. Tessera's server
is the handler of its conformance servers (%[4]scmd/conformance%[4]s), which adds what it gets; its batches are at most %[5]d entries
and 2 ms old here, as those of %[3]s are: what it waits by itself would be the time of one client. All acknowledged records stood in
the log, and no other.
`, m.sizes.window.Seconds(), m.sizes.rounds, ledgerdWay, "`", 256)
	for _, a := range m.appends {
		fmt.Fprintf(b, "\n#### In %s\n\n", a.storage)
		switch {
		case a.missing != "":
			fmt.Fprintf(b, "Not measured: %s is missing here.\n", a.missing)
			continue
		case a.version != "":
			fmt.Fprintf(b, `Each log has a database of MariaDB %s and a bucket of versitygw, both on this machine and in the same file system. A commit is
durable when MariaDB answers (%[2]sinnodb_flush_log_at_trx_commit=1%[2]s, no binlog); the bucket gets tiles once a second. Here %[3]s asks the bucket
once a minute for the evidence that all decisions share, and writes the indexes of a batch with the claims of the next one. Tessera's server has as many
connections to the database. %[4]d records were acknowledged.
`, a.version, "`", ledgerdWay, a.records)
		default:
			fmt.Fprintf(b, `A folder is the ledger of one machine, with so many goroutines in one process. %d records were acknowledged.
`, a.records)
		}
		a.writeCrowds(b)
	}
}

// writeCrowds writes a table, in which each way but the first has a rate and is held against.
func (a *serverAppends) writeCrowds(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n| clients | %s |", strings.Join(a.ways, " | "))
	for _, way := range a.ways[1:] {
		fmt.Fprintf(b, " of %s |", way)
	}
	fmt.Fprintf(b, "\n|%s\n", strings.Repeat("---:|", 2*len(a.ways)))
	for _, c := range a.crowds {
		fmt.Fprintf(b, "| %d |", c.clients)
		for _, way := range a.ways {
			fmt.Fprintf(b, " %.0f/s |", c.rate(way))
		}
		for _, way := range a.ways[1:] {
			fmt.Fprintf(b, " %.2f |", ratio(c.ways, way, ledgerdWay))
		}
		b.WriteString("\n")
	}
}

// rate is the records of a second, by the median.
func (c crowdedServer) rate(way string) float64 {
	return 1 / median(named(c.ways, way).walls()).Seconds()
}

func (m *ledgerServed) writeReads(b *bytes.Buffer) {
	fmt.Fprintf(b, `
### Commands that read

%[1]sfiador ledger verify%[1]s and %[1]slist --format jsonl%[1]s of a log on the server, with an empty state folder and then with what the
first left there; and of a folder with as many entries. Whole processes, %[2]d rounds. %[1]sfiador-ledgerd import%[1]s made the log of the
folder, in a new folder (%[1]s--posix%[1]s), and was timed once. It verifies the folder with its evidence, of which all decisions share one blob.
`, "`", m.sizes.reads)
	for _, l := range m.logs {
		fmt.Fprintf(b, "\n#### %d entries\n\n", l.entries)
		if l.imported == 0 {
			fmt.Fprintf(b, "The import had not ended after %s, so there are no figures.\n", m.sizes.limit)
			continue
		}
		fmt.Fprintf(b, "The import took %.1f s.\n", l.imported.Seconds())
		besides(b, l.reads, verifyFolder, "verify of a folder")
		b.WriteString("\nWhat `verify` asked the server for:\n\n| | requests | full tiles and bundles | of them asked for before |\n|---|---:|---:|---:|\n")
		for _, a := range l.asked {
			fmt.Fprintf(b, "| %s | %d | %d | %d |\n", a.what, a.requests, a.tiles, a.again)
		}
	}
}
