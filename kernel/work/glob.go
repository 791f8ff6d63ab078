package work

import (
	"strings"
	"unicode/utf8"
)

// Glob says whether a pattern matches a path. In a segment, "*" stands for any characters and
// "?" for one. A segment "**" stands for any number of segments, and for at least one at the
// end of the pattern. Every other character stands for itself. The time is at most proportional
// to the length of the pattern times the length of the path.
func Glob(pattern, path string) bool {
	p := strings.Split(pattern, "/")
	if p[len(p)-1] == "**" {
		p = append(p, "*")
	}
	return wild(p, strings.Split(path, "/"), "**", segment)
}

// wild says whether a list matches. star stands for any number of elements. Where a star was
// met, only the last one is tried with more elements: an earlier one can gain nothing.
func wild(p, s []string, star string, matches func(p, s string) bool) bool {
	i, j, last, from := 0, 0, -1, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == star:
			last, from = i, j
			i++
		case i < len(p) && matches(p[i], s[j]):
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

// segment matches one segment.
func segment(p, s string) bool {
	i, j, last, from := 0, 0, -1, 0
	for j < len(s) {
		_, size := utf8.DecodeRuneInString(s[j:])
		switch {
		case i < len(p) && p[i] == '*':
			last, from = i, j
			i++
		case i < len(p) && p[i] == '?':
			i, j = i+1, j+size
		case i < len(p) && p[i] == s[j]:
			i, j = i+1, j+1
		case last >= 0:
			from++
			i, j = last+1, from
		default:
			return false
		}
	}
	return strings.Trim(p[i:], "*") == ""
}
