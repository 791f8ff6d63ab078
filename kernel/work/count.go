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

// MaxText is how many bytes of a file are compared line by line.
const MaxText = 1 << 20

// Side is a file or a link before or after a change.
type Side struct {
	Mode   string // 100644, 100755 or 120000; empty: there is none
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
	*map[List]*int{Lambda: &d.Lambda, Q: &d.Q, Pi: &d.Pi, O: &d.O}[Class(path, outputs)] += n
}

// Class returns the first list that claims a path.
func Class(path string, outputs []string) List {
	segments := strings.Split(path, "/")
	folder := func(s string) bool {
		return slices.Contains([]string{"test", "tests", "spec", "testdata", "__tests__"}, s)
	}
	control := func(f pathname.Fault) bool { return f.Code == finding.PathControl || f.Code == finding.AgentPath }
	switch {
	case slices.ContainsFunc(pathname.Faults(path), control):
		return Lambda
	case slices.ContainsFunc(segments, folder), matches([]string{"*_test.*", "*.test.*", "*.spec.*", "test_*"}, segments[len(segments)-1]):
		return Q
	case slices.Contains(outputs, path):
		return Pi
	}
	return O
}

// Regions returns the number of edit regions between two sides of a path.
func Regions(before, after Side) int {
	n, link := 0, "120000"
	if before.Mode != after.Mode {
		n = 1
	}
	switch {
	case before.Mode == "" || after.Mode == "":
		return n
	case before.Mode == link && after.Mode == link && !bytes.Equal(before.Text, after.Text):
		return 1
	case before.Mode == link || after.Mode == link:
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

// edits returns the number of edit regions between two texts that differ.
func edits(before, after string) int {
	const maxCells, coarse = 16_000_000, 100 // pairs of lines; above, one region for so many lines
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
		return (max(len(a), len(b)) + coarse - 1) / coarse
	}
	common := rests(a, b)
	i, j, n, kept := 0, 0, 0, true
	for i < len(a) || j < len(b) {
		same := i < len(a) && j < len(b) && a[i] == b[j]
		if kept && !same {
			n++
		}
		kept = same
		switch {
		case same:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common(i+1, j) >= common(i, j+1):
			i++
		default:
			j++
		}
	}
	return n
}

// rests returns the function that gives the length of the longest list of lines that a[i:] and
// b[j:] have in common.
//
// A row of bits is about a[i:]. Bit p is 0 if the last p+1 lines of b have a longer list in
// common with a[i:] than the last p lines have. So the length is the number of zeros among the
// first len(b)-j bits. A row follows from the one about a[i+1:], 64 lines of b at a time (Hyyrö
// 2004). The shorter list lies along the bits.
func rests(a, b []string) func(i, j int) int {
	if len(b) > len(a) {
		turned := rests(b, a)
		return func(i, j int) int { return turned(j, i) }
	}
	words := (len(b) + 63) / 64
	where := make(map[string][]uint64, len(b)) // of a line, its places in b
	for p := range b {
		line := b[len(b)-1-p]
		if where[line] == nil {
			where[line] = make([]uint64, words)
		}
		where[line][p/64] |= 1 << (p % 64)
	}
	rows := make([]uint64, (len(a)+1)*words)
	row := func(i int) []uint64 { return rows[i*words : (i+1)*words] }
	for w := range words {
		row(len(a))[w] = ^uint64(0)
	}
	for i := len(a) - 1; i >= 0; i-- {
		copy(row(i), row(i+1))
		carry := uint64(0)
		for w, places := range where[a[i]] {
			last, sum := row(i)[w], uint64(0)
			sum, carry = bits.Add64(last, last&places, carry)
			row(i)[w] = sum | last&^places
		}
	}
	return func(i, j int) int {
		n := 0
		for w, left := 0, len(b)-j; left > 0; w, left = w+1, left-64 {
			n += bits.OnesCount64(^row(i)[w] << max(64-left, 0))
		}
		return n
	}
}
