package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// BenchmarkRecords measures records of clients over HTTP.
func BenchmarkRecords(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			r := newPlace(b).start(server.Config{Now: time.Now})
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
