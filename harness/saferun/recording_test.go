package saferun

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/transcript"
)

// chunk is the result of one write of a command.
type chunk struct {
	stream int // 1 or 2
	text   []byte
}

// model is the plain recording: every chunk, and a span for each.
type model []chunk

// cut returns the model of the first n bytes.
func (m model) cut(n int64) (kept model) {
	for _, c := range m {
		c.text = c.text[:min(n, int64(len(c.text)))]
		n -= int64(len(c.text))
		kept = append(kept, c)
	}
	return kept
}

func (m model) size() (n int64) {
	for _, c := range m {
		n += int64(len(c.text))
	}
	return n
}

func (m model) run(argv []string, e end) transcript.Run {
	var text [3][]byte
	for _, c := range m {
		text[c.stream] = append(text[c.stream], c.text...)
	}
	section := func(b []byte) *io.SectionReader { return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))) }
	return transcript.Run{
		Argv: argv, Stdout: section(text[1]), Stderr: section(text[2]), Notes: e.notes, Code: e.code,
		Order: func(yield func(transcript.Span, error) bool) {
			for _, c := range m {
				if !yield(transcript.Span{Stream: transcript.Stream(c.stream), N: int64(len(c.text))}, nil) {
					return
				}
			}
		},
	}
}

// randomly returns n chunks: mostly short, with many ends of lines, and a few long ones.
func randomly(seed uint64, n int) (m model) {
	r := rand.New(rand.NewPCG(seed, 1))
	stick := 1 + r.IntN(4) // how seldom the stream changes
	stream := 1 + r.IntN(2)
	const longest = 64 << 10
	all := noise(seed, 3*longest)
	for i, b := range all {
		if all[i] = 'a' + b%26; b < 8 {
			all[i] = '\n'
		} else if i < 1000 && b < 16 {
			all[i] = 0xff
		}
	}
	for range n {
		if r.IntN(stick) == 0 {
			stream = 3 - stream
		}
		size := r.IntN(40)
		if r.IntN(25) == 0 {
			size = r.IntN(longest)
		}
		from := r.IntN(len(all) - size)
		m = append(m, chunk{stream, all[from : from+size]})
	}
	return m
}

// add passes the chunks of the model to a recording. The bytes of a chunk are overwritten
// after the call.
func (m model) add(r *recording) {
	for _, c := range m {
		text := slices.Clone(c.text)
		r.add(c.stream, time.Time{}, text)
		clear(text)
	}
}

// alike fails unless a recording and the model make the same logs: the same sections, and
// the same lines in the same order. The ledger must be readable.
func alike(t *testing.T, r *recording, m model) {
	t.Helper()
	e := end{code: 3, notes: []string{"safe-run note"}}
	argv := []string{"make", "a b"}
	var got, want, gotMerged, wantMerged bytes.Buffer
	observed, plain := r.run(argv, e), m.run(argv, e)
	err := errors.Join(observed.WriteLedger(&got), plain.WriteLedger(&want), observed.WriteMerged(&gotMerged), plain.WriteMerged(&wantMerged))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("the log has %d bytes and is another one than the plain way makes, of %d", got.Len(), want.Len())
	}
	if !bytes.Equal(gotMerged.Bytes(), wantMerged.Bytes()) {
		t.Errorf("the merged log has %d bytes and is another one than the plain way makes, of %d", gotMerged.Len(), wantMerged.Len())
	}
	if _, err := transcript.Open(bytes.NewReader(got.Bytes()), int64(got.Len())); err != nil {
		t.Error(err)
	}
}

func newFor(t *testing.T, folder string) *recording {
	t.Helper()
	r := newRecording([]string{"TMPDIR=" + folder})
	t.Cleanup(r.close)
	return r
}

// TestRecording: sections and order are those of the chunks, in memory and beyond.
func TestRecording(t *testing.T) {
	for _, m := range []model{
		nil,
		{{1, []byte("a\n")}},
		{{2, []byte("a\n")}},
		{{2, []byte("a")}, {1, []byte("b")}, {2, []byte("c\n")}, {1, []byte("d\n")}},
		{{1, nil}, {2, nil}, {1, []byte("a\n")}},
	} {
		r := newFor(t, t.TempDir())
		m.add(r)
		alike(t, r, m)
	}
	beyond := 0
	for seed := range uint64(10) {
		m := randomly(seed, 10+int(seed)*80)
		r := newFor(t, t.TempDir())
		m.add(r)
		if r.cut != nil || r.missed != 0 {
			t.Fatal(r.cut, r.missed)
		}
		alike(t, r, m)
		if r.streams[0].file != nil && r.streams[1].file != nil {
			beyond++
		}
	}
	if beyond == 0 {
		t.Error("no recording was larger than what fits into memory")
	}
}

// alternating returns n changes of the stream, each one byte of the order. Most of them
// have no text, so that the order dominates the measured memory.
func alternating(n int) (m model) {
	for i := range n {
		c := chunk{stream: 1 + i%2}
		if i%16 < 4 {
			c.text = []byte("x\n")[i/2%2:]
		}
		m = append(m, c)
	}
	return m
}

// TestRecordingOrder: the order, too, uses bounded memory, however often the streams
// alternate.
func TestRecordingOrder(t *testing.T) {
	for _, n := range []int{orderBlock - 1, orderBlock, orderBlock + 1, orderBlock + 2, inMemory + 2*orderBlock} {
		m := alternating(n)
		r := newFor(t, t.TempDir())
		m.add(r)
		if len(r.tail) > orderBlock || len(r.order.mem) > inMemory || (r.order.file != nil) != (n > inMemory) {
			t.Errorf("%d bytes of order: %d and %d bytes in memory, a file: %v", n, len(r.tail), len(r.order.mem), r.order.file != nil)
		}
		alike(t, r, m)
	}
}

// TestRecordingReadFails: an order that cannot be read back is an error, and no log.
func TestRecordingReadFails(t *testing.T) {
	r := newFor(t, t.TempDir())
	alternating(inMemory + 2*orderBlock).add(r)
	if err := r.order.file.Close(); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{"ledger": r.run(nil, end{}).WriteLedger, "merged": r.run(nil, end{}).WriteMerged} {
		if err := write(io.Discard); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cutAlike checks a recording that could not keep everything.
func cutAlike(t *testing.T, r *recording, m model, reason error) {
	t.Helper()
	kept := r.streams[0].size + r.streams[1].size
	if !errors.Is(r.cut, reason) || r.missed <= 0 || kept+r.missed != m.size() {
		t.Errorf("%d bytes kept and %d missed of %d: %v", kept, r.missed, m.size(), r.cut)
	}
	alike(t, r, m.cut(kept))
}

// TestRecordingWithoutFolder: if the folder is gone, output beyond memory is counted, and
// the output in memory makes a whole log.
func TestRecordingWithoutFolder(t *testing.T) {
	for seed := range uint64(3) {
		m := randomly(seed, 1000)
		folder := filepath.Join(t.TempDir(), "gone")
		r := newFor(t, folder)
		m.add(r)
		cutAlike(t, r, m, fs.ErrNotExist)
	}
	m := alternating(inMemory + 2*orderBlock)
	r := newFor(t, filepath.Join(t.TempDir(), "gone"))
	m.add(r)
	cutAlike(t, r, m, fs.ErrNotExist)
}

// TestRecordingWriteFails: each of the three spools fails at some point, in memory or with
// a file. From there on no byte of either stream is kept.
func TestRecordingWriteFails(t *testing.T) {
	for seed := range uint64(3) {
		spools := func(r *recording) []*spool { return []*spool{&r.streams[0], &r.streams[1], &r.order} }
		for which := range 3 {
			m := randomly(seed, 700)
			if which == 2 {
				m = append(alternating(orderBlock/2), append(m, alternating(orderBlock)...)...)
			}
			r := newFor(t, t.TempDir())
			at := int(seed) * len(m) / 7
			m[:at].add(r)
			s := spools(r)[which]
			readOnly(t, s)
			m[at:].add(r)
			cutAlike(t, r, m, syscall.EBADF)
		}
	}
}

// readOnly makes a spool keep its bytes and refuse more.
func readOnly(t *testing.T, s *spool) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spool")
	text, err := io.ReadAll(s.section())
	if err == nil {
		err = os.WriteFile(name, text[len(s.mem):], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if s.file, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
}

// TestSpoolFolder: TMPDIR is the folder for output that does not fit into memory.
func TestSpoolFolder(t *testing.T) {
	other := spoolFolder(nil)
	if info, err := os.Stat(other); err != nil || !info.IsDir() {
		t.Errorf("%q: %v", other, err)
	}
	for _, tc := range []struct {
		env  []string
		want string
	}{
		{[]string{"TMPDIR=/x/y"}, "/x/y"},
		{[]string{"TMPDIR=x", "TMPDIR=y"}, "x"},
		{[]string{"TMPDIR="}, other},
		{[]string{"TMPDIRX=x", "A=TMPDIR=x"}, other},
	} {
		if got := spoolFolder(tc.env); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.env, got, tc.want)
		}
	}
}
