package fingerprint

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// A Fingerprint is what a machine decides about vectors, in one line or in full:
//
//	sha256:HASH NAME
//	...
//	fiador-fingerprint kernel=VERSION vectors=COUNT sha256:HASH
//
// A line for each vector, by name in the order of UTF-16 code units, and a last line
// whose hash is that of all lines before it, their LFs included. The last line alone
// is a fingerprint too. Nothing in it is about the machine or the build.
type Fingerprint struct {
	Kernel  string // version of the kernel
	Vectors int
	SHA256  canon.ContentHash
	Prints  []Print // in the order of their names; empty if only the last line is known
}

// New makes the fingerprint of prints that are in the order of their names.
func New(prints []Print) Fingerprint {
	f := Fingerprint{Kernel: kernel.Version, Vectors: len(prints), Prints: prints}
	f.SHA256 = canon.Sum(f.lines())
	return f
}

const (
	fingerprintWord = "fiador-fingerprint"
	maxPrints       = 1 << 20 // maximum vectors of a fingerprint that is read
	maxPrintName    = 256     // bytes
)

// Line returns the last line, with its LF.
func (f Fingerprint) Line() []byte {
	return fmt.Appendf(nil, "%s kernel=%s vectors=%d %s\n", fingerprintWord, f.Kernel, f.Vectors, f.SHA256)
}

// Text returns all lines.
func (f Fingerprint) Text() []byte { return append(f.lines(), f.Line()...) }

func (f Fingerprint) lines() []byte {
	var b bytes.Buffer
	for _, p := range f.Prints {
		b.WriteString(string(p.SHA256) + " " + p.Name + "\n")
	}
	return b.Bytes()
}

// ParseError names the line at which a text stops being a fingerprint.
type ParseError struct {
	Line int // from 1 on
	Msg  string
}

// Error returns the message.
func (e *ParseError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Msg }

// Parse reads the output of Text or Line; the LF at the end may be missing.
// An accepted text gives the same bytes again. The error is always a *ParseError.
func Parse(src []byte) (Fingerprint, error) {
	var f Fingerprint
	text, _ := strings.CutSuffix(string(src), "\n")
	number, ended := 0, false
	fail := func(format string, args ...any) (Fingerprint, error) {
		return Fingerprint{}, &ParseError{Line: number, Msg: fmt.Sprintf(format, args...)}
	}
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if ended {
			return fail("something stands behind the line %q", fingerprintWord)
		}
		if strings.HasPrefix(line, fingerprintWord) {
			if ended = f.readLine(line); !ended {
				return fail(`%s is not "%s kernel=VERSION vectors=COUNT sha256:HASH"`, canon.Quote(line), fingerprintWord)
			}
			continue
		}
		hash, name, _ := strings.Cut(line, " ")
		p := Print{Name: name, SHA256: canon.ContentHash(hash)}
		if !p.SHA256.Valid() || !printName(name) {
			return fail(`%s is neither "sha256:HASH NAME" nor "%s ..."`, canon.Quote(line), fingerprintWord)
		}
		if n := len(f.Prints); n > 0 && canon.Compare(f.Prints[n-1].Name, name) >= 0 {
			return fail("%s does not stand behind %s in the order of names", canon.Quote(name), canon.Quote(f.Prints[n-1].Name))
		}
		f.Prints = append(f.Prints, p)
	}
	switch {
	case !ended:
		return fail("no line %q follows: the text is cut off", fingerprintWord)
	case f.Prints == nil:
		return f, nil
	case len(f.Prints) != f.Vectors:
		return fail("there are %d lines of vectors, and this line says %d", len(f.Prints), f.Vectors)
	case canon.Sum(f.lines()) != f.SHA256:
		return fail("the lines above have another hash than this line says: one of them was changed")
	}
	return f, nil
}

// readLine reads the last line.
func (f *Fingerprint) readLine(line string) bool {
	words := strings.Split(line, " ")
	if len(words) != 4 || words[0] != fingerprintWord {
		return false
	}
	version, named := strings.CutPrefix(words[1], "kernel=")
	count, counted := strings.CutPrefix(words[2], "vectors=")
	n, err := strconv.Atoi(count)
	f.Kernel, f.Vectors, f.SHA256 = version, n, canon.ContentHash(words[3])
	return named && printName(version) && counted && err == nil && n > 0 && n <= maxPrints &&
		strconv.Itoa(n) == count && f.SHA256.Valid()
}

// printName says whether a name is allowed in a fingerprint: printable ASCII, with
// single blanks between words.
func printName(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxPrintName && strings.Join(strings.Fields(s), " ") == s
}
