package claims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// begunRun returns the record of a run that has begun.
func begunRun(run string) ledger.Record {
	hash := canon.Sum([]byte("any"))
	r := ledger.Record{Kind: ledger.KindBegun, RunID: run, IntentSHA256: hash, ExecutionMode: "execute-sandbox", Mode: "none",
		Policy: "strict", PolicySHA256: hash, InputSHA256: hash, BundleSHA256: hash, Kernel: "1.0.0"}
	r.Stamp(time.Now(), "")
	return r
}

// claimed writes a file with the claims of some runs, and returns it with their log.
func claimed(t testing.TB, entries int) (*os.File, leafFunc) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), Name))
	check(t, err)
	var leaves []tlog.Hash
	for i := range entries {
		e, err := begunRun(fmt.Sprintf("run-%d", i)).Entry()
		check(t, err)
		leaves = append(leaves, ledger.LeafHash(e))
		_, err = fmt.Fprintf(f, "%s\n%s%d]}\n", e, indexesPrefix, i)
		check(t, err)
	}
	return f, func(index int64) (tlog.Hash, error) { return leaves[index], nil }
}

// leafFunc is a log of leaf hashes alone.
type leafFunc func(index int64) (tlog.Hash, error)

func (f leafFunc) Leaf(index, _ int64) (tlog.Hash, error) { return f(index) }
func (leafFunc) Holds(int64, int64) error                 { return nil }

// BenchmarkLoad measures how fast a server reads its claims when it starts.
func BenchmarkLoad(b *testing.B) {
	const entries = 100_000
	f, log := claimed(b, entries)
	for b.Loop() {
		c := InFile(f, nil)
		if _, err := c.Load(entries, log); err != nil || len(c.offsets) != entries {
			b.Fatal(len(c.offsets), err)
		}
	}
	b.ReportMetric(float64(b.N)*entries/b.Elapsed().Seconds(), "entries/s")
}

// TestFailedWrite: a claim whose write failed, and could not be taken back, is not counted. The
// next load reads what is behind the last indexes alone.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	const entries = 600
	good, log := claimed(t, entries)
	c := InFile(good, nil)
	if open, err := c.Load(entries, log); err != nil || len(open) > 0 || c.Count() != entries {
		t.Fatalf("%d claims, %d open: %v", c.Count(), len(open), err)
	}
	readOnly, err := os.Open(good.Name())
	check(t, err)
	defer readOnly.Close()
	before := &c.offsets[0]
	c.file = readOnly
	it, err := NewItem(begunRun("run-next"))
	check(t, err)
	if err := c.Write([]Item{it}); err == nil || errors.Is(err, ErrTakenBack) {
		t.Errorf("write: %v", err)
	}
	c.file = good
	if open, err := c.Load(entries, log); err != nil || len(open) > 0 || c.Count() != entries {
		t.Errorf("%d claims, %d open: %v", c.Count(), len(open), err)
	}
	if &c.offsets[0] != before {
		t.Error("all claims were read again")
	}
}
