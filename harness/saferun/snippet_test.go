package saferun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// endOf finds the last lines in the plain way.
func endOf(text string, lines int) (from int64, found int) {
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	list = list[max(0, len(list)-lines):]
	return int64(len(text) - len(strings.Join(list, ""))), len(list)
}

// TestLastLines compares with endOf, for texts whose lines begin and end near the borders
// of the blocks that are read.
func TestLastLines(t *testing.T) {
	const block = 64 << 10
	check := func(text string, lines int) {
		t.Helper()
		from, found, err := lastLines(strings.NewReader(text), int64(len(text)), lines)
		wantFrom, want := endOf(text, lines)
		if from != wantFrom || found != want || err != nil {
			t.Errorf("%d bytes, %d lines: from %d, %d lines, %v; want from %d, %d lines", len(text), lines, from, found, err, wantFrom, want)
		}
	}
	for _, text := range []string{"\n", "x", "x\n", "\nx", "\n\n", "\n\nx", "a\nb", "a\nb\n", "a\nb\n\n", "\n\n\n\n", "\r\n\r\n", "\x00\n\x00"} {
		for lines := 1; lines < 6; lines++ {
			check(text, lines)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 700 {
		size := 1 + r.IntN(4)*block + r.IntN(5)
		if size > 3 {
			size -= r.IntN(3)
		}
		text := bytes.Repeat([]byte("x"), size)
		for range r.IntN(8) {
			text[r.IntN(size)] = '\n'
		}
		for at := 0; at <= size; at += block { // the borders from either end
			for _, i := range []int{at, size - at} {
				if i += r.IntN(5) - 2; i >= 0 && i < size && r.IntN(2) == 0 {
					text[i] = '\n'
				}
			}
		}
		check(string(text), 1+r.IntN(10))
	}
	check(strings.Repeat("\n", 3*block), maxSnippet)
	check(strings.Repeat("\n", block+1), block)
	check(strings.Repeat("x\n", 3*block), maxSnippet)
}

// recorded is a recording of two streams.
func recorded(t *testing.T, stdout, stderr string) *recording {
	t.Helper()
	r := newRecording([]string{"TMPDIR=" + t.TempDir()})
	t.Cleanup(r.close)
	r.add(1, time.Time{}, []byte(stdout))
	r.add(2, time.Time{}, []byte(stderr))
	if r.cut != nil {
		t.Fatal(r.cut)
	}
	return r
}

// TestSnippet: the last lines of each stream that has output, unchanged. A last line
// without LF gets one.
func TestSnippet(t *testing.T) {
	long := strings.Repeat("l", 5<<20)
	var many strings.Builder
	for i := range 10003 {
		fmt.Fprintln(&many, i)
	}
	_, last, _ := strings.Cut(many.String(), "\n2\n")
	for _, tc := range []struct {
		stdout, stderr string
		lines          int
		want           string
	}{
		{"a\nb\n", "c\n", 0, ""},
		{"", "", 5, ""},
		{"a\nb\n", "c\nd\n", 1, "safe-run: last 1 line of stdout:\nb\nsafe-run: last 1 line of stderr:\nd\n"},
		{"a\nb\nc\n", "d", 2, "safe-run: last 2 lines of stdout:\nb\nc\nsafe-run: last 1 line of stderr:\nd\n"},
		{"a\nb\nc", "", 2, "safe-run: last 2 lines of stdout:\nb\nc\n"},
		{"", "a\n", 10000, "safe-run: last 1 line of stderr:\na\n"},
		{"a\n\nb\n\n", "", 3, "safe-run: last 3 lines of stdout:\n\nb\n\n"},
		{"\n", "\n\n\n", 2, "safe-run: last 1 line of stdout:\n\nsafe-run: last 2 lines of stderr:\n\n\n"},
		{"\x00\xff\x1b[2J\r\nb\r", "", 2, "safe-run: last 2 lines of stdout:\n\x00\xff\x1b[2J\r\nb\r\n"},
		{long, "", 1, "safe-run: last 1 line of stdout:\n" + long + "\n"},
		{"a\n" + long + "\n", "b\n" + long + "\nc\n", 2, "safe-run: last 2 lines of stdout:\na\n" + long + "\nsafe-run: last 2 lines of stderr:\n" + long + "\nc\n"},
		{many.String(), "", 10000, "safe-run: last 10000 lines of stdout:\n" + last},
		{"safe-run: last 9 lines of stderr:\n", "", 1, "safe-run: last 1 line of stdout:\nsafe-run: last 9 lines of stderr:\n"},
	} {
		var b strings.Builder
		err := recorded(t, tc.stdout, tc.stderr).snippet(&b, tc.lines)
		if got := b.String(); err != nil || got != tc.want {
			t.Errorf("%d lines of %.40q and %.40q: %v, %.200q", tc.lines, tc.stdout, tc.stderr, err, got)
		}
	}
}

// TestSnippetOfCut: if the last lines were not kept, the snippet does not present other
// lines as the last ones.
func TestSnippetOfCut(t *testing.T) {
	r := newFor(t, filepath.Join(t.TempDir(), "none"))
	model{{1, []byte("a\n")}, {1, []byte(strings.Repeat("\n", inMemory))}, {1, []byte("last\n")}, {2, []byte("last\n")}}.add(r)
	var b strings.Builder
	if err := r.snippet(&b, 2); err != nil || b.String() != "safe-run: last 2 logged lines of stdout:\n\n\n" {
		t.Errorf("%q, %v", &b, err)
	}
}

// TestSnippetFails: a reader that has gone and output that cannot be read back are
// errors.
func TestSnippetFails(t *testing.T) {
	gone := errors.New("gone")
	if err := recorded(t, "a\n", "").snippet(failing{gone}, 1); !errors.Is(err, gone) {
		t.Error(err)
	}
	r := recorded(t, strings.Repeat("x", inMemory+1), "")
	if err := r.streams[0].file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.snippet(io.Discard, 1); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
