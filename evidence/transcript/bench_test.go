package transcript

import (
	"io"
	"iter"
	"strings"
	"testing"
)

// inPieces is the order of a stream that was read in pieces of n bytes.
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
		"short":  strings.Repeat("an ordinary line of output, as compilers and tests print it: 70 bytes", 1) + "\n",
		"empty":  "\n",
		"umlaut": strings.Repeat("größer ", 10) + "\n",
		"binary": strings.Repeat("\xff\x00bin", 16) + "\n",
		"one":    strings.Repeat("x", size),
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, size/len(line))
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
