package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// BenchmarkAdd measures one Add to Tessera's driver for a local folder, by batch.
func BenchmarkAdd(b *testing.B) {
	private, _, err := ledger.GenerateKey(rand.Reader, testOrigin)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := ledger.ParseSigner(private)
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t, err := openTree(filepath.Join(b.TempDir(), "log"), signer.NoteSigner(), nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			next := int64(0)
			for b.Loop() {
				batch := make([]item, size)
				for i := range batch {
					batch[i].entry = make([]byte, 800)
					_, _ = rand.Read(batch[i].entry)
				}
				if err := t.add(next, batch); err != nil {
					b.Fatal(err)
				}
				next += int64(size)
			}
			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "entries/s")
			if err := t.close(false); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRecords measures records of clients over HTTP.
func BenchmarkRecords(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			r := newPlace(b).start(config{now: time.Now})
			var next, at atomic.Int64
			var all sync.WaitGroup
			n := int64(b.N)
			b.ResetTimer()
			for range clients {
				all.Go(func() {
					for next.Add(1) <= n {
						if got := r.post(begun(fmt.Sprintf("run-%d", at.Add(1)))); got.status != 200 {
							panic(string(got.body))
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
			start := time.Now()
			r.log(n + 1)
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-to-checkpoint")
			if err := r.stop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkLoad measures how fast a server reads its claims when it starts.
func BenchmarkLoad(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), nameClaims))
	check(b, err)
	const entries = 100_000
	var leaves []tlog.Hash
	for i := range entries {
		r := begun(fmt.Sprintf("run-%d", i))
		r.Stamp(time.Now(), "")
		e, err := r.Entry()
		check(b, err)
		leaves = append(leaves, ledger.LeafHash(e))
		_, err = fmt.Fprintf(f, "%s\n%s%d]}\n", e, indexesPrefix, i)
		check(b, err)
	}
	for b.Loop() {
		c := &fileClaims{file: f}
		if _, err := c.load(entries, leafFunc(func(index int64) (tlog.Hash, error) { return leaves[index], nil })); err != nil || len(c.offsets) != entries {
			b.Fatal(len(c.offsets), err)
		}
	}
	b.ReportMetric(float64(b.N)*entries/b.Elapsed().Seconds(), "entries/s")
}

// leafFunc is a log of leaf hashes alone.
type leafFunc func(index int64) (tlog.Hash, error)

func (f leafFunc) leaf(index, _ int64) (tlog.Hash, error) { return f(index) }
func (leafFunc) holds(int64, int64) error                 { return nil }
