package main

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
