package transcript

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// FuzzOpen: an accepted log is written again with the same bytes, and its events have an
// unambiguous form and order.
func FuzzOpen(f *testing.F) {
	log := sound(f)
	f.Add([]byte(log))
	f.Add([]byte(ledgerOf(f, runOf())))
	f.Add([]byte(ledgerOf(f, runOf(stdout(log), stderr("e")))))
	f.Add([]byte(ledgerOf(f, runOf(stdout("\r\r\n\n\r"), stderr("\xff\r\nbase64:\r\n\u2028")))))
	f.Add([]byte(logOf("o", "e\nf", "[STDOUT] o", "[STDERR] e", "[STDERR] f")))
	f.Add([]byte(logOf("\r", "\r\n", "[STDERR] ", "[STDOUT] \r")))
	f.Add([]byte(log[:len(log)-20]))
	f.Fuzz(func(t *testing.T, log []byte) {
		l, err := Open(strings.NewReader(string(log)), int64(len(log)))
		small, errSmall := open(strings.NewReader(string(log)), int64(len(log)), 3)
		if err != nil {
			if wrong, ok := err.(*FormatError); !ok || wrong.Offset < 0 || wrong.Offset > int64(len(log)) {
				t.Fatal(err)
			}
			if _, ok := errSmall.(*FormatError); !ok {
				t.Fatalf("%v, with small pieces %v", err, errSmall)
			}
			return
		}
		if errSmall != nil {
			t.Fatal(errSmall)
		}
		again(t, l, string(log))
		again(t, small, string(log))
		seq := int64(0)
		for e, err := range l.Events() {
			if seq++; err != nil || e.Seq != seq || strings.Contains(e.Text, "\n") {
				t.Fatal(e, err)
			}
			if b, err := e.Bytes(); err != nil || strings.Contains(string(b), "\n") {
				t.Fatal(e, err)
			}
		}
	})
}

// FuzzRun: any output in any order is written as the model says, in pieces of any size,
// and read back.
func FuzzRun(f *testing.F) {
	f.Add("one\ntwo", "err\r\n", "\x04\x05\x02", "a\x00b c", uint32(3), "note\n", uint8(3))
	f.Add("\xff\nbase64:\n", "\xe2\x82\xac\xe2", "\x01\x03\x01\x03", "", uint32(0), "", uint8(1))
	f.Add(sound(f), sound(f), "\xff\xfe", "x", uint32(maxCode), "x", uint8(0))
	f.Add("a\n\n=== STDERR ===\n", "\n--- BEGIN EVENTS ---\n", "", "'", uint32(1), "", uint8(2))
	f.Fuzz(func(t *testing.T, out, errs, order, argv string, code uint32, note string, size uint8) {
		chunks := chunksOf(out, errs, order)
		r := runOf(chunks...)
		r.Argv, r.Code = strings.Split(argv, "\x00"), int(int64(code)&math.MaxInt)
		if note = escape(note); !strings.HasPrefix(note, startPrefix) && !strings.HasPrefix(note, exitPrefix) {
			r.Notes = []string{note, "another"}
		}
		check(t, r, chunks, piece, 1+int(size))
	})
}

// chunksOf cuts two streams: each byte of order takes a part of one of them.
func chunksOf(out, errs, order string) (chunks []chunk) {
	for _, b := range []byte(order) {
		s, from := Stdout, &out
		if b&1 != 0 {
			s, from = Stderr, &errs
		}
		n := min(int(b>>1), len(*from))
		chunks = append(chunks, chunk{s, (*from)[:n]})
		*from = (*from)[n:]
	}
	return append(chunks, chunk{Stderr, errs}, chunk{Stdout, out})
}

// FuzzQuote: a quoted argv is one line of text without control characters.
func FuzzQuote(f *testing.F) {
	f.Add("a b\x00\n\xff")
	f.Fuzz(func(t *testing.T, argv string) { checkQuote(t, strings.Split(argv, "\x00")) })
}

// TestRandomRuns: thousands of short runs of random parts of lines, in pieces of every
// small size.
func TestRandomRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"\n", "\n", "\n", "\r", "\r\n", "a", "bc", "base64:", "€", "\xe2", "\x82", "\xac", "\xf0\x9f", "\xff", "\x00",
		"=== STDOUT ===", "\n=== STDERR ===\n", "\n--- BEGIN EVENTS ---\n", "--- END EVENTS ---", "[SEQ=2][STDOUT] "}
	for range 3000 {
		var chunks []chunk
		for range random.IntN(8) {
			c := chunk{stream: Stdout + Stream(random.IntN(2))}
			for range random.IntN(5) {
				c.text += parts[random.IntN(len(parts))]
			}
			chunks = append(chunks, c)
		}
		check(t, runOf(chunks...), chunks, 1+random.IntN(40))
	}
}
