package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
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
	return writeSuite(w, name, [3]int{len(tests), failed, 0}, cases.String())
}

// writeSuite writes a document of one test suite. counts are the numbers of its tests,
// failures and errors.
func writeSuite(w io.Writer, name string, counts [3]int, content string) error {
	totals := attribute("name", screen.Plain(name))
	for i, count := range [...]string{"tests", "failures", "errors"} {
		totals += attribute(count, strconv.Itoa(counts[i]))
	}
	head := xml.Header + "<testsuites" + totals + ">\n  <testsuite" + totals + ">\n"
	_, err := io.WriteString(w, head+content+"  </testsuite>\n</testsuites>\n")
	return err
}
