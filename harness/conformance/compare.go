package conformance

import (
	"bytes"
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
		if slices.Contains(v.expected.ownWords, what) {
			return
		}
		if w, g := alike(want), alike(got); w != g {
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
