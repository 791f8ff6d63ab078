package report

import (
	"encoding/xml"
	"github.com/fiador/fiador/evidence/screen"
	"io"
	"strconv"
	"strings"
)

// Test is one test of a policy; Fault is empty if the test passes.
type Test struct{ Class, Name, Fault string }

// JUnit writes the results of the tests of a policy, as a test suite of that name.
func JUnit(w io.Writer, name string, tests []Test) error {
	failed := 0
	var cases strings.Builder
	for _, t := range tests {
		cases.WriteString("    <testcase" + attribute("classname", screen.Plain(t.Class)) + attribute("name", screen.Plain(t.Name)))
		if t.Fault == "" {
			cases.WriteString("/>\n")
			continue
		}
		failed++
		cases.WriteString(">\n      <failure" + attribute("type", "FAIL") + attribute("message", screen.Plain(t.Fault)) + "/>\n    </testcase>\n")
	}
	totals := attribute("name", screen.Plain(name)) + attribute("tests", strconv.Itoa(len(tests))) +
		attribute("failures", strconv.Itoa(failed)) + attribute("errors", "0")
	_, err := io.WriteString(w, xml.Header+"<testsuites"+totals+">\n  <testsuite"+totals+">\n"+cases.String()+"  </testsuite>\n</testsuites>\n")
	return err
}
