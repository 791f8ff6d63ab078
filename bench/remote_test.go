package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRemoteReport: the section has every table, and says which goal is missed, or why there is none.
func TestRemoteReport(t *testing.T) {
	const ms = time.Millisecond
	one := func(name string, d time.Duration) series { return series{name, []sample{{Wall: d}}} }
	m := &remoted{
		sizes: remoteSizes{9, 10_000, 3}, load: "0.10", on: "ext4", temp: "tmpfs", worker: "bazel-bootstrap 4.2.3", java: "openjdk 17", shim: 10_400_000,
		trues: []series{one(remoteTrue, 310*ms), one(bareTrue, 100*ms), one(bareShim, 200*ms), one(localTrue, 50*ms)},
		folders: []series{
			one(remoteCold, 6000*ms), one(remoteWarm, 3000*ms), one(bareCold, 4000*ms), one(bareWarm, 1500*ms), one(itemRun, 1000*ms),
		},
		sent: map[string][]sending{
			remoteTrue: {{2, 900}}, remoteCold: {{10_110, 24_000_000}}, bareCold: {{10_103, 12_000_000}},
			remoteWarm: {{7, 2_000_000}, {8, 2_100_000}, {7, 1_900_000}}, bareWarm: {{5, 9000}},
		},
	}
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| `fiador exec --remote` of `true`, of a bare action | ≤ 3.00 | 3.10 | **missed** |",
		"| uploads of a second run on 10000 files after one has changed | ≤ 7 | 7 | met |",
		"| fiador exec --remote | 310 ms | 310 ms | 310 ms | 210 ms | 3.10 |", "uploads 2 files or messages", "the shim (10.4 MB)",
		"| fiador work run --remote, one file changed | 3000 ms | 3000 ms | 3000 ms | 2000 ms | 3.00 |",
		"Nothing stored, the item takes 1.50 of the time of the bare action; after a change, 2.00.",
		"| fiador work run --remote, one file changed | 7 | 2.0 MB |", "| a bare action, nothing stored | 10103 | 12.0 MB |",
		"on 10000 files of 1 KB in 100 folders", "bazel-bootstrap 4.2.3, openjdk 17", "lie on ext4, and /tmp, where the\nshim copies the inputs to, on tmpfs", "quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
	m.sent[remoteWarm] = []sending{{8, 1}}
	if got := string(m.markdown(machine{}, false)); !strings.Contains(got, "| ≤ 7 | 8 | **missed** |") {
		t.Errorf("with more uploads:\n%s", got)
	}
}

// TestRemoteAbsent: without a worker, the section says that nothing was measured, and why.
func TestRemoteAbsent(t *testing.T) {
	t.Setenv(workerVar, "")
	var r report
	if err := r.remote(t.Context(), "", tools{}, t.TempDir(), quickRemote(), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if got := string(r.remoted.markdown(machine{}, false)); !strings.Contains(got, "Not measured: "+workerVar+" is not set") || strings.Contains(got, "###") {
		t.Errorf("the section says:\n%s", got)
	}
}

// TestRemoteMeasured: all of the part runs on a small folder. A second run uploads the file that has
// changed and what leads to it, with Fiador and without.
func TestRemoteMeasured(t *testing.T) {
	switch {
	case os.Getenv(workerVar) == "":
		t.Skipf("%s is not set: .ci/remote-worker build DIR makes Bazel's RemoteWorker", workerVar)
	case os.Getuid() != 0:
		t.Skip("only root makes a network namespace here")
	}
	executing(t)
	find(t, "tee")
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var r report
	var log bytes.Buffer
	if err := r.remote(t.Context(), root, builtForTests(t, root, dir), dir, quickRemote(), &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	m, z := r.remoted, quickRemote()
	for _, of := range []struct {
		list         []series
		ways, rounds int
	}{{m.trues, 4, z.rounds}, {m.folders, 5, z.edits}} {
		if len(of.list) != of.ways {
			t.Fatalf("%d ways", len(of.list))
		}
		for _, s := range of.list {
			if len(s.samples) != of.rounds || slices.Min(s.walls()) <= 0 {
				t.Errorf("%s has %+v", s.name, s.samples)
			}
		}
	}
	for name, want := range map[string][2]int64{ // of uploads, the least and the most
		remoteTrue: {0, 2}, remoteWarm: {goalBlobs, goalBlobs}, bareWarm: {goalBlobs - 2, goalBlobs - 2},
		remoteCold: {int64(z.files), int64(z.files) + 20}, bareCold: {int64(z.files), int64(z.files) + 20},
	} {
		list := sentBy(m.sent[name], func(s sending) int64 { return s.Blobs })
		if len(list) == 0 || slices.Min(list) < want[0] || slices.Max(list) > want[1] {
			t.Errorf("%s has uploaded %v instead of %v", name, list, want)
		}
	}
	if got := string(m.markdown(machine{}, true)); strings.Contains(got, "%!") {
		t.Errorf("the section says:\n%s", got)
	}
}
