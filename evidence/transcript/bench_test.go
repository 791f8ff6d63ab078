package transcript

import (
	"io"
	"iter"
	"strings"
	"testing"
)

// inPieces returns the order of a stream that was read in pieces of n bytes.
func inPieces(s Stream, size, n int64) iter.Seq2[Span, error] {
	return func(yield func(Span, error) bool) {
		for left := size; left > 0; left -= n {
			if !yield(Span{s, min(n, left)}, nil) {
				return
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	const size = 100_000_000
	for name, line := range map[string]string{
		"short":  "an ordinary line of output, as compilers and tests print it: 70 bytes\n",
		"empty":  "\n",
		"umlaut": strings.Repeat("größer ", 10) + "\n",
		"binary": strings.Repeat("\xff\x00bin", 16) + "\n",
		"one":    strings.Repeat("x", size),
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, max(1, min(size/len(line), 5_000_000)))
			r := Run{Argv: []string{"cat"}, Stdout: section(text), Order: inPieces(Stdout, int64(len(text)), piece)}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.WriteLedger(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	const size = 50_000_000
	for name, line := range map[string]string{
		"short":  "an ordinary line of output, as compilers and tests print it: 70 bytes\n",
		"binary": strings.Repeat("\xff\x00bin", 16) + "\n",
		"one":    strings.Repeat("x", size),
	} {
		text := strings.Repeat(line, max(1, size/len(line)/2))
		log := ledgerOf(b, runOf(stdout(text), stderr(text)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(strings.NewReader(log), int64(len(log))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	text := strings.Repeat("an ordinary line of output, as compilers and tests print it: 70 bytes\n", 200_000)
	log := ledgerOf(b, runOf(stdout(text)))
	l := opened(b, log)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		for _, err := range l.Events() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
