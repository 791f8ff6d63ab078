package work

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
)

// The modes of a side.
const (
	File       = "100644"
	Executable = "100755"
	Link       = "120000"
)

// MaxText is how many bytes of a file are compared line by line.
const MaxText = 1 << 20

// Side is a file or a link before or after a change.
type Side struct {
	Mode   string // empty: there is none
	Text   []byte // of a file, or the target of a link
	Large  bool   // the file has more than MaxText bytes, and Text is not given
	Digest string // of a large file: two with equal digests are equal
}

// List is one of the four lists in which edit regions are counted.
type List string

// The lists, in the order in which they claim a path.
const (
	Lambda List = "lambda" // control paths, and what coding agents read as instructions
	Q      List = "q"      // tests
	Pi     List = "pi"     // declared outputs
	O      List = "o"      // the rest
)

// Delta is the number of edit regions by list.
type Delta struct {
	O      int `json:"o"`
	Pi     int `json:"pi"`
	Lambda int `json:"lambda"`
	Q      int `json:"q"`
	Total  int `json:"total"`
}

// Add counts the change of one path.
func (d *Delta) Add(path string, before, after Side, outputs []string) {
	n := Regions(before, after)
	d.Total += n
	switch Class(path, outputs) {
	case Lambda:
		d.Lambda += n
	case Q:
		d.Q += n
	case Pi:
		d.Pi += n
	default:
		d.O += n
	}
}

// Class returns the first list that claims a path.
func Class(path string, outputs []string) List {
	for _, f := range pathname.Faults(path) {
		if f.Code == finding.PathControl || f.Code == finding.AgentPath {
			return Lambda
		}
	}
	switch {
	case isTest(path):
		return Q
	case slices.Contains(outputs, path):
		return Pi
	}
	return O
}

// isTest says whether a segment of a path, or the name of its file, is that of tests.
func isTest(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		switch seg {
		case "test", "tests", "spec", "testdata", "__tests__":
			return true
		}
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, part := range []string{"_test.", ".test.", ".spec."} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasPrefix(name, "test_")
}

// Regions returns the number of edit regions between two sides of a path.
func Regions(before, after Side) int {
	n := 0
	switch {
	case before.Mode == "" && after.Mode == "":
		return 0
	case before.Mode == "" || after.Mode == "":
		return 1
	case before.Mode != after.Mode:
		n = 1
	}
	switch {
	case before.Mode == Link || after.Mode == Link:
		if n == 0 && !bytes.Equal(before.Text, after.Text) {
			n = 1
		}
		return n
	case before.Large && after.Large && before.Digest != "" && before.Digest == after.Digest:
		return n
	case before.Large || after.Large:
		return n + 1
	case bytes.Equal(before.Text, after.Text):
		return n
	case isOpaque(before.Text) || isOpaque(after.Text):
		return n + 1
	}
	return n + edits(string(before.Text), string(after.Text))
}

// isOpaque says whether a file is not compared line by line.
func isOpaque(b []byte) bool {
	return len(b) > MaxText || bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b)
}

// The most pairs of lines that are compared, and for more of them, the lines that count as
// one region.
const (
	maxCells    = 16_000_000
	linesRegion = 100
)

// edits returns the number of edit regions between two texts that differ.
func edits(before, after string) int {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a) == 0 || len(b) == 0:
		return 1
	case len(a) > maxCells/len(b):
		return (max(len(a), len(b)) + linesRegion - 1) / linesRegion
	}
	t := newRests(a, b)
	i, j, n, open := 0, 0, 0, false
	for i < len(a) && j < len(b) {
		if a[i] == b[j] {
			open = false
			i, j = t.next(i+1, j+1)
			continue
		}
		if !open {
			n, open = n+1, true
		}
		if t.below >= t.here-t.step(i, j) {
			i, j = t.next(i+1, j)
		} else {
			i, j = t.next(i, j+1)
		}
	}
	if !open && (i < len(a) || j < len(b)) {
		n++
	}
	return n
}

// rests has the lengths of the longest common subsequences of all rests of two lists of lines.
// Row i is about a[i:]. Bit p of a row is 0 if b[len(b)-1-p:] has a longer one in common with
// a[i:] than b[len(b)-p:] has. So the length for a[i:] and b[j:] is the number of zeros in the
// last len(b)-j bits, and a row follows from the one after it 64 lines at a time (Hyyrö 2004).
type rests struct {
	rows        [][]uint64
	width       int // len(b)
	i, j        int
	here, below int // the lengths for a[i:] and a[i+1:], with b[j:]
}

func newRests(a, b []string) *rests {
	words := (len(b) + 63) / 64
	where := make(map[string][]uint64, len(a))
	for _, line := range a {
		where[line] = nil
	}
	for p := range b {
		line := b[len(b)-1-p]
		mask, shared := where[line]
		if !shared {
			continue
		}
		if mask == nil {
			mask = make([]uint64, words)
			where[line] = mask
		}
		mask[p/64] |= 1 << (p % 64)
	}
	t := &rests{rows: make([][]uint64, len(a)+2), width: len(b)}
	all := make([]uint64, words)
	for w := range all {
		all[w] = ^uint64(0)
	}
	t.rows[len(a)], t.rows[len(a)+1] = all, all
	for i := len(a) - 1; i >= 0; i-- {
		mask, last := where[a[i]], t.rows[i+1]
		if t.rows[i] = last; mask == nil {
			continue
		}
		row, carry := make([]uint64, words), uint64(0)
		for w := range row {
			var sum uint64
			sum, carry = bits.Add64(last[w], last[w]&mask[w], carry)
			row[w] = sum | last[w]&^mask[w]
		}
		t.rows[i] = row
	}
	t.here, t.below = t.count(0, 0), t.count(1, 0)
	return t
}

// count returns the length for a[i:] and b[j:].
func (t *rests) count(i, j int) int {
	n, left := 0, t.width-j
	for w := 0; left > 0; w++ {
		zeros := ^t.rows[i][w]
		if left < 64 {
			zeros &= 1<<left - 1
		}
		n += bits.OnesCount64(zeros)
		left -= 64
	}
	return n
}

// step returns by how much the length for a[i:] and b[j:] exceeds that for b[j+1:].
func (t *rests) step(i, j int) int {
	p := t.width - 1 - j
	return int(^t.rows[i][p/64] >> (p % 64) & 1)
}

// next goes on to a[i:] and b[j:], each at most one line further.
func (t *rests) next(i, j int) (int, int) {
	if j > t.j {
		t.here -= t.step(t.i, t.j)
		t.below -= t.step(t.i+1, t.j)
	}
	if i > t.i {
		t.here, t.below = t.below, t.count(i+1, j)
	}
	t.i, t.j = i, j
	return i, j
}
