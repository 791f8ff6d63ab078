package ledger

import (
	"bytes"
	"context"
	"fmt"
	"testing"
)

// BenchmarkVerify reads a ledger of 5 001 entries: all of every record, and only what a
// quick verification reads.
func BenchmarkVerify(b *testing.B) {
	s := newSigner(b, 1)
	book := newBook(b, s)
	for i := range 5000 {
		book.decide(s, fmt.Sprintf("run_%d", i))
	}
	text := book.text()
	for _, quick := range []bool{true, false} {
		b.Run(fmt.Sprintf("quick=%t", quick), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := Verify(context.Background(), bytes.NewReader(text), Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Quick: quick})
				if err != nil || v.Size != 5001 {
					b.Fatal(v.Size, err)
				}
			}
		})
	}
}

func BenchmarkParseRecord(b *testing.B) {
	entry, err := decided(nil).Entry()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(entry)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRecord(entry); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSkim(b *testing.B) {
	l := lineOf{entry: decisions()[0]}
	b.SetBytes(int64(len(l.entry)))
	b.ReportAllocs()
	for b.Loop() {
		if !l.skim() {
			b.Fatal("not skimmed")
		}
	}
}
