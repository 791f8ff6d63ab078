package receipt

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/fiador/fiador/lazy"
)

// Counts reads the numbers of tests from what a test printed to standard output. It knows two
// forms: lines of go test -json, and TAP. ok says whether the output has one of them.
func Counts(stdout []byte) (passed, failed int, ok bool) {
	if passed, failed, ok = goCounts(stdout); ok {
		return passed, failed, ok
	}
	return tapCounts(stdout)
}

// goCounts counts the tests of go test -json. A line that ends a package names no test.
func goCounts(stdout []byte) (passed, failed int, ok bool) {
	for line := range bytes.Lines(stdout) {
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) != nil || event.Action == "" || event.Package == "" {
			continue
		}
		ok = true
		switch {
		case event.Test == "":
		case event.Action == "pass":
			passed++
		case event.Action == "fail":
			failed++
		}
	}
	return passed, failed, ok
}

// tapLine is a test line of TAP at the outermost level, up to its directive. The number sign of
// a directive is the first that has no backslash before it.
var tapLine = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`^(not )?ok(?:\s|$)(?:(?:[^#\\]|\\.)*#\s*(?i:(todo\b|skip)))?`)
}}

// tapPlan is the line that makes an output TAP.
var tapPlan = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:TAP version 1[34]|1\.\.[0-9]+(?:\s+#.*)?)\s*$`)
}}

// tapCounts counts the tests of TAP. A test that is to do, or skipped, counts as passed, as TAP
// has it.
func tapCounts(stdout []byte) (passed, failed int, ok bool) {
	if !tapPlan.Get().Match(stdout) {
		return 0, 0, false
	}
	for line := range bytes.Lines(stdout) {
		m := tapLine.Get().FindSubmatch(line)
		switch {
		case m == nil:
		case len(m[1]) > 0 && len(m[2]) == 0:
			failed++
		default:
			passed++
		}
	}
	return passed, failed, true
}
