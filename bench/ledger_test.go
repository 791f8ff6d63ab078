package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// TestBook: a ledger that was written at once verifies in every respect. Its figures are
// right, and it takes another entry.
func TestBook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	b, err := newBook(t.Context(), dir, 700)
	if err != nil {
		t.Fatal(err)
	}
	a, err := disk.Audit(t.Context(), dir, nil, ledger.AuditOptions{Seals: true, Tiles: true})
	if err != nil {
		t.Fatal(err)
	}
	if a.Size != 700 || a.Checkpoint.Size != 700 || a.Tiles != 2 || len(a.Open) > 1 || !a.Sound() {
		t.Errorf("%+v", a)
	}
	r, err := disk.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var bytes int64
	kinds, outcomes := map[ledger.Kind]int{}, map[string]int{}
	for _, e := range r.Lines(t.Context(), 0) {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		bytes += int64(len(e.Line.Entry))
		kinds[e.Record.Kind]++
		outcomes[e.Record.ResultKind]++
	}
	if bytes != b.entryBytes {
		t.Errorf("entries have %d bytes, and not %d", bytes, b.entryBytes)
	}
	if text, err := os.Stat(filepath.Join(dir, "ledger.jsonl")); err != nil || b.allBytes <= text.Size() {
		t.Errorf("the folder has %d bytes: %v", b.allBytes, err)
	}
	if kinds[ledger.KindDecision] < 600 || kinds[ledger.KindBegun] < 50 || outcomes["BUNDLE"] < 500 || outcomes["REFUSE"] < 30 || outcomes["CLARIFY"] < 10 {
		t.Errorf("%v %v", kinds, outcomes)
	}
	if found, err := r.Find(t.Context(), b.run, true); err != nil || len(found) == 0 {
		t.Errorf("run %s: %v, %v", b.run, found, err)
	}
	key, err := disk.ReadKey(b.key)
	if err != nil {
		t.Fatal(err)
	}
	log, err := disk.Open(dir, key, disk.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	rec := nthRecord(0, 1)
	rec.RunID = "another"
	if got, err := log.Append(t.Context(), rec); err != nil || got.Index != 700 || len(got.Warnings) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRecords: equal decisions are equal at any index, and the change of policy in the
// middle flips some decisions.
func TestRecords(t *testing.T) {
	const count = 5000
	var d ledger.Drift
	for n := range count {
		rec := nthRecord(n, count)
		if rec.Kind == ledger.KindDecision {
			d.Add(int64(n), rec)
		}
		if again := nthRecord(n, count); again.RunID != rec.RunID || !again.SameRun(rec) {
			t.Fatalf("record %d differs from itself", n)
		}
	}
	if len(d.Differences) > 0 || len(d.Flips) == 0 {
		t.Errorf("%d differences and %d flips", len(d.Differences), len(d.Flips))
	}
}

func TestReadSyncs(t *testing.T) {
	const text = `10 fdatasync(3</tmp/l/ledger.jsonl>) = 0
11 fsync(5</tmp/l/tile/0/000.next>) = 0
10 fdatasync(3</tmp/l/ledger.jsonl> <unfinished ...>
10 <... fdatasync resumed>) = 0
10 +++ exited with 0 +++
`
	if got := readSyncs(text); got != (syncCount{2, 1}) {
		t.Errorf("%+v", got)
	}
}

func TestCompareReceipts(t *testing.T) {
	for _, tc := range []struct {
		name          string
		receipts      map[int64][]string
		runs          map[int64]string
		lost, doubled int
	}{
		{"all there", map[int64][]string{1: {"a"}, 2: {"b"}}, map[int64]string{1: "a", 2: "b"}, 0, 0},
		{"lost", map[int64][]string{1: {"a"}, 2: {"b"}}, map[int64]string{1: "a"}, 1, 0},
		{"another one", map[int64][]string{1: {"a"}}, map[int64]string{1: "b"}, 1, 0},
		{"one place for two", map[int64][]string{1: {"a", "b"}}, map[int64]string{1: "a"}, 1, 1},
		{"twice", map[int64][]string{1: {"a"}}, map[int64]string{1: "a", 2: "a"}, 0, 1},
	} {
		if lost, doubled := compareReceipts(tc.receipts, tc.runs); lost != tc.lost || doubled != tc.doubled {
			t.Errorf("%s: %d lost and %d doubled", tc.name, lost, doubled)
		}
	}
}

func TestPercentile(t *testing.T) {
	list := []time.Duration{5, 1, 4, 2, 3}
	for of, want := range map[int]time.Duration{1: 1, 20: 1, 50: 3, 80: 4, 95: 5, 100: 5} {
		if got := percentile(list, of); got != want {
			t.Errorf("%d of a hundred: %d", of, got)
		}
	}
	if list[0] != 5 {
		t.Error("reordered")
	}
}

// TestLedgerReport: the section has every table, and says which goal is missed.
func TestLedgerReport(t *testing.T) {
	one := func(name string, times ...time.Duration) series {
		s := series{name: name}
		for _, d := range times {
			s.samples = append(s.samples, sample{Wall: d * time.Millisecond})
		}
		return s
	}
	reads := []series{one("prove RUN", 6), one("verify --quick", 900), one("verify", 9000)}
	m := &recorded{
		sizes:   ledgerSizes{appended: []int{10, 1000}, read: []int{10, 1000}},
		appends: []series{one(nothingWay, 1), one(bareWay, 2), one(appendWay(10), 3), one(appendWay(1000), 4), one(tesseraWay, 12)},
		syncs:   []syncCount{{1, 0}, {2, 1}},
		books:   []*book{{written: 10, entryBytes: 10000, allBytes: 12000}, {written: 1000, entryBytes: 1000000, allBytes: 1400000}},
		crowds:  []crowdRuns{{processes: 64, empty: one("", 30), appends: one("", 120)}},
		reads:   [][]series{append(reads, one(sealsCommand, 7)), reads},
		runs:    []series{one(withoutWay, 11), one(withWay, 14)}, checks: []series{one(checkWay, 200), one(recordWay, 900)},
	}
	m.sizes.intents = 100
	got := string(m.markdown(machine{}, true))
	for _, want := range []string{
		"| append to 10 entries, of an empty Go program | ≤ 3.00 | 3.00 | met |",
		"| append to 1000 entries, of an empty Go program | ≤ 3.00 | 4.00 | **missed** |",
		"| append to 1000 entries, of one to 10 | ≤ 1.10 | 1.33 | **missed** |",
		"| fdatasync of ledger.jsonl, append to 1000 entries | 1 | 2 | **missed** |",
		"| 64 processes at once, of the rate of empty Go programs | ≥ 0.30 | 0.25 | **missed** |",
		"| receipts without an entry, and two for one | 0 | 0 | met |",
		"| fiador ledger verify, 1000 entries | ≤ 8000 ms | 9000 ms | **missed** |",
		"| fiador ledger verify --quick, 1000 entries | ≤ 1500 ms | 900 ms | met |",
		"| fiador run, recorded, beyond fiador run | ≤ 4.00 ms | 3.00 ms | met |",
		"| " + sealsCommand + " | 7.00 ms | 0.0 MiB | more than a minute | |",
		"quick run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a format is wrong:\n%s", got)
	}
}

// TestCrowd: the output of crowd is read, and failures of crowd are errors.
func TestCrowd(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "crowd")
	if err := goTool(t.Context(), ".", "", "build", "-o", bin, "./testdata/crowd"); err != nil {
		t.Fatal(err)
	}
	s, own := &scene{dir: dir}, ledgerTools{crowd: bin}
	x, outputs, err := s.crowd(t.Context(), own, 5, "echo", "word")
	if err != nil || x.Wall <= 0 || !slices.Equal(outputs, slices.Repeat([]string{"word\n"}, 5)) {
		t.Errorf("%v %q: %v", x, outputs, err)
	}
	if _, _, err := s.crowd(t.Context(), own, 2, "false"); err == nil || errors.As(err, new(*json.SyntaxError)) {
		t.Errorf("commands that fail: %v", err)
	}
}
