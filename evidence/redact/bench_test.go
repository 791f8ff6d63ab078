package redact_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/redact"
)

// BenchmarkBytes redacts bodies of 8 MB. Peak is how far the heap grows, in parts of the body, with a collector that
// runs often.
func BenchmarkBytes(b *testing.B) {
	const size = 8_000_000
	for _, c := range []struct{ name, unit string }{
		{"plain", `{"id":1234,"title":"the quick brown fox","tags":["jumps over","the lazy dog"],"at":"2026-01-02T03:04:05Z"},`},
		{"units", `\u0061\u65e5`},
		{"quotes", `{\"id\":\"the fox\"},`},
		{"learned", `{"id":%[1]d,"password":"hunter-%08[1]d","say":"the fox"},`},
		{"tokens", `{"id":%[1]d,"a":"ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2%08[1]d","b":"Bearer abcd%08[1]d"},` + "\n"},
		{"escaped", `{\"id\":%[1]d,\"token\":\"value\u002d%08[1]d\",\"u\":\"https:\/\/u:%08[1]d@h\"},`},
		{"literals", `abcd `},
	} {
		b.Run(c.name, func(b *testing.B) {
			var body bytes.Buffer
			for i := 0; body.Len() < size; i++ {
				if strings.Contains(c.unit, "%") {
					fmt.Fprintf(&body, c.unit, i)
				} else {
					body.WriteString(c.unit)
				}
			}
			rules := newRules(b, redact.Config{Patterns: []string{"EX-[0-9]{4}"}}, "abcd", "a header of the operator")
			defer debug.SetGCPercent(debug.SetGCPercent(5))
			heap := func() uint64 {
				sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
				metrics.Read(sample)
				return sample[0].Value.Uint64()
			}
			runtime.GC()
			before, peak := heap(), uint64(0)
			stop, stopped := make(chan bool), make(chan bool)
			go func() {
				defer close(stopped)
				for peak = before; ; peak = max(peak, heap()) {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
				}
			}()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				rules.Redactor().Bytes(body.Bytes(), true)
			}
			close(stop)
			<-stopped
			b.ReportMetric(float64(peak-before)/size, "peak/body")
		})
	}
}
