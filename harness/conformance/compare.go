package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// compare compares one call with the same call of the reference. Three things may
// differ: the names of the logs, the paths of the working folders, and texts that the
// vector leaves to the program.
func (v Vector) compare(o, ref observation) []Fault {
	if ref.stopped != "" {
		return []Fault{{What: "the reference " + ref.stopped}}
	}
	var faults []Fault
	if a, b := ended(ref), ended(o); a != b {
		faults = append(faults, Fault{"differs from the reference: end", a, b})
	}
	alike := equivalence(o, ref, v.expected.freeLineEnds)
	hold := func(what string, want, got []byte) {
		if w, g := alike(want), alike(got); w != g && !slices.Contains(v.expected.ownWords, what) {
			faults = append(faults, difference("differs from the reference: "+what, w, g))
		}
	}
	hold("stdout", ref.stdout, o.stdout)
	hold("stderr", ref.stderr, o.stderr)
	hold("files", []byte(strings.Join(ref.made(), "\n")), []byte(strings.Join(o.made(), "\n")))
	_, want := ref.log()
	_, got := o.log()
	hold("log", want, got)
	return faults
}

func ended(o observation) string {
	if o.signal != 0 {
		return "signal " + strconv.Itoa(int(o.signal))
	}
	return "exit code " + strconv.Itoa(o.code)
}

// equivalence makes texts of two calls comparable: it gives each call's log and working
// folder the same names.
func equivalence(o, ref observation, freeLineEnds bool) func([]byte) string {
	var pairs []string
	for _, o := range []observation{o, ref} {
		if name := o.logName(); name != "" {
			pairs = append(pairs, name, "LOG")
		}
		pairs = append(pairs, o.dir, "FOLDER")
	}
	names := strings.NewReplacer(pairs...)
	return func(b []byte) string {
		if freeLineEnds {
			b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
		}
		return names.Replace(string(b))
	}
}

// anything is the placeholder in an expected text for the rest of a line, or a part of
// one.
const anything = "{{any}}"

// Limits of the texts of a fault, in bytes.
const (
	maxBrief = 300
	maxLine  = 160
)

// matches says whether got consists of the parts in order, with any text without LF
// between them.
func matches(parts []string, got string) bool {
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for {
		if matches(parts[1:], rest) {
			return true
		}
		if rest == "" || rest[0] == '\n' {
			return false
		}
		rest = rest[1:]
	}
}

// difference is the fault of a text that differs from the wanted one: both texts if they
// are short, else the first line that differs.
func difference(what, want, got string) Fault {
	if len(want) <= maxLine && len(got) <= maxLine {
		return Fault{what + " differs", want, got}
	}
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && matches(strings.Split(a[i], anything), b[i]) {
			continue
		}
		f := Fault{What: fmt.Sprintf("%s differs at line %d", what, i+1), Want: "nothing more", Got: "nothing more"}
		if i < len(a) && a[i] != "" {
			f.Want = line(a[i])
		}
		if i < len(b) && b[i] != "" {
			f.Got = line(b[i])
		}
		return f
	}
	return Fault{what + " differs", brief(want), brief(got)}
}

func line(s string) string { return shorten(s, maxLine) }

func brief(s string) string { return shorten(s, maxBrief) }

// shorten keeps the beginning and the end of a long text.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most*2/3] + " ... " + s[len(s)-most/3:] + " (" + strconv.Itoa(len(s)) + " bytes)"
}
