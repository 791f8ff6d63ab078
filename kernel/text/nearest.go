package text

import (
	"strings"
	"unicode/utf8"
)

// Nearest returns the known name that is the most likely correct spelling of name, or
// "". Case, hyphen and underscore do not count. The fewest edits win; then a name that
// is not in present; then the first in known. A name of n characters may be n/3 edits
// away, at least 1 and at most 2.
func Nearest(name string, known []string, present map[string]any) string {
	const most = 2
	folded := foldName(name)
	n := utf8.RuneCountInString(folded)
	best, least, taken := "", most+1, false
	for _, k := range known {
		f := foldName(k)
		m := utf8.RuneCountInString(f)
		if m-n > most || n-m > most {
			continue
		}
		limit := min(max(max(m, n)/3, 1), most)
		_, has := present[k]
		if d := edits(folded, f); d <= limit && (d < least || d == least && taken && !has) {
			best, least, taken = k, d, has
		}
	}
	return best
}

func foldName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
}

// edits returns the number of characters to insert, delete, replace or swap with their
// neighbour to turn a into b. No character is edited twice.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
