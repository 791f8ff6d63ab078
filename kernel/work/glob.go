package work

import "strings"

// Glob says whether a pattern matches a path. In a segment, "*" stands for any characters and
// "?" for one. A segment "**" stands for any number of segments, and for at least one at the
// end of the pattern. Every other character stands for itself. The time is at most proportional
// to the length of the pattern times that of the path.
func Glob(pattern, path string) bool {
	p := strings.Split(pattern, "/")
	if p[len(p)-1] == "**" {
		p = append(p, "*")
	}
	return wild(p, strings.Split(path, "/"), "**", func(p, s string) bool {
		return wild([]rune(p), []rune(s), '*', func(p, s rune) bool { return p == '?' || p == s })
	})
}

// wild says whether a pattern matches a list. star stands for any number of elements. Where a
// match fails, only the last star is given one element more: an earlier one would gain nothing.
func wild[T comparable](p, s []T, star T, one func(p, s T) bool) bool {
	i, j, last, from := 0, 0, -1, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == star:
			last, from = i, j
			i++
		case i < len(p) && one(p[i], s[j]):
			i, j = i+1, j+1
		case last >= 0:
			from++
			i, j = last+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == star {
		i++
	}
	return i == len(p)
}
