package transcript

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
)

// endless is a text that repeats without end.
type endless string

func (e endless) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, e[off%int64(len(e)):])
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// allocated returns the number of bytes that f allocates, freed ones included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// count is the number of written bytes.
type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}

// TestMemory: 200 MB of output, in one line or in many, are written with 4 MiB of
// allocations in all. The same is true for lines that need more work. The output has the
// right size.
func TestMemory(t *testing.T) {
	const most = 4 << 20
	for name, c := range map[string]struct {
		size int
		line string // repeated
		want int64  // for each line, in the log
	}{
		"one line":            {200 << 20, strings.Repeat("x", 1<<16), 2 << 16},
		"one line of UTF-8":   {32 << 20, strings.Repeat("€", 1<<16), 2 * 3 << 16},
		"one line in base64":  {32 << 20, strings.Repeat("\xff", 3<<14), 7 << 14},
		"many lines":          {200 << 20, strings.Repeat("x", 996) + "\n", 2*997 + int64(len("[SEQ=][STDOUT] "))},
		"many lines, CRLF":    {32 << 20, strings.Repeat("x", 995) + "\r\n", 2*997 - 1 + int64(len("[SEQ=][STDOUT] "))},
		"many lines, no text": {32 << 20, strings.Repeat("\xff", 996) + "\n", 997 + int64(len("[SEQ=][STDOUT] base64:\n")) + 996/3*4},
	} {
		t.Run(name, func(t *testing.T) {
			total := int64(c.size / len(c.line) * len(c.line))
			r := Run{
				Argv: []string{"cmd"}, Stdout: io.NewSectionReader(endless(c.line), 0, total),
				Order: inPieces(Stdout, total, 1<<15),
			}
			var log, merged count
			got := allocated(func() {
				if err := r.WriteLedger(&log); err != nil {
					t.Fatal(err)
				}
			})
			if got > most {
				t.Errorf("%d bytes allocated", got)
			}
			got = allocated(func() {
				if err := r.WriteMerged(&merged); err != nil {
					t.Fatal(err)
				}
			})
			if got > most || int64(merged) != total {
				t.Errorf("merged: %d bytes allocated, %d of %d written", got, merged, total)
			}
			// The rest are numbers, headers, start and exit.
			lines := total / int64(len(c.line))
			if rest := int64(log) - lines*c.want; rest < 0 || rest > 300+lines*6 {
				t.Errorf("%d bytes for %d lines", log, lines)
			}
		})
	}
}

// TestMemoryOfReading: a log of many lines needs no more memory than a log of few. A log
// of one line needs a few times the memory of the line.
func TestMemoryOfReading(t *testing.T) {
	read := func(text string) (size, got uint64) {
		var log bytes.Buffer
		r := runOf(stdout(text))
		if err := r.WriteLedger(&log); err != nil {
			t.Fatal(err)
		}
		got = allocated(func() {
			l, err := Open(bytes.NewReader(log.Bytes()), int64(log.Len()))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.WriteMerged(io.Discard); err != nil {
				t.Fatal(err)
			}
		})
		return uint64(log.Len()), got
	}
	const most = 4 << 20
	for name, line := range map[string]string{"text": strings.Repeat("x", 999) + "\n", "base64": strings.Repeat("\xff", 999) + "\n"} {
		if size, got := read(strings.Repeat(line, 16<<10)); got > most {
			t.Errorf("%s: %d bytes allocated for a log of %d", name, got, size)
		}
	}
	for name, line := range map[string]string{"text": "x", "base64": "\xff"} {
		// Three scans, and a buffer that grows by a quarter each time.
		if size, got := read(strings.Repeat(line, 2<<20)); got > most+16*size {
			t.Errorf("%s: %d bytes allocated for a log of %d", name, got, size)
		}
	}
}
