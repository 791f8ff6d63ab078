// Package text owns how the kernel reads text: the normalisation of an intent, the
// characters that show nothing or a gap, and closed lists of words.
package text

import (
	"strings"
	"unicode"
)

// Words is a closed list of words, separated by white space.
type Words string

// Has says whether word is one of the words. It is false for a word with white space.
func (l Words) Has(word string) bool { return l.find(word, true) }

// Starts says whether one of the words begins with prefix.
func (l Words) Starts(prefix string) bool { return l.find(prefix, false) }

// find says whether one of the words begins with word, and if whole is set, also ends
// with it. No word has white space, or more than 64 bytes.
func (l Words) find(word string, whole bool) bool {
	if word == "" || len(word) > 64 {
		return false
	}
	for from := 0; ; {
		i := strings.Index(string(l[from:]), word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || l[start-1] <= ' ') && (!whole || end == len(l) || l[end] <= ' ') {
			return !strings.ContainsAny(word, " \t\n")
		}
		from = start + 1
	}
}

// IsWord says whether a character belongs to a word: a letter or a number.
func IsWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
